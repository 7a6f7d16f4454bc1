"""Steps that keep an aggregate for each key, and the folds that all aggregations share.

A fold says how records become an aggregate. A record whose row has no aggregate begins with the fold's initial value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker_streams.plan.codec import part_of_plans
from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step


@part_of_plans
@dataclass(frozen=True)
class Count:
    """The number of records. Sessions that meet are added."""


@part_of_plans
@dataclass(frozen=True)
class Reduce:
    """`reducer(aggregate, value)`; the first value is the first aggregate. Sessions that meet are reduced as well."""

    reducer: Function


@part_of_plans
@dataclass(frozen=True)
class Fold:
    """`aggregator(key, value, aggregate)`, beginning with `initializer()`. Sessions that meet become
    `merger(key, one, other)`.
    """

    initializer: Function
    aggregator: Function
    merger: Function | None = None


AnyFold = Count | Reduce | Fold


@dataclass(frozen=True)
class StoredFold(Step):
    """The base of all aggregations: `fold` over the rows of `store`.

    `send_old_values` passes the previous aggregate on too, for tables below that need it. Raises ValueError: a Fold of
    sessions has no merger, or one of other rows has one.
    """

    # Rows may be merged: sessions.
    MERGES: ClassVar[bool] = False

    store: str
    fold: AnyFold
    send_old_values: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.fold, Fold) and (self.fold.merger is not None) != self.MERGES:
            if self.MERGES:
                raise ValueError("an aggregation of sessions needs a merger")
            raise ValueError("a merger is for sessions; these rows are never merged")


@dataclass(frozen=True)
class Aggregate(StoredFold):
    """One aggregate for each key."""

    KIND: ClassVar[str] = "aggregate.1"
