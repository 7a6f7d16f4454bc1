"""Kafka's recorded answers: those of seeds 0 to RECORDED - 1 of each family, and those of the scenarios."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from tests.broker_streams.oracle.families.all import spec_of
from tests.broker_streams.oracle.spec import Answer, Spec
from tests.support import recorded

RECORDED: Final = 24
"""Recorded seeds of a family."""


def digest(spec: Spec) -> str:
    """A digest of the spec of an answer: another spec needs another recording."""
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:12]


def specs(family: str) -> list[dict[str, Any]]:
    """The specs with recorded answers."""
    return [spec_of(family, seed) for seed in range(RECORDED)]


def name(family: str) -> str:
    return f"streams_{family}"


def recorded_answers(family: str) -> list[Answer]:
    """Return Kafka's answers to `specs`. Raises AssertionError if they belong to other specs."""
    rows = recorded.of_kafka(name(family))
    wanted = [digest(each) for each in specs(family)]
    assert [each["spec"] for each in rows] == wanted, f"record streams_{family} again: set BROKER_CY_TEST_RECORD=1"
    return [each["answer"] for each in rows]


def rows(specs_: list[Any], answers: list[Answer]) -> list[dict[str, Any]]:
    """The form of a recording."""
    return [{"spec": digest(spec), "answer": answer} for spec, answer in zip(specs_, answers, strict=True)]
