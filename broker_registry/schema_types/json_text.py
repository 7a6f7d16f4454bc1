"""JSON text as Jackson prints it: members in their order, numbers as Java prints them, no spaces."""

from __future__ import annotations

from typing import Any

import orjson

from broker_cy.core.java_numbers import double_text


def json_text(value: Any) -> str:
    """Return a value of JSON as Jackson prints it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return orjson.dumps(value).decode()
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return "{" + ",".join(f"{json_text(key)}:{json_text(each)}" for key, each in value.items()) + "}"
