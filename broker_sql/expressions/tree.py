"""Expressions with their types resolved: every implicit cast is a node, and names are places in the row.

`compile` makes Python source of a tree, and a host may make Spark columns of it. `kind` is the type of the value; it is
None only for a NULL literal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from broker_sql.types import SqlType


@dataclass(frozen=True)
class Tree:
    kind: SqlType | None
    node: exp.Expr  # as written, for messages

    @property
    def parts(self) -> tuple[Tree, ...]:
        """Return the operands, in the order of evaluation."""
        return ()


@dataclass(frozen=True)
class Const(Tree):
    value: Any


@dataclass(frozen=True)
class Slot(Tree):
    """A column of the row."""

    index: int


@dataclass(frozen=True)
class Parameter(Tree):
    """A parameter of a lambda."""

    name: str


@dataclass(frozen=True)
class Convert(Tree):
    """CAST, written or implicit, of a value with the type `operand.kind`."""

    operand: Tree

    @property
    def parts(self) -> tuple[Tree, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class _Binary(Tree):
    left: Tree
    right: Tree

    @property
    def parts(self) -> tuple[Tree, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Arithmetic(_Binary):
    """`op` is one of + - * / %. Operands have the kind of the result; those of a DECIMAL are any decimals."""

    op: str


@dataclass(frozen=True)
class Concat(_Binary):
    """Two texts, one after the other; NULL if one is NULL."""


@dataclass(frozen=True)
class Compare(_Binary):
    """`op` is one of == != < <= > >=; false if an operand is NULL. Operands are comparable as they are."""

    op: str


@dataclass(frozen=True)
class Distinct(_Binary):
    """IS DISTINCT FROM, or with `negated` IS NOT DISTINCT FROM: NULL is a value like others."""

    negated: bool


@dataclass(frozen=True)
class And(_Binary):
    pass


@dataclass(frozen=True)
class Or(_Binary):
    pass


@dataclass(frozen=True)
class _Unary(Tree):
    operand: Tree

    @property
    def parts(self) -> tuple[Tree, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Not(_Unary):
    pass


@dataclass(frozen=True)
class Negate(_Unary):
    pass


@dataclass(frozen=True)
class IsNull(_Unary):
    pass


@dataclass(frozen=True)
class Member(Tree):
    """IN: all have one type. False if the value is NULL."""

    value: Tree
    options: tuple[Tree, ...]

    @property
    def parts(self) -> tuple[Tree, ...]:
        return (self.value, *self.options)


@dataclass(frozen=True)
class Like(Tree):
    value: Tree
    pattern: Tree
    escape: str | None

    @property
    def parts(self) -> tuple[Tree, ...]:
        return (self.value, self.pattern)


@dataclass(frozen=True)
class Case(Tree):
    """The result of the first condition that is true."""

    branches: tuple[tuple[Tree, Tree], ...]
    default: Tree | None

    @property
    def parts(self) -> tuple[Tree, ...]:
        each = tuple(part for branch in self.branches for part in branch)
        return each if self.default is None else (*each, self.default)


@dataclass(frozen=True)
class Item(_Binary):
    """An element of an array, counted from 1, or from -1 at its end; NULL if there is none."""


@dataclass(frozen=True)
class Lookup(_Binary):
    """The value of a map's key; NULL if there is none."""


@dataclass(frozen=True)
class Field(Tree):
    operand: Tree
    name: str

    @property
    def parts(self) -> tuple[Tree, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class MakeArray(Tree):
    items: tuple[Tree, ...]

    @property
    def parts(self) -> tuple[Tree, ...]:
        return self.items


@dataclass(frozen=True)
class MakeMap(Tree):
    entries: tuple[tuple[Tree, Tree], ...]

    @property
    def parts(self) -> tuple[Tree, ...]:
        return tuple(part for entry in self.entries for part in entry)


@dataclass(frozen=True)
class MakeStruct(Tree):
    fields: tuple[tuple[str, Tree], ...]

    @property
    def parts(self) -> tuple[Tree, ...]:
        return tuple(value for _, value in self.fields)


@dataclass(frozen=True)
class Call(Tree):
    """A call of a scalar function. NULL if the function or one of its arguments fails."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Tree, ...]

    @property
    def parts(self) -> tuple[Tree, ...]:
        return self.arguments


@dataclass(frozen=True)
class Function(Tree):
    """A lambda as an argument; `kind` is its LambdaType."""

    parameters: tuple[str, ...]
    body: Tree

    @property
    def parts(self) -> tuple[Tree, ...]:
        return (self.body,)


def walk(tree: Tree) -> Iterator[Tree]:
    """Return the tree and all trees in it."""
    yield tree
    for part in tree.parts:
        yield from walk(part)
