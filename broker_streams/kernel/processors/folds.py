"""The calls of a fold: its first aggregate, the next one, and one of two sessions that met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker_streams.plan.steps.aggregates import AnyFold, Count, Fold, Reduce


class Calls(NamedTuple):
    """`initial()`, `add(key, value, aggregate)`, `merge(key, one, other)`. An aggregate may be None: it has no row."""

    initial: Callable[[], Any]
    add: Callable[[Any, Any, Any], Any]
    merge: Callable[[Any, Any, Any], Any]


def _zero() -> int:
    return 0


def _none() -> None:
    return None


def _count(key: Any, value: Any, aggregate: Any) -> Any:
    return aggregate + 1


def _sum(key: Any, one: Any, other: Any) -> Any:
    return one + other


def _no_merger(key: Any, one: Any, other: Any) -> Any:
    raise TypeError("sessions cannot be merged: the fold has no merger")


def calls(fold: AnyFold) -> Calls:
    match fold:
        case Count():
            return Calls(_zero, _count, _sum)
        case Reduce(reducer):
            reduce = reducer.call

            def add(key: Any, value: Any, aggregate: Any) -> Any:
                return value if aggregate is None else reduce(aggregate, value)

            def merge(key: Any, one: Any, other: Any) -> Any:
                return other if one is None else reduce(one, other)

            return Calls(_none, add, merge)
        case Fold(initializer, aggregator, merger):
            return Calls(initializer.call, aggregator.call, _no_merger if merger is None else merger.call)
