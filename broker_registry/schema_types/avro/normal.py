"""The normalized form of Confluent's registry: properties and aliases in order, no empty documents, and defaults of
floating-point fields as such.

Two parts of it are not followed, because they change the meaning: Confluent's registry drops a default that is not of
the first branch of a union, and moves a type without a namespace into the one around it.
"""

from __future__ import annotations

import struct
from typing import Any

from broker_registry.schema_types.avro.model import Array, Map, Named, Record, Schema, Union, children


def normalize(schema: Schema) -> None:
    """Change a schema in place."""
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        each.props = _sorted_props(each)
        if isinstance(each, Named):
            each.aliases.sort()
            each.doc = each.doc or None
        if isinstance(each, Record):
            for field in each.fields:
                field.aliases.sort()
                field.props = _ordered(field.props)
                field.default = _ordered(_as_typed(field.schema, field.default))
        waiting.extend(children(each))


def _sorted_props(schema: Schema) -> dict[str, Any]:
    props = _ordered(schema.props)
    first = ["logicalType"] if isinstance(props.get("logicalType"), str) else []
    if props.get("logicalType") == "decimal":
        first += [name for name in ("precision", "scale") if props.get(name)]
    return {name: props[name] for name in [*first, *(each for each in props if each not in first)]}


def _ordered(value: Any) -> Any:
    """Return a value of JSON with the members of its objects sorted."""
    if isinstance(value, dict):
        return {key: _ordered(each) for key, each in sorted(value.items())}
    return [_ordered(each) for each in value] if isinstance(value, list) else value


def _as_typed(schema: Schema, value: Any) -> Any:
    """Return a default with the numbers that its type has; that of the first branch in a union."""
    if isinstance(schema, Union):
        return _as_typed(schema.branches[0], value) if schema.branches else value
    if isinstance(value, list) and isinstance(schema, Array):
        return [_as_typed(schema.items, each) for each in value]
    if isinstance(value, dict) and isinstance(schema, Map):
        return {key: _as_typed(schema.values, each) for key, each in value.items()}
    if isinstance(value, dict) and isinstance(schema, Record):
        types = {field.name: field.schema for field in schema.fields}
        return {key: _as_typed(types[key], each) if key in types else each for key, each in value.items()}
    if schema.type in ("float", "double") and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if schema.type == "double" else _single(value)
    return value


def _single(value: float) -> float:
    """Return the shortest number that is the same in 32 bits."""
    try:
        data = struct.pack(">f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    return next((float(text) for text in texts if struct.pack(">f", float(text)) == data), float(value))
