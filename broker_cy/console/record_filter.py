"""Filters of records: by key, value, header and JSON path. A record must match all of them.

A text matches anywhere in the bytes; after `~` it is a regular expression. A JSON path is `$.a.b[0]`, which must
exist, or `$.a.b = "x"` (also != < > <= >=, and ~ for contained text). Without quotes, numbers, true, false and null
have their JSON type, and anything else is a text.

Forms have a field for each part. Commands write a part as key:TEXT, value:TEXT, header:NAME[=TEXT] or json:PATH.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from broker_cy.console.payload import parse_json
from broker_cy.core.classes import dataclass
from broker_cy.wire.records import Record

# Longer patterns are refused.
PATTERN_CHARACTERS_MAX = 1_000
_OPERATORS = ("!=", ">=", "<=", "=", ">", "<", "~")
_STEP = re.compile(r"\.([A-Za-z0-9_\-]+)|\[(\d{1,9})\]|\[\"([^\"]+)\"\]")
_ABSENT = object()

# The parts of a filter by their names in a command.
PARTS: Final = {"key": "key", "value": "value", "header": "header", "json": "path"}
PART_HELP: Final = "key:TEXT, value:TEXT, header:NAME, header:NAME=TEXT or json:PATH"
FILTER_HELP: Final = (
    "A text matches anywhere; after ~ it is a regular expression. A path is $.a.b[0], which must exist, or is "
    'compared: $.a.b = "x" (also != < > <= >=, and ~ for contained text).'
)

Test = Callable[[bytes | None], bool]
Match = Callable[[Record], bool]
Keep = Callable[[Iterable[Record]], list[Record]]


class FilterError(ValueError):
    """A part of a filter that is not understood, with the column of the mistake, from 1."""

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(f"column {column}: {reason}")
        self.column = column
        self.reason = reason


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
        named = ((name, getattr(self, field)) for name, field in PARTS.items())
        return " ".join(f"{name}:{text}" for name, text in named if text)

    def needle(self, *, is_decoded: bool = False) -> bytes | None:
        """Return the longest known bytes that every matching record contains; None if none are known. `is_decoded`: the
        filter looks at decoded keys and values, whose text is not that of the record.
        """
        plain = () if is_decoded else (self.key, self.value)
        texts = [text.encode() for text in plain if text and not text.startswith("~")]
        name, _, wanted = self.header.partition("=")
        texts += [name.strip().encode()] if name.strip() else []
        texts += [wanted.strip().encode()] if wanted.strip() and not wanted.strip().startswith("~") else []
        texts += [path_hint(parse_path(self.path)[0])] if self.path and not is_decoded else []
        return max(texts, key=len, default=b"") or None

    def compile(self) -> Keep:
        """Return a function that returns the matching records of a list. Raises FilterError."""
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


def parse_part(text: str) -> RecordFilter:
    """Return the filter of one part, such as `json:$.user.id = 42`. Raises FilterError, with the column in `text`."""
    name, colon, rest = text.partition(":")
    if not colon or name not in PARTS:
        raise FilterError(1, f"{text!r}: {PART_HELP} is expected")
    start = len(name) + 1 + len(rest) - len(rest.lstrip())
    if not rest.strip():
        raise FilterError(start + 1, f"{PART_HELP} is expected")
    found = RecordFilter(**{PARTS[name]: rest.strip()})
    try:
        found.compile()
    except FilterError as error:
        raise FilterError(start + error.column, error.reason) from None
    return found


def compile_all(filters: Sequence[RecordFilter], *, is_decoded: bool = False) -> tuple[Keep, bytes | None]:
    """Return a function that returns the records of a list that match all filters, and bytes that every such record
    contains; None if none are known. `is_decoded`: see RecordFilter.needle.
    """
    keeps = [each.compile() for each in filters]

    def keep(records: Iterable[Record]) -> list[Record]:
        found = list(records)
        for each in keeps:
            found = each(found)
        return found

    return keep, max((each.needle(is_decoded=is_decoded) or b"" for each in filters), key=len, default=b"") or None


def text_test(text: str) -> Test:
    """Return a test whether bytes contain a text, or match a regular expression after `~`."""
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise FilterError(
            PATTERN_CHARACTERS_MAX + 1, f"{len(text):,} characters: at most {PATTERN_CHARACTERS_MAX:,} are allowed"
        )
    if not text.startswith("~"):
        needle = text.encode()
        return lambda data: data is not None and needle in data
    try:
        pattern = re.compile(text[1:].encode())
    except re.error as error:
        at = len(text[1:].encode()[: error.pos or 0].decode(errors="ignore"))
        raise FilterError(at + 2, f"{text[1:]!r} is not a regular expression: {error.msg}") from None
    return lambda data: data is not None and pattern.search(data) is not None


def header_test(text: str) -> Match:
    """Return a test whether a header `name` exists, or, for `name=text`, whether its value contains the text."""
    name, equals, wanted = text.partition("=")
    name = name.strip()
    if not name:
        raise FilterError(1, f"{text!r}: a header's name, or name=text, is expected")
    if not equals:
        return lambda record: any(each == name for each, _ in record.headers)
    start = len(text) - len(wanted.lstrip())
    try:
        has = text_test(wanted.strip())
    except FilterError as error:
        raise FilterError(start + error.column, error.reason) from None
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
    """Return (steps, operator or "", right-hand side). Raises FilterError, which describes the allowed syntax."""
    allowed = "$.name.other[0] is expected, optionally with = != > < >= <= or ~ and a value, such as $.user.id = 42"
    if not text.startswith("$"):
        raise FilterError(1, f"{text!r} is not a path: {allowed}")
    at = 1
    steps: list[str | int] = []
    while (match := _STEP.match(text, at)) is not None:
        name, index, quoted = match.groups()
        steps.append(int(index) if index is not None else name or quoted)
        at = match.end()
    rest = text[at:].strip()
    if not rest:
        return steps, "", None
    at = text.index(rest, at)
    for operator in _OPERATORS:
        if rest.startswith(operator):
            wanted = rest[len(operator) :].strip()
            return steps, operator, _literal(wanted, operator, len(text.rstrip()) - len(wanted) + 1)
    raise FilterError(at + 1, f"{rest!r} is not understood: {allowed}")


def _literal(text: str, operator: str, column: int) -> Any:
    if not text:
        raise FilterError(column, f"a value is expected after {operator}")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if operator == "~":
        return str(value)
    if operator in (">", "<", ">=", "<=") and (isinstance(value, bool) or not isinstance(value, int | float | str)):
        raise FilterError(column, f"{operator} compares with a number or a text")
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
