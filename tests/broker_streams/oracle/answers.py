"""Kafka's recorded answers: those of seeds 0 to RECORDED - 1 of each family, and those of the scenarios."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from tests.broker_streams.oracle.families.all import FAMILIES, spec_of
from tests.broker_streams.oracle.scenarios.all import ROOMS
from tests.broker_streams.oracle.spec import Answer, Spec
from tests.support import recorded

RECORDED: Final = 24
"""Recorded seeds of a family."""
SCENARIOS: Final = "scenarios_"
SETS: Final = (*FAMILIES, *(f"{SCENARIOS}{room}" for room in ROOMS))
"""The names of all recorded sets."""


def specs(name: str) -> Mapping[str, Spec]:
    """Return the specs of a set by their titles."""
    if name.startswith(SCENARIOS):
        return ROOMS[name.removeprefix(SCENARIOS)]
    return {f"{name} {seed}": spec_of(name, seed) for seed in range(RECORDED)}


def file_of(name: str) -> str:
    """The name of a recording."""
    return f"streams_{name}"


def recorded_answers(name: str) -> dict[str, Answer]:
    """Return Kafka's answers by titles. Raises AssertionError if they belong to other specs."""
    found = recorded.of_kafka(file_of(name))
    wanted = {title: _digest(each) for title, each in specs(name).items()}
    assert {title: each["spec"] for title, each in found.items()} == wanted, (
        f"record {file_of(name)} again: set BROKER_CY_TEST_RECORD=1"
    )
    return {title: each["answer"] for title, each in found.items()}


def form(name: str, answers: list[Answer]) -> dict[str, Any]:
    """Answers as they are recorded."""
    pairs = zip(specs(name).items(), answers, strict=True)
    return {title: {"spec": _digest(spec), "answer": answer} for (title, spec), answer in pairs}


def _digest(spec: Spec) -> str:
    """A digest of the spec of an answer: another spec needs another recording."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:12]
