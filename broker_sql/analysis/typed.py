"""Types of expressions over a row, and Python functions that evaluate them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from broker_sql import expressions
from broker_sql.analysis.names import Layout
from broker_sql.analysis.settings import Settings
from broker_sql.expressions import Compiled, Scope
from broker_sql.types import SqlType


def scope_of(layout: Layout, settings: Settings) -> Scope:
    columns: dict[tuple[str | None, str], tuple[int, SqlType]] = {
        (None, name): (at, kind) for at, (name, kind) in enumerate(layout.columns)
    }
    return Scope(columns, settings.functions, settings.log)


def type_of(node: exp.Expr, layout: Layout, settings: Settings) -> SqlType:
    """Raises AnalysisError, for NULL too, which has no type."""
    return expressions.type_of(node, scope_of(layout, settings))


def compiled(node: exp.Expr, layout: Layout, settings: Settings, target: SqlType | None = None) -> Compiled:
    """`evaluate` of the result takes a row of the layout. Raises AnalysisError."""
    return expressions.compile(node, scope_of(layout, settings), target)


def row_maker(
    nodes: Sequence[exp.Expr], layout: Layout, settings: Settings, targets: Sequence[SqlType | None] | None = None
) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """A function of a row that makes a row of the values of expressions. Raises AnalysisError."""
    return expressions.compile_all(nodes, scope_of(layout, settings), targets)[1]


def condition(node: exp.Expr, layout: Layout, settings: Settings, clause: str) -> Callable[[Sequence[Any]], bool]:
    """A function of a row that is False where the condition is NULL. Raises AnalysisError: it is no condition."""
    return expressions.predicate(node, scope_of(layout, settings), clause).evaluate
