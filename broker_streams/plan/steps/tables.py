"""Steps of tables: their records are changes of rows.

A step with a `store` keeps its rows in it. `send_old_values` passes the previous row on too, for tables below that need
it. `reads_versions`: the parent is a versioned table, whose records that are older than a row count as no change
(KIP-914).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step


@dataclass(frozen=True)
class TableSource(Step):
    """Makes records to changes of rows. Without a store the rows before are not known."""

    KIND: ClassVar[str] = "table-source.1"
    store: str | None = None
    send_old_values: bool = False


@dataclass(frozen=True)
class TableFilter(Step):
    """A row for which `predicate(key, value)` is false is deleted; with `negate`, one for which it is true."""

    KIND: ClassVar[str] = "table-filter.1"
    predicate: Function
    negate: bool = False
    store: str | None = None
    send_old_values: bool = False
    reads_versions: bool = False


@dataclass(frozen=True)
class TableMapValues(Step):
    """`mapper(value)` of values that are not None; with `with_key`, `mapper(key, value)`."""

    KIND: ClassVar[str] = "table-map-values.1"
    mapper: Function
    with_key: bool = False
    store: str | None = None
    send_old_values: bool = False


@dataclass(frozen=True)
class TableTransformValues(Step):
    """`supplier()` returns a transformer with `init(context)`, `transform(key, value)` and `close()`. It is called for
    deleted rows too.
    """

    KIND: ClassVar[str] = "table-transform-values.1"
    supplier: Function
    store: str | None = None
    send_old_values: bool = False


@dataclass(frozen=True)
class TableToStream(Step):
    """Passes the new values on."""

    KIND: ClassVar[str] = "table-to-stream.1"


@dataclass(frozen=True)
class TableGroup(Step):
    """`selector(key, value)` returns the (key, value) under which a row is aggregated; None in one of them: it is not.

    A change of the key is a removal under the old key, then an addition under the new one.
    """

    KIND: ClassVar[str] = "table-group.1"
    selector: Function
    reads_versions: bool = False


@dataclass(frozen=True)
class TableCount(Step):
    """The number of rows of each group."""

    KIND: ClassVar[str] = "table-count.1"
    store: str
    send_old_values: bool = False


@dataclass(frozen=True)
class TableReduce(Step):
    """`adder(aggregate, value)` for new rows, `subtractor(aggregate, value)` for old ones, which come first."""

    KIND: ClassVar[str] = "table-reduce.1"
    store: str
    adder: Function
    subtractor: Function
    send_old_values: bool = False


@dataclass(frozen=True)
class TableAggregate(Step):
    """`adder(key, value, aggregate)` and `subtractor(key, value, aggregate)`, beginning with `initializer()`."""

    KIND: ClassVar[str] = "table-aggregate.1"
    store: str
    initializer: Function
    adder: Function
    subtractor: Function
    send_old_values: bool = False
