"""The check of a default value against the type of its field."""

from __future__ import annotations

from typing import Any

from broker_registry.schema_types.avro.model import (
    ABSENT,
    Array,
    Enumeration,
    Fixed,
    Map,
    Record,
    Schema,
    Union,
)
from broker_registry.schema_types.avro.text import schema_text

_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}


def default_problem(schema: Schema, value: Any) -> str:
    """Return the text of the type that a default does not fit; empty if it fits."""
    return "" if _fits(schema, value) else schema_text(schema)


def _fits(schema: Schema, value: Any) -> bool:
    if isinstance(schema, Union):
        # Since Avro 1.12 any branch may have the default, not the first one only.
        return any(_fits(each, value) for each in schema.branches)
    if isinstance(schema, Array):
        return isinstance(value, list) and all(_fits(schema.items, each) for each in value)
    if isinstance(schema, Map):
        return isinstance(value, dict) and all(_fits(schema.values, each) for each in value.values())
    if isinstance(schema, Record):
        if not isinstance(value, dict):
            return False
        values = ((each, value.get(each.name, each.default)) for each in schema.fields)
        return all(found is not ABSENT and _fits(each.schema, found) for each, found in values)
    if isinstance(schema, Enumeration | Fixed):
        return isinstance(value, str)
    if schema.type in _RANGES:
        low, high = _RANGES[schema.type]
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    if schema.type in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if schema.type == "boolean":
        return isinstance(value, bool)
    if schema.type == "null":
        return value is None
    return isinstance(value, str)
