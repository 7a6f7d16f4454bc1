"""Resolved calls of functions. The types of arguments that only functions have are in broker_sql.types."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_sql.types import INTERVAL_UNIT, IntervalUnitType, LambdaShape, LambdaType, SqlType

# The type of an argument; None is the type of the literal NULL, which every parameter but a lambda accepts.
ArgumentType = SqlType | None
Call = Callable[..., Any]

__all__ = [
    "INTERVAL_UNIT",
    "Aggregate",
    "ArgumentType",
    "Call",
    "Environment",
    "IntervalUnitType",
    "LambdaShape",
    "LambdaType",
    "ScalarCall",
    "TableCall",
]


class Entropy(random.SystemRandom):
    """Random numbers of the system. They have no state: copies of it in several processes do not repeat each other."""

    def __reduce__(self) -> tuple[type[Entropy], tuple[()]]:
        return Entropy, ()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Environment:
    """All that functions take from the process. `settings` are those of `ksql.functions.*`.

    Hosts send functions to other processes: what `now_ms` and `random` return must not depend on a state in them."""

    now_ms: Callable[[], int] = _now_ms
    random: random.Random = field(default_factory=Entropy)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScalarCall:
    """`call` expects values of the types `parameters`: the caller casts an argument of another type (None: any type).

    An exception from `call` is an error of the record: its result is None."""

    name: str
    parameters: tuple[ArgumentType, ...]
    return_type: SqlType
    call: Call


@dataclass(frozen=True, slots=True)
class TableCall:
    """As a ScalarCall, but `call` returns the values of the rows that take the place of one row."""

    name: str
    parameters: tuple[ArgumentType, ...]
    return_type: SqlType
    call: Callable[..., Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregation of the first `columns` arguments of the call; the other arguments are constants in it.

    `add(value, state)` returns the new state, as do `undo` and `merge(state, other)`, in which the session of `other`
    is the later one; none of them changes a state. `value` is the argument, or a tuple if `multiple`. States have the
    type `intermediate`, so that they can be stored. `undo` is None if records cannot be taken back: the function is
    not for tables."""

    name: str
    columns: int
    multiple: bool
    parameters: tuple[ArgumentType, ...]
    initialize: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    undo: Callable[[Any, Any], Any] | None
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]
    intermediate: SqlType
    return_type: SqlType
