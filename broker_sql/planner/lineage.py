"""The columns that results of steps come from, declared to broker_streams: it cannot look into compiled expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from broker_sql.analysis.trees import bare, columns, is_column
from broker_streams.plan.lineage.declared import Copied, Declared, declared_lineage

EVERY = "*"


def made_of(node: exp.Expr, argument: str = "value") -> Declared:
    """The columns of an expression over one argument of a function."""
    if is_column(node):
        return Copied(f"{argument}.{bare(node).name}")
    return list(dict.fromkeys(f"{argument}.{each.name}" for each in columns(node)))


def row_of(named: Iterable[tuple[str, exp.Expr]], argument: str = "value") -> Mapping[str, Declared]:
    return {name: made_of(node, argument) for name, node in named}


def declare(
    call: Any,
    *,
    key: Mapping[str, Declared] | None = None,
    value: Mapping[str, Declared] | None = None,
    conditions: Sequence[exp.Expr] = (),
) -> Any:
    """Declare the lineage of a function, and return the function."""
    decided = [f"value.{each.name}" for node in conditions for each in columns(node)]
    return declared_lineage(key=key, value=value, conditions=list(dict.fromkeys(decided)))(call)


__all__ = ["EVERY", "Copied", "declare", "made_of", "row_of"]
