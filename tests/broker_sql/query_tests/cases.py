"""Cases of ksqlDB's public query tests, read from a copy outside of this repository.

Their licence allows neither their text nor their data here: BROKER_CY_KSQL names a copy of
github.com/confluentinc/ksql, and without it everything that needs them is skipped. A file is JSON
with comments and trailing commas:

    {"tests": [{"name": ..., "format": ["JSON", "AVRO"], "statements": [...], "topics": [...], "properties": {...},
                "inputs": [{"topic", "key", "value", "timestamp", "window", "headers"}], "outputs": [...],
                "post": {"sources": [...], "topics": {...}}, "expectedException": {...}}]}

A case runs once for each `format` and each value of `config`, as {FORMAT} in statements and {CONFIG} in properties.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "BROKER_CY_KSQL"
_RESOURCES: Final = "ksqldb-functional-tests/src/test/resources"
REASON: Final = f"{VARIABLE} names no copy of ksqlDB's repository (git clone https://github.com/confluentinc/ksql)"

# Text stays as it is; comments, and commas before a closing bracket, are left out.
_NOT_JSON: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[\]}])', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic. Key and value are JSON's, with Decimal for numbers that have a point or an exponent.

    `timestamp` is None if the case has none. `window` is (start, end, type), times in ms.
    """

    topic: str
    key: Any
    value: Any
    timestamp: int | None
    window: tuple[int, int, str] | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Case:
    """`name` is unique: file, name, format and configuration. `error` is the expected error, as in the file."""

    file: str
    name: str
    statements: tuple[str, ...]
    properties: Mapping[str, Any]
    topics: tuple[Mapping[str, Any], ...]
    inputs: tuple[Record, ...]
    outputs: tuple[Record, ...]
    post: Mapping[str, Any]
    error: Mapping[str, Any] | None


def folder(name: str = "query-validation-tests") -> Path | None:
    """Return a folder of cases; None if there is no copy."""
    root = os.environ.get(VARIABLE)
    found = Path(root) / _RESOURCES / name if root else None
    return found if found is not None and found.is_dir() else None


def load(path: Path) -> list[Case]:
    """Return the cases of a file. Raises ValueError: the file is not of the format."""
    document = read(path)
    return [case for test in document["tests"] if test.get("enabled", True) for case in expanded(path.stem, test)]


def read(path: Path) -> dict[str, Any]:
    """Return a document that has comments and trailing commas."""
    text = _NOT_JSON.sub(lambda found: found[0] if found[0][0] == '"' else "", path.read_text())
    document = json.loads(text, parse_float=Decimal)
    assert isinstance(document, dict)
    return document


def expanded(file: str, test: dict[str, Any]) -> Iterator[Case]:
    """Yield a test once for each of its formats and configurations."""
    for kind in test.get("format") or [None]:
        for config in test.get("config") or [None]:
            properties = dict(test.get("properties", {}))
            name = f"{file} - {test['name']}"
            if kind is not None:
                name += f" - {kind}"
            if config is not None:
                changed = next(key for key, value in properties.items() if value == "{CONFIG}")
                properties[changed] = config
                name += f" - {changed}={config}"
            yield Case(
                file,
                name,
                tuple(each.replace("{FORMAT}", kind or "{FORMAT}") for each in test["statements"]),
                properties,
                tuple(_with_format(each, kind) for each in test.get("topics", ())),
                tuple(_record(each) for each in test.get("inputs", ())),
                tuple(_record(each) for each in test.get("outputs", ())),
                test.get("post", {}),
                test.get("expectedException"),
            )


def _with_format(topic: dict[str, Any], kind: str | None) -> dict[str, Any]:
    return {key: kind if value == "{FORMAT}" else value for key, value in topic.items()}


def _record(given: dict[str, Any]) -> Record:
    window = given.get("window")
    headers = tuple(
        (each["KEY"], None if each["VALUE"] is None else base64.b64decode(each["VALUE"]))
        for each in given.get("headers", ())
    )
    return Record(
        given["topic"],
        given.get("key"),
        given["value"],
        given.get("timestamp"),
        None if window is None else (window["start"], window["end"], window["type"].upper()),
        headers,
    )
