"""Steps of the joins of a stream: with another stream, with a table, with a global table.

A joiner is called as joiner(left, right), or as joiner(key, left, right) with `with_key`. A side without a record is
None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.value_getters import ValueGetter


@dataclass(frozen=True)
class JoinWindow(Step):
    """Passes each record on, and then keeps it in the window store for the other stream."""

    KIND: ClassVar[str] = "join-window.1"
    store: str


@dataclass(frozen=True)
class StreamStreamJoin(Step):
    """One side of a join of two streams: looks for records of the other stream in `other_store`.

    A right record joins a left one if it is from `before_ms` earlier to `after_ms` later. `keeps_unmatched`: records of
    this side without a partner are passed on too, once their window and `grace_ms` are over; until then they wait in
    `outer_store`, which both sides share.
    """

    KIND: ClassVar[str] = "stream-stream-join.1"
    joiner: Function
    is_left: bool
    other_store: str
    before_ms: int
    after_ms: int
    grace_ms: int
    keeps_unmatched: bool = False
    outer_store: str | None = None
    with_key: bool = False


@dataclass(frozen=True)
class SelfJoin(Step):
    """A join of a stream with itself that keeps its records in one store, for `retention_ms`."""

    KIND: ClassVar[str] = "self-join.1"
    joiner: Function
    store: str
    before_ms: int
    after_ms: int
    retention_ms: int
    with_key: bool = False


@dataclass(frozen=True)
class StreamTableJoin(Step):
    """Joins each record with the row of its key, or of the key that `key_selector(key, value)` returns for a global
    table. `keeps_unmatched`: records without a row are passed on too.

    With a `buffer`, records wait there for the grace period, and are joined with the row at their own time (KIP-923).
    """

    KIND: ClassVar[str] = "stream-table-join.1"
    joiner: Function
    table: ValueGetter
    keeps_unmatched: bool = False
    with_key: bool = False
    key_selector: Function | None = None
    buffer: str | None = None
