"""Nodes of expressions that sqlglot does not have, and places of nodes.

    Dereference(this, field)       `this->field`; field is an Identifier
    StructAll(this)                `this->*`, only as an item of SELECT
    CastTo(this, to)               CAST(this AS to); `to` is a SqlType
    CreateArray(expressions)       ARRAY[...]
    CreateMap(keys, values)        MAP(key := value, ...); two lists of one length
    CreateStruct(names, values)    STRUCT(name := value, ...); names are Identifiers

Everything else is sqlglot's: Column, Literal, Boolean, Null, Neg, Paren, Add, Sub, Mul, Div, Mod, DPipe, EQ, NEQ, GT,
GTE, LT, LTE, And, Or, Not, Between, In, Like, Escape, Is (of Null), NullSafeEQ, NullSafeNEQ, Case, Bracket, Anonymous
(every call of a function), Lambda, Star (in COUNT(*)).
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from sqlglot import exp

from broker_sql.errors import Location
from broker_sql.types import SqlType

_Node = TypeVar("_Node", bound=exp.Expr)


class Dereference(exp.Expression, exp.Condition):
    """A field of a struct."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "field": True}

    @property
    def field(self) -> str:
        """Return the name of the field, in its final case."""
        name: str = self.args["field"].this
        return name

    @property
    def output_name(self) -> str:
        return self.field


class StructAll(exp.Expression):
    """All fields of a struct."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class CastTo(exp.Expression, exp.Condition):
    """A value as another type."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "to": True}
    _hash_raw_args = True

    @property
    def to(self) -> SqlType:
        kind: SqlType = self.args["to"]
        return kind


class CreateArray(exp.Expression, exp.Condition):
    """An array of the values of expressions."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": False}


class CreateMap(exp.Expression, exp.Condition):
    """A map of the values of expressions."""

    arg_types: ClassVar[dict[str, bool]] = {"keys": False, "values": False}

    @property
    def entries(self) -> list[tuple[exp.Expr, exp.Expr]]:
        return list(zip(self.args["keys"], self.args["values"], strict=True))


class CreateStruct(exp.Expression, exp.Condition):
    """A struct of the values of expressions."""

    arg_types: ClassVar[dict[str, bool]] = {"names": False, "values": False}

    @property
    def fields(self) -> list[tuple[str, exp.Expr]]:
        return [(name.this, value) for name, value in zip(self.args["names"], self.args["values"], strict=True)]


def location(node: exp.Expr) -> Location | None:
    """Return the place of the first token of a node, or of the nearest node around it that has a place."""
    each: exp.Expr | None = node
    while each is not None:
        line = each.meta_get("line")
        if line is not None:
            return Location(line, each.meta["column"])
        each = each.parent
    return None


def at(node: _Node, place: Location | None) -> _Node:
    """Set the place of a node, and return the node."""
    if place is not None:
        node.meta["line"], node.meta["column"] = place.line, place.column
    return node
