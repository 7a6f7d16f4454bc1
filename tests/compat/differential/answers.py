"""The recorded responses of Apache Kafka, and how ours differ from them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from tests.compat.differential.deliberate import DELIBERATE
from tests.compat.differential.difference import ABSENT, ANY, TEXT, Difference
from tests.compat.differential.plain import Json

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "kafka_4.3.1_answers.json.gz"
Answers = dict[str, dict[str, Json]]  # script-vN -> label -> response


def load() -> Answers:
    with gzip.open(FIXTURE, "rt", encoding="utf-8") as file:
        loaded: Answers = json.load(file)
    return loaded


def save(answers: Answers) -> None:
    """Encode responses so that equal ones have equal bytes."""
    text = json.dumps(answers, ensure_ascii=False, separators=(",", ":"), sort_keys=False)
    FIXTURE.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def differences(theirs: Json, ours: Json, path: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Return (path, theirs, ours) for each field that differs."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for field in sorted({*theirs, *ours}):
            yield from differences(theirs.get(field, ABSENT), ours.get(field, ABSENT), f"{path}.{field}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (their, our) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(their, our, f"{path}[{index}]")
    elif theirs != ours:
        yield path, theirs, ours


def excuse(step: str, path: str, theirs: Json, ours: Json) -> Difference | None:
    """Return the deliberate difference that explains this one, if any."""
    for known in DELIBERATE:
        # Paths contain brackets.
        if (
            fnmatchcase(step, known.step)
            and fnmatchcase(path, known.path.replace("[", "[[]"))
            and _is(theirs, known.theirs)
            and _is(ours, known.ours)
        ):
            return known
    return None


def _is(said: Json, expected: object) -> bool:
    if expected is ANY:
        return True
    if expected is TEXT:
        return isinstance(said, str) and said not in ("", ABSENT)
    return bool(said == expected)
