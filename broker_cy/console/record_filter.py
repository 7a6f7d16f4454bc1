"""Filters of records: by key, value, header and JSON path. A record must match all of them.

A text matches anywhere in the bytes; after `~` it is a regular expression. A JSON path is `$.a.b[0]`, which must
exist, or `$.a.b = "x"` (also != < > <= >=, and ~ for contained text). Without quotes, numbers, true, false and null
have their JSON type, and anything else is a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from broker_cy.console.payload import parse_json
from broker_cy.wire.records import Record

# Longer patterns are refused.
PATTERN_CHARACTERS_MAX = 1_000
_OPERATORS = ("!=", ">=", "<=", "=", ">", "<", "~")
_STEP = re.compile(r"\.([A-Za-z0-9_\-]+)|\[(\d{1,9})\]|\[\"([^\"]+)\"\]")
_ABSENT = object()

Test = Callable[[bytes | None], bool]
Match = Callable[[Record], bool]


@dataclass(frozen=True)
class RecordFilter:
    """The parts of a filter as they were typed; an empty part matches everything."""

    key: str = ""
    value: str = ""
    header: str = ""
    path: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.key or self.value or self.header or self.path)

    def __str__(self) -> str:
        named = (("key", self.key), ("value", self.value), ("header", self.header), ("json", self.path))
        return " ".join(f"{name}:{text}" for name, text in named if text)

    def needle(self) -> bytes | None:
        """Return the longest known bytes that every matching record contains; None if none are known."""
        texts = [text.encode() for text in (self.key, self.value) if text and not text.startswith("~")]
        name, _, wanted = self.header.partition("=")
        texts += [name.strip().encode()] if name.strip() else []
        texts += [wanted.strip().encode()] if wanted.strip() and not wanted.strip().startswith("~") else []
        texts += [path_hint(parse_path(self.path)[0])] if self.path else []
        return max(texts, key=len, default=b"") or None

    def compile(self) -> Callable[[Iterable[Record]], list[Record]]:
        """Return a function that returns the matching records of a list. Raises ValueError, which gives the reason."""
        tests: list[Match] = []
        if self.key:
            key_has = text_test(self.key)
            tests.append(lambda record: key_has(record.key))
        if self.value:
            value_has = text_test(self.value)
            tests.append(lambda record: value_has(record.value))
        if self.header:
            tests.append(header_test(self.header))
        if self.path:
            tests.append(path_test(self.path))
        if not tests:
            return list
        if len(tests) == 1:
            if self.value and not self.value.startswith("~"):
                # By far the most common filter: avoid a call for each of ten million records.
                needle = self.value.encode()
                return lambda records: [
                    record for record in records if (data := record.value) is not None and needle in data
                ]
            only = tests[0]
            return lambda records: [record for record in records if only(record)]
        return lambda records: [record for record in records if all(test(record) for test in tests)]


def text_test(text: str) -> Test:
    """Return a test whether bytes contain a text, or match a regular expression after `~`."""
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"{len(text)} characters: {PATTERN_CHARACTERS_MAX} are allowed")
    if not text.startswith("~"):
        needle = text.encode()
        return lambda data: data is not None and needle in data
    try:
        pattern = re.compile(text[1:].encode())
    except re.error as error:
        raise ValueError(f"{text[1:]!r} is not a regular expression: {error}") from None
    return lambda data: data is not None and pattern.search(data) is not None


def header_test(text: str) -> Match:
    """Return a test whether a header `name` exists, or, for `name=text`, whether its value contains the text."""
    name, equals, wanted = text.partition("=")
    name = name.strip()
    if not name:
        raise ValueError(f"{text!r}: a header's name, or name=text, is expected")
    if not equals:
        return lambda record: any(each == name for each, _ in record.headers)
    has = text_test(wanted.strip())
    return lambda record: any(each == name and has(value) for each, value in record.headers)


def path_test(text: str) -> Match:
    """Return a test whether the value is JSON with the path, or whether the comparison holds for it."""
    steps, operator, wanted = parse_path(text)
    # Records that do not contain the name need not be parsed.
    hint = path_hint(steps)
    compare = _comparison(operator, wanted)

    def test(record: Record) -> bool:
        data = record.value
        if data is None or hint not in data:
            return False
        try:
            found = _follow(parse_json(data), steps)
        except ValueError:
            return False
        return found is not _ABSENT and compare(found)

    return test


def path_hint(steps: list[str | int]) -> bytes:
    """Return bytes that every value with this path contains; empty if the name may be written with escapes."""
    names = [step for step in steps if isinstance(step, str)]
    return json.dumps(names[-1], ensure_ascii=False).encode() if names and names[-1].isascii() else b""


def parse_path(text: str) -> tuple[list[str | int], str, Any]:
    """Return (steps, operator or "", right-hand side). Raises ValueError, which describes the allowed syntax."""
    allowed = "$.name.other[0] is expected, optionally with = != > < >= <= or ~ and a value, such as $.user.id = 42"
    if not text.startswith("$"):
        raise ValueError(f"{text!r} is not a path: {allowed}")
    at = 1
    steps: list[str | int] = []
    while (match := _STEP.match(text, at)) is not None:
        name, index, quoted = match.groups()
        steps.append(int(index) if index is not None else name or quoted)
        at = match.end()
    rest = text[at:].strip()
    if not rest:
        return steps, "", None
    for operator in _OPERATORS:
        if rest.startswith(operator):
            return steps, operator, _literal(rest[len(operator) :].strip(), operator)
    raise ValueError(f"{rest!r} is not understood: {allowed}")


def _literal(text: str, operator: str) -> Any:
    if not text:
        raise ValueError(f"a value is expected after {operator}")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if operator == "~":
        return str(value)
    if operator in (">", "<", ">=", "<=") and (isinstance(value, bool) or not isinstance(value, int | float | str)):
        raise ValueError(f"{operator} compares with a number or a text")
    return value


def _comparison(operator: str, wanted: Any) -> Callable[[Any], bool]:
    def ordered(found: Any) -> bool:
        numbers = (int, float)
        if isinstance(found, bool):
            return False
        return (isinstance(found, numbers) and isinstance(wanted, numbers)) or (
            isinstance(found, str) and isinstance(wanted, str)
        )

    def same(found: Any) -> bool:
        # In Python 1 == True.
        return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)

    table: dict[str, Callable[[Any], bool]] = {
        "": lambda found: True,
        "=": same,
        "!=": lambda found: not same(found),
        ">": lambda found: ordered(found) and found > wanted,
        "<": lambda found: ordered(found) and found < wanted,
        ">=": lambda found: ordered(found) and found >= wanted,
        "<=": lambda found: ordered(found) and found <= wanted,
        "~": lambda found: wanted in (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)),
    }
    return table[operator]


def _follow(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return _ABSENT
            value = value[step]
        else:
            if not isinstance(value, list) or step >= len(value):
                return _ABSENT
            value = value[step]
    return value
