"""Random values of a schema, as `encode` takes them. Branches of unions are named."""

from __future__ import annotations

import string
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from broker_registry.schema_types.avro.encode import name_of
from broker_registry.schema_types.avro.model import (
    Array,
    Enumeration,
    Fixed,
    Map,
    Record,
    Schema,
    Union,
)
from broker_registry.schema_types.draws import Draws

ITEMS_MAX: Final = 3
TEXT_CHARACTERS: Final = (4, 16)
DEEP: Final = 6
"""From this depth on, lists are empty, and unions have their first branch that is not a record."""
DEPTH_MAX: Final = 100
_LETTERS: Final = string.ascii_letters + string.digits
_DAY_MS: Final = 86_400_000
# 2020 to 2029.
_DAYS: Final = (18_262, 21_914)
_UNITS: Final = {"millis": 1, "micros": 1_000}


def sample(schema: Schema, source: Draws, depth: int = 0) -> Any:
    """Raises ValueError for a schema whose records have no end."""
    if depth > DEPTH_MAX:
        raise ValueError("records of the schema have no end: give values in a file")
    if isinstance(schema, Union):
        return _branch(schema, source, depth)
    if isinstance(schema, Record):
        return {each.name: sample(each.schema, source, depth + 1) for each in schema.fields}
    if isinstance(schema, Array):
        return [sample(schema.items, source, depth + 1) for _ in range(_items(source, depth))]
    if isinstance(schema, Map):
        return {text(source): sample(schema.values, source, depth + 1) for _ in range(_items(source, depth))}
    if isinstance(schema, Enumeration):
        if not schema.symbols:
            raise ValueError(f"{schema.full_name} has no symbols")
        return source.choice(schema.symbols)
    logical = _logical(schema, source)
    if logical is not None:
        return logical
    if isinstance(schema, Fixed):
        return source.randbytes(schema.size)
    return _primitive(schema.type, source)


def _branch(schema: Union, source: Draws, depth: int) -> Any:
    branches = schema.branches
    if depth >= DEEP:
        branches = [each for each in branches if not isinstance(each, Record)][:1] or branches
    if not branches:
        raise ValueError("a union has no branches")
    branch = source.choice(branches)
    return None if branch.type == "null" else {name_of(branch): sample(branch, source, depth + 1)}


def _items(source: Draws, depth: int) -> int:
    return 0 if depth >= DEEP else source.randint(0, ITEMS_MAX)


def text(source: Draws) -> str:
    return "".join(source.choices(_LETTERS, k=source.randint(*TEXT_CHARACTERS)))


def _primitive(kind: str, source: Draws) -> Any:
    if kind == "null":
        return None
    if kind == "boolean":
        return source.random() < 0.5
    if kind == "int":
        return source.randint(-(2**31), 2**31 - 1)
    if kind == "long":
        return source.randint(-(2**63), 2**63 - 1)
    if kind in ("float", "double"):
        return round(source.uniform(-1_000, 1_000), 3)
    return source.randbytes(source.randint(*TEXT_CHARACTERS)) if kind == "bytes" else text(source)


def _logical(schema: Schema, source: Draws) -> Any:
    """Return a value of a logical type; None without one. Times are Avro's numbers."""
    name = schema.props.get("logicalType")
    if not isinstance(name, str):
        return None
    if name == "decimal" and schema.type in ("bytes", "fixed"):
        return _decimal(schema, source)
    if name == "uuid":
        found = UUID(int=source.getrandbits(128), version=4)
        return str(found) if schema.type == "string" else found if schema.type == "fixed" else None
    if name == "date" and schema.type == "int":
        return source.randint(*_DAYS)
    base, _, unit = name.rpartition("-")
    if unit not in _UNITS:
        return None
    if base == "time" and schema.type == ("int" if unit == "millis" else "long"):
        return source.randrange(_DAY_MS) * _UNITS[unit]
    if base in ("timestamp", "local-timestamp") and schema.type == "long":
        return source.randint(_DAYS[0] * _DAY_MS, _DAYS[1] * _DAY_MS) * _UNITS[unit]
    return None


def _decimal(schema: Schema, source: Draws) -> Decimal | None:
    precision, scale = schema.props.get("precision"), schema.props.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    if isinstance(schema, Fixed):
        # Digits that fit into the bytes.
        precision = min(precision, len(str(2 ** (8 * schema.size - 1) - 1)) - 1)
    return Decimal(source.randrange(10**precision)).scaleb(-scale)
