"""JSON text as Jackson prints it: members in their order, numbers as Java prints them, no spaces."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import orjson

from broker_cy.core.java_numbers import double_text
from broker_registry.schema_types.base import InvalidSchema

_ESCAPE: Final = re.compile(rb"\\(?:u([0-9a-f]{4})|.)")


def with_upper_escapes(data: bytes) -> bytes:
    """Return JSON of orjson with the digits of escaped control characters as Jackson writes them; nothing else in
    their texts differs.
    """
    return _ESCAPE.sub(_upper, data) if b"\\u00" in data else data


def _upper(found: re.Match[bytes]) -> bytes:
    digits = found.group(1)
    return found.group(0) if digits is None else b"\\u" + digits.upper()


def json_text(value: Any) -> str:
    """Return a value of JSON as Jackson prints it. Raises InvalidSchema for text that is not valid Unicode."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        # Not a number of JSON: Jackson writes a text.
        return double_text(value) if math.isfinite(value) else f'"{double_text(value)}"'
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        try:
            return with_upper_escapes(orjson.dumps(value)).decode()
        except TypeError:
            raise InvalidSchema("a text of the schema has half of a surrogate pair") from None
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return "{" + ",".join(f"{json_text(key)}:{json_text(each)}" for key, each in value.items()) + "}"
