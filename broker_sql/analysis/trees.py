"""Trees of expressions: comparison, and replacement of parts. Trees are never changed; replacements work on copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from broker_sql.dialect.nodes import at, location
from broker_sql.errors import Location

Swap = Callable[[exp.Expr], "exp.Expr | None"]


def signature(node: Any) -> Any:
    """A value that is equal for equal expressions, whatever their places are. Parentheses do not count."""
    if isinstance(node, exp.Paren):
        return signature(node.this)
    if isinstance(node, exp.Identifier):
        return ("Identifier", node.this)
    if isinstance(node, exp.Expr):
        parts = tuple((name, signature(value)) for name, value in sorted(node.args.items()) if value not in (None, []))
        return (type(node).__name__, parts)
    if isinstance(node, list):
        return tuple(signature(each) for each in node)
    return node


def column(name: str, place: Location | None = None) -> exp.Column:
    """A column of the row that is evaluated."""
    return at(exp.Column(this=exp.Identifier(this=name, quoted=True)), place)


def is_column(node: exp.Expr) -> bool:
    return isinstance(bare(node), exp.Column)


def bare(node: exp.Expr) -> exp.Expr:
    """The expression without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def children(node: exp.Expr) -> Iterator[exp.Expr]:
    yield from list(node.iter_expressions())


def replaced(node: exp.Expr, swap: Swap) -> exp.Expr:
    """A copy with `swap(part)` in place of each part for which it is not None, from the outside inwards. Parameters of
    lambdas are no columns: `swap` does not see them.
    """
    place = location(node)
    holder = exp.Paren(this=at(node.copy(), place))
    _replace(holder.this, swap, frozenset())
    found: exp.Expr = holder.this
    found.pop()
    return found


def _replace(node: exp.Expr, swap: Swap, bound: frozenset[str]) -> None:
    if isinstance(node, exp.Column) and not node.table and node.name in bound:
        return
    found = swap(node)
    if found is not None:
        node.replace(at(found, location(node)))
        return
    if isinstance(node, exp.Lambda):
        names = frozenset(each.name for each in node.expressions)
        _replace(node.this, swap, bound | names)
        return
    for each in children(node):
        _replace(each, swap, bound)


def columns(node: exp.Expr) -> list[exp.Column]:
    """The columns in an expression, in their order; parameters of lambdas are none."""
    found: list[exp.Column] = []

    def look(part: exp.Expr) -> None:
        if isinstance(part, exp.Column):
            found.append(part)

    walk(node, look)
    return found


def calls(node: exp.Expr, matches: Callable[[str], bool]) -> list[exp.Anonymous]:
    """The calls of functions whose names match, in their order; those inside of them follow them."""
    found: list[exp.Anonymous] = []

    def look(part: exp.Expr) -> None:
        if isinstance(part, exp.Anonymous) and matches(part.name):
            found.append(part)

    walk(node, look)
    return found


def walk(node: exp.Expr, look: Callable[[exp.Expr], None], bound: frozenset[str] = frozenset()) -> None:
    if isinstance(node, exp.Column) and not node.table and node.name in bound:
        return
    look(node)
    if isinstance(node, exp.Lambda):
        walk(node.this, look, bound | frozenset(each.name for each in node.expressions))
        return
    for each in children(node):
        walk(each, look, bound)
