"""Random values of a JSON schema. Constraints that are not built in, such as patterns, are met by chance or not at all:
the caller checks each value against the schema.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from broker_registry.schema_types.draws import Draws

ITEMS_MAX: Final = 3
TEXT_CHARACTERS: Final = (4, 16)
DEEP: Final = 6
"""From this depth on, only required properties and the smallest lists are made."""
DEPTH_MAX: Final = 50
_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
_LETTERS: Final = string.ascii_letters + string.digits
# 2020 to 2029.
_SECONDS: Final = (1_577_836_800, 1_893_456_000)
_WIDE: Final = 1_000_000
_OPTIONAL: Final = 0.8
_BY_KEYWORD: Final = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minLength": "string",
    "maxLength": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
    "multipleOf": "number",
}


class Sampler:
    """Makes values of one schema. `others` are the schemas that it refers to, by name."""

    def __init__(self, root: Any, others: Mapping[str, Any], source: Draws) -> None:
        self._root, self._others, self._source = root, others, source

    def value(self) -> Any:
        """Raises ValueError for a reference that is not found, and for values without an end."""
        return self._value(self._root, self._root, 0)

    def _value(self, schema: Any, document: Any, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise ValueError("values of the schema have no end: give values in a file")
        if schema is True:
            return self._text({})
        if not isinstance(schema, dict):
            raise ValueError("a part of the schema allows no value")
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self._source.choice(schema["enum"])
        reference = schema.get("$ref")
        if isinstance(reference, str):
            found, where = self._found(reference, document)
            return self._value(_merged({**schema, "$ref": None}, found), where, depth + 1)
        for name in ("oneOf", "anyOf"):
            if isinstance(schema.get(name), list) and schema[name]:
                branch = self._source.choice(schema[name])
                return self._value(_merged({**schema, name: None}, branch), document, depth + 1)
        if isinstance(schema.get("allOf"), list) and schema["allOf"]:
            whole = {**schema, "allOf": None}
            for each in schema["allOf"]:
                if isinstance(each, dict) and isinstance(each.get("$ref"), str):
                    each = self._found(each["$ref"], document)[0]
                whole = _merged(whole, each)
            return self._value(whole, document, depth + 1)
        return self._of_type(schema, document, depth)

    def _found(self, reference: str, document: Any) -> tuple[Any, Any]:
        """Return the schema that a reference names, and its document."""
        name, _, pointer = reference.partition("#")
        where = document if not name else self._others.get(name)
        if where is None:
            raise ValueError(f"the schema {name} is not among the references")
        found = where
        for step in filter(None, pointer.split("/")):
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) else None
            if found is None:
                raise ValueError(f"{reference} names no part of the schema")
        return found, where

    def _of_type(self, schema: Mapping[str, Any], document: Any, depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list) and kind:
            kind = self._source.choice(kind)
        if kind not in _TYPES:
            kind = next((each for name, each in _BY_KEYWORD.items() if schema.get(name) is not None), "string")
        if kind == "object":
            return self._object(schema, document, depth)
        if kind == "array":
            return self._array(schema, document, depth)
        if kind == "string":
            return self._text(schema)
        if kind in ("integer", "number"):
            return self._number(schema, is_whole=kind == "integer")
        return None if kind == "null" else self._source.random() < 0.5

    def _object(self, schema: Mapping[str, Any], document: Any, depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = schema.get("required") or []
        found = {}
        for name, each in properties.items():
            if name in required or (depth < DEEP and self._source.random() < _OPTIONAL):
                found[name] = self._value(each, document, depth + 1)
        extra = schema.get("additionalProperties", True)
        for name in required:
            if name not in found:
                found[name] = self._value(extra if extra else True, document, depth + 1)
        while len(found) < _whole(schema.get("minProperties"), 0):
            found[self._letters(8)] = self._value(extra if extra else True, document, depth + 1)
        return found

    def _array(self, schema: Mapping[str, Any], document: Any, depth: int) -> list[Any]:
        least = _whole(schema.get("minItems"), 0)
        most = _whole(schema.get("maxItems"), max(least, ITEMS_MAX))
        count = least if depth >= DEEP else self._source.randint(least, max(least, min(most, least + ITEMS_MAX)))
        items = schema.get("items", True)
        first = schema.get("prefixItems") or (items if isinstance(items, list) else [])
        rest = schema.get("additionalItems", True) if isinstance(items, list) else items
        return [
            self._value(first[at] if at < len(first) else rest, document, depth + 1)
            for at in range(count)
            if at < len(first) or rest is not False
        ]

    def _number(self, schema: Mapping[str, Any], *, is_whole: bool) -> int | float:
        low = _bound(schema, "minimum", "exclusiveMinimum", -1)
        high = _bound(schema, "maximum", "exclusiveMaximum", 1)
        low = (high - _WIDE if high is not None else 0) if low is None else low
        high = low + _WIDE if high is None else high
        step = schema.get("multipleOf")
        if isinstance(step, int | float) and step > 0:
            first, last = math.ceil(low / step), math.floor(high / step)
            return step * self._source.randint(first, max(first, last))
        if is_whole:
            first, last = math.ceil(low), math.floor(high)
            return self._source.randint(first, max(first, last))
        return round(self._source.uniform(low, high), 3)

    def _text(self, schema: Mapping[str, Any]) -> str:
        made = self._of_format(schema.get("format"))
        if made is not None:
            return made
        least = _whole(schema.get("minLength"), min(TEXT_CHARACTERS[0], _whole(schema.get("maxLength"), _WIDE)))
        most = _whole(schema.get("maxLength"), max(least, TEXT_CHARACTERS[1]))
        return self._letters(self._source.randint(least, max(least, min(most, least + TEXT_CHARACTERS[1]))))

    def _letters(self, count: int) -> str:
        return "".join(self._source.choices(_LETTERS, k=count))

    def _of_format(self, name: Any) -> str | None:
        at = datetime.fromtimestamp(self._source.randint(*_SECONDS), UTC)
        made = {
            "date-time": lambda: at.isoformat().replace("+00:00", "Z"),
            "date": lambda: at.date().isoformat(),
            "time": lambda: f"{at.time().isoformat()}Z",
            "uuid": lambda: str(UUID(int=self._source.getrandbits(128), version=4)),
            "email": lambda: f"{self._letters(8).lower()}@example.com",
            "hostname": lambda: f"{self._letters(8).lower()}.example.com",
            "ipv4": lambda: ".".join(str(self._source.randrange(256)) for _ in range(4)),
            "uri": lambda: f"https://example.com/{self._letters(8)}",
        }.get(name if isinstance(name, str) else "")
        return None if made is None else made()


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _bound(schema: Mapping[str, Any], name: str, exclusive: str, sign: int) -> float | None:
    """Return a bound, moved by a little if it is exclusive: a number, or with draft 4 a flag beside the bound."""
    found, strict = schema.get(name), schema.get(exclusive)
    if isinstance(strict, bool):
        strict = found if strict else None
    if isinstance(strict, int | float):
        return strict - sign * (1 if isinstance(strict, int) else 0.001)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _merged(schema: Mapping[str, Any], other: Any) -> Any:
    """Return a schema with the keywords of another one added: properties and required names of both."""
    if not isinstance(other, dict):
        return other if other is False else {name: each for name, each in schema.items() if each is not None}
    found = {name: each for name, each in schema.items() if each is not None}
    for name, each in other.items():
        if name == "properties" and isinstance(found.get(name), dict) and isinstance(each, dict):
            found[name] = {**found[name], **each}
        elif name == "required" and isinstance(found.get(name), list) and isinstance(each, list):
            found[name] = [*found[name], *each]
        else:
            found[name] = each
    return found
