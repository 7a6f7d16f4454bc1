"""Cases of ksqlDB's query tests of its REST API: statements, records, and the answers of a server.

    {"name": ..., "statements": [...], "inputs": [...], "outputs": [...], "properties": {...},
     "responses": [{"admin": {"@type": ...}}, {"query": [{"header": {"schema": ...}}, {"row": {"columns": [...]}}]}],
     "expectedError": {"type", "message", "status"}, "inputConditions": {"waitForActivePushQuery": true}}

Queries (SELECT) come last. Topics get names of their own in each run, as in ksqlDB's harness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.broker_sql.query_tests.cases import Case, expanded, read

FOLDER: Final = "rest-query-validation-tests"
_TOPIC: Final = "test_topic"


@dataclass(frozen=True)
class RestCase:
    """`case` has statements and records; `status` of an expected error is 400 unless the case has another one.

    `waits`: records are written when the push query runs.
    """

    case: Case
    responses: tuple[Mapping[str, Any], ...]
    error: Mapping[str, Any] | None
    waits: bool

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def admin(self) -> tuple[str, ...]:
        return tuple(each for each in self.case.statements if not each.startswith("SELECT "))

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(each for each in self.case.statements if each.startswith("SELECT "))


def load(path: Path, suffix: str) -> Iterator[RestCase]:
    """Yield the cases of a file. `suffix` is added to the name of their topic."""
    for number, test in enumerate(read(path)["tests"]):
        if test.get("enabled", True):
            made: dict[str, Any] = _renamed(test, _TOPIC, f"{_TOPIC}_{suffix}_{number}")
            _renumber(made, number)
            for case in expanded(path.stem, made):
                yield RestCase(
                    case,
                    tuple(made.get("responses", ())),
                    made.get("expectedError"),
                    bool(made.get("inputConditions", {}).get("waitForActivePushQuery")),
                )


def _renumber(test: dict[str, Any], number: int) -> None:
    """Give schemas ids that no other case has: a registry never gives an id to another schema."""
    for topic in test.get("topics", ()):
        for part in ("keySchemaId", "valueSchemaId"):
            old = topic.get(part)
            if old is not None:
                topic[part] = 1_000_000 + 1_000 * number + old
                pattern = re.compile(rf"(_SCHEMA_ID\s*=\s*){old}\b", re.IGNORECASE)
                test["statements"] = [pattern.sub(rf"\g<1>{topic[part]}", each) for each in test["statements"]]


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, dict):
        return {key: _renamed(each, old, new) for key, each in value.items()}
    return [_renamed(each, old, new) for each in value] if isinstance(value, list) else value
