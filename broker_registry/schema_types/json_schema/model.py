"""A JSON schema as a tree of shapes: what may be said about strings, numbers, objects and so on, each in one shape.

A schema whose keywords are about several types, or that has combinations beside them, is `allOf` of several shapes.
References are shapes of their own, so that schemas may be recursive; a pointer always leads to the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class Absent(Enum):
    """An enumeration, so that the type of a member that may be absent can say so."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""The default of a schema without one; None is the default null."""


@dataclass(eq=False, slots=True)
class Shape:
    """`text` is the JSON from which the shape was made, for the comparison of alternatives. `connect_type` is the
    member `connect.type` of Kafka Connect's schemas.
    """

    text: str = ""
    id: str | None = None
    title: str | None = None
    description: str | None = None
    default: Any = ABSENT
    connect_type: str | None = None


@dataclass(eq=False, slots=True)
class Anything(Shape):
    """The schemas `true` (`is_literal`) and `{}`."""

    is_literal: bool = False


@dataclass(eq=False, slots=True)
class Nothing(Shape):
    """The schema `false`."""


@dataclass(eq=False, slots=True)
class Null(Shape):
    """The type null."""


@dataclass(eq=False, slots=True)
class Boolean(Shape):
    """The type boolean."""


@dataclass(eq=False, slots=True)
class String(Shape):
    max_length: int | None = None
    min_length: int | None = None
    pattern: str | None = None


@dataclass(eq=False, slots=True)
class Number(Shape):
    maximum: float | None = None
    minimum: float | None = None
    exclusive_maximum: float | None = None
    exclusive_minimum: float | None = None
    multiple_of: float | None = None
    is_integer: bool = False


@dataclass(eq=False, slots=True)
class Array(Shape):
    """`items` is for all items; `prefix` has a schema for each of the first ones. `allows_more` is False if no further
    ones are allowed; `more` is their schema.
    """

    items: Shape | None = None
    prefix: list[Shape] = field(default_factory=list)
    allows_more: bool = True
    more: Shape | None = None
    unevaluated: Shape | None = None
    max_items: int | None = None
    min_items: int | None = None
    is_unique: bool = False
    max_contains: int | None = None
    min_contains: int | None = None


@dataclass(eq=False, slots=True)
class Object(Shape):
    """`allows_more` is False if no other properties are allowed; `more` is their schema."""

    properties: dict[str, Shape] = field(default_factory=dict)
    patterns: dict[str, Shape] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    allows_more: bool = True
    more: Shape | None = None
    unevaluated: Shape | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    needs: dict[str, list[str]] = field(default_factory=dict)
    needs_schema: dict[str, Shape] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Enumeration(Shape):
    """`values` are the JSON texts of the allowed values."""

    values: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class Constant(Shape):
    """`value` is the JSON text of the only value."""

    value: str = "null"


@dataclass(eq=False, slots=True)
class Not(Shape):
    inner: Shape = field(kw_only=True)


@dataclass(eq=False, slots=True)
class Conditional(Shape):
    """if, then and else; their contents are not compared."""


@dataclass(eq=False, slots=True)
class Combined(Shape):
    """`criterion` is allOf, anyOf or oneOf."""

    criterion: str = field(kw_only=True)
    parts: list[Shape] = field(kw_only=True)


@dataclass(eq=False, slots=True)
class ReferenceTo(Shape):
    """`target` is set when the document is loaded."""

    reference: str = field(kw_only=True)
    target: Shape | None = None


def followed(shape: Shape) -> Shape:
    """Return the shape that references lead to. Raises ValueError for one that leads to itself only."""
    seen = set()
    while isinstance(shape, ReferenceTo):
        if id(shape) in seen or shape.target is None:
            raise ValueError(f"Unresolved $ref '{shape.reference}'")
        seen.add(id(shape))
        shape = shape.target
    return shape
