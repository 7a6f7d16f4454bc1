"""Types of expressions over a row, and Python functions that evaluate them."""

from __future__ import annotations

from sqlglot import exp

from broker_sql import expressions
from broker_sql.analysis.names import Layout
from broker_sql.analysis.settings import Settings
from broker_sql.dialect import to_text
from broker_sql.dialect.nodes import location
from broker_sql.errors import AnalysisError
from broker_sql.expressions import Compiled, Scope
from broker_sql.types import BOOLEAN, SqlType


def scope_of(layout: Layout, settings: Settings) -> Scope:
    columns: dict[tuple[str | None, str], tuple[int, SqlType]] = {
        (None, name): (at, kind) for at, (name, kind) in enumerate(layout.columns)
    }
    return Scope(columns, settings.functions, settings.log)


def type_of(node: exp.Expr, layout: Layout, settings: Settings) -> SqlType | None:
    """None: the expression is NULL. Raises AnalysisError."""
    return expressions.type_of(node, scope_of(layout, settings))


def compiled(node: exp.Expr, layout: Layout, settings: Settings, target: SqlType | None = None) -> Compiled:
    """`evaluate` of the result takes a row of the layout. Raises AnalysisError."""
    return expressions.compile(node, scope_of(layout, settings), target)


def check_condition(node: exp.Expr, layout: Layout, settings: Settings, clause: str) -> None:
    """Raises AnalysisError: the expression is no condition."""
    kind = type_of(node, layout, settings)
    if kind != BOOLEAN:
        raise AnalysisError(f"{clause} needs a condition; {to_text(node)} is {kind or 'NULL'}", location(node))
