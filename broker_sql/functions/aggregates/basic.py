"""COUNT, SUM, MIN and MAX."""

from __future__ import annotations

from typing import Any

from broker_sql.functions.definitions import Category, Parts, Resolved
from broker_sql.types import BIGINT

AGGREGATE = Category("AGGREGATE")
_count = AGGREGATE.aggregate(
    "COUNT", "The number of rows, or of values that are not NULL.", value="the column; without it all rows count"
)


def _plus(one: int, other: int) -> int:
    return one + other


@_count("() BIGINT")
def _(resolved: Resolved) -> Parts:
    return Parts(lambda: 0, lambda _, state: state + 1, _plus, BIGINT, undo=lambda _, state: state - 1)


@_count("(value ANY) BIGINT")
def _(resolved: Resolved) -> Parts:
    def add(value: Any, state: int) -> int:
        return state if value is None else state + 1

    def undo(value: Any, state: int) -> int:
        return state if value is None else state - 1

    return Parts(lambda: 0, add, _plus, BIGINT, undo=undo)
