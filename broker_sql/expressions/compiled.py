"""Expressions to functions of a row."""

from __future__ import annotations

from builtins import compile as to_code
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from broker_sql.dialect import to_text
from broker_sql.dialect.nodes import location
from broker_sql.errors import AnalysisError
from broker_sql.expressions import tree
from broker_sql.expressions.resolve import implicitly, resolve
from broker_sql.expressions.scope import Log, Scope
from broker_sql.expressions.source import Source
from broker_sql.types import BOOLEAN, SqlType

Row = Sequence[Any]


@dataclass(frozen=True)
class Compiled:
    """An expression that is ready to run. `evaluate` takes the row; an error gives None, and is logged."""

    type: SqlType
    node: exp.Expr
    tree: tree.Tree
    evaluate: Callable[[Row], Any]


def type_of(node: exp.Expr, scope: Scope) -> SqlType:
    """Return the type of an expression. Raises AnalysisError, also for NULL, which has none."""
    return _typed(resolve(node, scope))


def compile(node: exp.Expr, scope: Scope, target: SqlType | None = None) -> Compiled:
    """Return the expression as a function of the row; with `target`, widened to that type.

    Raises AnalysisError."""
    found = _resolved(node, scope, target)
    return Compiled(_typed(found), node, found, function_of([found], scope.log, single=True))


def compile_all(
    nodes: Sequence[exp.Expr], scope: Scope, targets: Sequence[SqlType | None] | None = None
) -> tuple[tuple[Compiled, ...], Callable[[Row], tuple[Any, ...]]]:
    """Return the expressions of a SELECT, and one function of the row that returns all their values.

    One function is faster than one for each. An error in one expression leaves the values of the others.

    Raises AnalysisError."""
    wanted = targets or [None] * len(nodes)
    found = [_resolved(node, scope, target) for node, target in zip(nodes, wanted, strict=True)]
    whole = function_of(found, scope.log)
    compiled = [
        Compiled(_typed(each), node, each, _Part(whole, index))
        for index, (node, each) in enumerate(zip(nodes, found, strict=True))
    ]
    return tuple(compiled), whole


@dataclass(frozen=True)
class _Part:
    """One value of a function of all columns."""

    whole: Callable[[Row], tuple[Any, ...]]
    index: int

    def __call__(self, row: Row) -> Any:
        return self.whole(row)[self.index]


def predicate(node: exp.Expr, scope: Scope, word: str = "WHERE") -> Compiled:
    """Return a condition. `evaluate` returns False where the condition is NULL or fails. Raises AnalysisError."""
    try:
        found = resolve(node, scope)
    except AnalysisError as error:
        raise AnalysisError(f"Error in {word} expression: {error.message}", error.location) from None
    if found.kind != BOOLEAN:
        raise AnalysisError(
            f"{word} takes a BOOLEAN, and {to_text(node)} is {found.kind}",
            location(node),
        )
    return Compiled(BOOLEAN, node, found, function_of([found], scope.log, single=True, otherwise="False"))


def _resolved(node: exp.Expr, scope: Scope, target: SqlType | None) -> tree.Tree:
    found = resolve(node, scope)
    return found if target is None else implicitly(found, target)


def _typed(found: tree.Tree) -> SqlType:
    if found.kind is None:
        raise AnalysisError(
            "NULL alone has no type: write CAST(NULL AS type), for instance CAST(NULL AS STRING).",
            location(found.node),
        )
    return found.kind


@dataclass(frozen=True)
class _Failure:
    """Called by generated code: logs an error, and returns the value in its place."""

    log: Log

    def __call__(self, error: Exception, node: exp.Expr) -> None:
        self.log(str(error) or type(error).__name__, node)


def function_of(
    trees: Sequence[tree.Tree], log: Log, single: bool = False, otherwise: str | None = None
) -> Callable[[Row], Any]:
    """Return the function of a row that gives the values of trees as a tuple, or the one value if `single`.

    `otherwise` is the code of what takes the place of NULL."""
    source = Source()
    source.objects["fail"] = _Failure(log)
    names: list[str] = []
    for each in trees:
        name = source.fresh("r")
        names.append(name)
        if isinstance(each, tree.Const | tree.Slot):
            source.line(f"{name} = {source.emit(each).code}")
            continue
        with source.block("try:"):
            source.line(f"{name} = {source.emit(each).code}")
        source.failed(each.node, name)
    if single:
        source.line(f"return {names[0]}{f' or {otherwise}' if otherwise else ''}")
    else:
        source.line(f"return ({', '.join(names)}{',' if len(names) == 1 else ''})")
    namespace = source.objects
    try:
        exec(to_code(source.text("evaluate"), "<expression>", "exec"), namespace)
    except (SyntaxError, RecursionError, MemoryError) as error:
        place = location(trees[0].node) if trees else None
        raise AnalysisError(f"the expression nests too deep: {error.args[0]}", place) from None
    return namespace["evaluate"]  # type: ignore[no-any-return]
