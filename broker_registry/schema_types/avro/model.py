"""Avro schemas as objects. Named types are one object in all places that use them, so that schemas may be recursive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class Absent(Enum):
    """An enumeration, because its member stays the same object in a copy."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""The default of a field without one; None is the default null."""


@dataclass(eq=False, slots=True)
class Schema:
    """A type. `props` are members without a meaning for Avro, with those of logical types, in their order."""

    type: str
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Primitive(Schema):
    """One of PRIMITIVES."""


@dataclass(eq=False, slots=True)
class Array(Schema):
    items: Schema = field(kw_only=True)


@dataclass(eq=False, slots=True)
class Map(Schema):
    values: Schema = field(kw_only=True)


@dataclass(eq=False, slots=True)
class Union(Schema):
    branches: list[Schema] = field(kw_only=True)


@dataclass(eq=False, slots=True)
class Named(Schema):
    """A record, enum or fixed. `namespace` is None or not empty; `aliases` are full names."""

    name: str = field(kw_only=True)
    namespace: str | None = field(kw_only=True)
    doc: str | None = field(default=None, kw_only=True)
    aliases: list[str] = field(default_factory=list, kw_only=True)

    @property
    def full_name(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"


@dataclass(eq=False, slots=True)
class Fixed(Named):
    size: int = field(kw_only=True)


@dataclass(eq=False, slots=True)
class Enumeration(Named):
    symbols: list[str] = field(kw_only=True)
    default: str | None = field(default=None, kw_only=True)


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record. `order` is ascending, descending or ignore."""

    name: str
    schema: Schema
    doc: str | None
    default: Any
    order: str
    aliases: list[str]
    props: dict[str, Any]


@dataclass(eq=False, slots=True)
class Record(Named):
    """`type` is record or error."""

    fields: list[Field] = field(default_factory=list, kw_only=True)


@dataclass(eq=False, slots=True)
class Pending(Record):
    """Stands for a type that is defined behind its use: `target` is its full name."""

    target: str = field(kw_only=True)


def is_same(first: Schema, second: Schema) -> bool:
    """Return whether two definitions of a name are one, as in Avro's Java library: without documents and aliases. A
    name that is used before its definition is only the same as itself.
    """
    return _is_same(first, second, set())


def _is_same(first: Schema, second: Schema, seen: set[tuple[int, int]]) -> bool:
    pair = (id(first), id(second))
    if first is second or pair in seen:
        return True
    seen.add(pair)
    if isinstance(first, Pending) or isinstance(second, Pending) or first.props != second.props:
        return False
    if isinstance(first, Named) and (not isinstance(second, Named) or first.full_name != second.full_name):
        return False
    if isinstance(first, Record) and isinstance(second, Record):
        return len(first.fields) == len(second.fields) and all(
            (one.name, one.default, one.order, one.props) == (other.name, other.default, other.order, other.props)
            and _is_same(one.schema, other.schema, seen)
            for one, other in zip(first.fields, second.fields, strict=True)
        )
    if first.type != second.type:
        return False
    if isinstance(first, Enumeration) and isinstance(second, Enumeration):
        return first.symbols == second.symbols
    if isinstance(first, Fixed) and isinstance(second, Fixed):
        return first.size == second.size
    parts = list(children(first)), list(children(second))
    return len(parts[0]) == len(parts[1]) and all(_is_same(one, other, seen) for one, other in zip(*parts, strict=True))


def named_types(schema: Schema) -> Iterator[Named]:
    """Return the named types of a schema, each once, in the order of their definitions."""
    seen: set[int] = set()
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Named):
            if id(each) in seen:
                continue
            seen.add(id(each))
            yield each
        waiting.extend(reversed(list(children(each))))


def children(schema: Schema) -> Iterator[Schema]:
    """Return the types directly below a type."""
    if isinstance(schema, Array):
        yield schema.items
    elif isinstance(schema, Map):
        yield schema.values
    elif isinstance(schema, Union):
        yield from schema.branches
    elif isinstance(schema, Record):
        yield from (each.schema for each in schema.fields)
