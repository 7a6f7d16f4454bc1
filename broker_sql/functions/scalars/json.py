"""Functions of JSON in texts. Numbers with a fraction keep their digits."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from broker_cy.core.java_numbers import double_text
from broker_sql import java_format, types
from broker_sql.functions.definitions import Category, Resolved
from broker_sql.types import SqlType

JSON = Category("JSON")
_TEXT = {"json": "the text with JSON"}
_extract = JSON.scalar(
    "extractjsonfield",
    "The value at a path, as text; NULL if there is none.",
    json="the text with JSON",
    path="the path, such as $.log.lines[0]",
)
_is_json = JSON.scalar("is_json_string", "TRUE if the text is a JSON value.", **_TEXT)
_contains = JSON.scalar(
    "json_array_contains",
    "TRUE if the text is a JSON array with the value as an element.",
    json="the text with JSON",
    value="the value",
)
_length = JSON.scalar("json_array_length", "The number of elements of a JSON array; NULL for other values.", **_TEXT)
_concat = JSON.scalar(
    "json_concat",
    "The union of JSON objects, where the last value of a key wins; if one value is not an object, an array of all.",
    jsons="texts with JSON",
)
_keys = JSON.scalar("json_keys", "The keys of a JSON object; NULL for other values.", **_TEXT)
_records = JSON.scalar("json_records", "The entries of a JSON object, with texts as values.", **_TEXT)
_items = JSON.scalar("json_items", "The elements of a JSON array, as texts with JSON.", **_TEXT)
_to_json = JSON.scalar("to_json_string", "The value as JSON.", value="the value, of any type")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(-?\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_CACHED: Final = 256  # paths that stay parsed


class Fraction(float):
    """A number with its digits as written."""

    text: str

    def __new__(cls, text: str) -> Fraction:
        made = super().__new__(cls, text)
        made.text = text
        return made


def _not_a_number(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_decode = json.JSONDecoder(parse_float=Fraction, parse_constant=_not_a_number).raw_decode


def parsed(text: str) -> Any:
    """Return the first value in the text; what follows it is ignored, as by Jackson. Raises ValueError."""
    try:
        return _decode(text.lstrip(" \t\r\n"))[0]
    except json.JSONDecodeError as error:
        raise ValueError(f"Invalid JSON format: {error}") from None


def written(value: Any) -> str:
    """Return the JSON of a value of `parsed`, without spaces."""
    if isinstance(value, Fraction):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else written(value)


@lru_cache(maxsize=_CACHED)
def _path(text: str) -> tuple[str | int, ...]:
    if not text.startswith("$"):
        raise ValueError(f"JSON path {text!r}: $ is expected at its begin")
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise ValueError(f"JSON path {text!r}: .NAME or [INDEX] is expected at {text[at:]!r}")
        name, index, quoted, double_quoted = found.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(next(each for each in (name, quoted, double_quoted) if each is not None))
        at = found.end()
    return tuple(steps)


@_extract("(json STRING, path STRING) STRING", strict=True)
def _(text: str, path: str) -> str | None:
    found = parsed(text)
    for step in _path(path):
        if isinstance(found, dict):
            found = found.get(str(step))
        elif isinstance(found, list) and (isinstance(step, int) or step.isdecimal()) and 0 <= int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return None if found is None else _plain(found)


@_is_json("(json STRING) BOOLEAN")
def _(text: str | None) -> bool:
    if text is None:
        return False
    try:
        parsed(text)
    except (ValueError, RecursionError):
        return False
    return True


@_contains("(json STRING, value T) BOOLEAN")
def _(text: str | None, value: Any) -> bool:
    if text is None:
        return False
    try:
        array = parsed(text)
    except ValueError:
        return False
    if not isinstance(array, list):
        return False
    if value is None or isinstance(value, bool):
        return any(each is value for each in array)
    kind = Fraction if isinstance(value, float) else type(value)
    return any(type(each) is kind and each == value for each in array)


@_length("(json STRING) INT", strict=True)
def _(text: str) -> int | None:
    found = parsed(text)
    return len(found) if isinstance(found, list) else None


@_concat("(jsons STRING...) STRING")
def _(*texts: str | None) -> str | None:
    values = []
    for each in texts:
        if each is None:
            return None
        values.append(parsed(each))
    if not values:
        return None
    if all(isinstance(each, dict) for each in values):
        return written({key: value for each in values for key, value in each.items()})
    return written([item for each in values for item in (each if isinstance(each, list) else [each])])


@_keys("(json STRING) ARRAY<STRING>", strict=True)
def _(text: str) -> list[str] | None:
    found = parsed(text)
    return list(found) if isinstance(found, dict) else None


@_records("(json STRING) MAP<STRING, STRING>", strict=True)
def _(text: str) -> dict[str, str] | None:
    found = parsed(text)
    return {key: _plain(value) for key, value in found.items()} if isinstance(found, dict) else None


@_items("(json STRING) ARRAY<STRING>", strict=True)
def _(text: str) -> list[str] | None:
    found = parsed(text)
    return [written(each) for each in found] if isinstance(found, list) else None


def writer(kind: SqlType | None) -> Callable[[Any], str]:
    """Return the function that writes values of a type as JSON; None becomes `null`."""
    write = _writer(kind)
    return lambda value: "null" if value is None else write(value)


def _writer(kind: SqlType | None) -> Callable[[Any], str]:
    match kind:
        case types.BOOLEAN:
            return java_format.boolean_text
        case types.INTEGER | types.BIGINT:
            return str
        case types.DOUBLE:
            return lambda value: double_text(value) if value - value == 0 else _quoted(double_text(value))
        case types.Decimal():
            return java_format.decimal_text
        case types.BYTES:
            return lambda value: f'"{base64.b64encode(value).decode()}"'
        case types.DATE:
            return lambda value: f'"{java_format.date_text(value)}"'
        case types.TIME:
            return lambda value: f'"{java_format.time_text(value)}"'
        case types.TIMESTAMP:
            return lambda value: f'"{java_format.timestamp_text(value)}"'
        case types.Array(element):
            each = writer(element)
            return lambda value: "[" + ",".join(map(each, value)) + "]"
        case types.Map(key, inner):
            return _map_writer(key, writer(inner))
        case types.Struct(fields):
            members = [(_quoted(name), name, writer(inner)) for name, inner in fields]
            return lambda value: (
                "{" + ",".join(f"{quoted}:{write(value.get(name))}" for quoted, name, write in members) + "}"
            )
    return _quoted


def _map_writer(key: SqlType, write: Callable[[Any], str]) -> Callable[[Any], str]:
    def name(value: Any) -> str:
        return _quoted(value if isinstance(value, str) else java_format.value_text(value, key))

    return lambda value: "{" + ",".join(f"{name(each)}:{write(inner)}" for each, inner in value.items()) + "}"


@_to_json("(value T) STRING", build=True)
def _(resolved: Resolved) -> Callable[[Any], str]:
    return writer(resolved.types[0])
