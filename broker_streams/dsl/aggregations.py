"""The part that all aggregations of streams share, with windows and without.

Aggregation   data: the store, the step of a processor, the grace period, and how rows of the table are read
Aggregations  count, reduce: the calls of grouped and of windowed streams
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from broker_streams.dsl.graph import Graph, GraphNode, StepNode
from broker_streams.dsl.ktable import KTable
from broker_streams.dsl.materialized import Materialized
from broker_streams.dsl.nodes import function
from broker_streams.dsl.table_origins import StoreOrigin
from broker_streams.plan.steps.aggregates import Aggregate, AnyFold, Count, Fold, Reduce, StoredFold
from broker_streams.plan.stores import Store
from broker_streams.plan.value_getters import StoreGetter, ValueGetter
from broker_streams.serdes.primitives import LONG

AGGREGATE: Final = "KSTREAM-AGGREGATE-"
REDUCE: Final = "KSTREAM-REDUCE-"


class AggregateNode(StepNode):
    """`grace_ms`: how long windows stay open after their end, for `suppress`; None: there are no windows."""

    def __init__(self, name: str, step: StoredFold, store: Store, grace_ms: int | None) -> None:
        super().__init__(name, step, (store,))
        self.grace_ms = grace_ms


class Aggregation(Protocol):
    """Rows without windows, or in one kind of windows."""

    @property
    def grace_ms(self) -> int | None: ...

    def store(self, materialized: Materialized) -> Store:
        """Raises ValueError: the store cannot keep such rows."""
        ...

    def step(self, store: str, fold: AnyFold) -> StoredFold: ...

    def key_serde(self, key: Any) -> Any:
        """The serde of the table's keys."""
        ...

    def getter(self, store: str) -> ValueGetter: ...


@dataclass(frozen=True)
class WithoutWindows:
    grace_ms: int | None = None

    def store(self, materialized: Materialized) -> Store:
        return materialized.key_value_store()

    def step(self, store: str, fold: AnyFold) -> StoredFold:
        return Aggregate(store, fold)

    def key_serde(self, key: Any) -> Any:
        return key

    def getter(self, store: str) -> ValueGetter:
        return StoreGetter(store)


class Group(Protocol):
    """A grouped stream, as aggregations see it."""

    graph: Graph
    key_serde: Any
    value_serde: Any

    def parent_of(self, store: str, is_named: bool) -> tuple[GraphNode, tuple[str, ...]]:
        """The node to aggregate below, and the sources of its sub-topology. It repartitions the stream if necessary."""
        ...


class Aggregations:
    """`count` and `reduce` of a group. Subclasses add `aggregate`, whose arguments differ."""

    # A count whose Materialized has no name uses up one name more, as in Kafka.
    _count_skips_name = True

    def __init__(self, group: Group, aggregation: Aggregation) -> None:
        self._group = group
        self._aggregation = aggregation

    def count(self, *, name: str | None = None, materialized: Materialized | None = None) -> KTable:
        """A table of the number of records."""
        if materialized is not None and materialized.name is None and self._count_skips_name:
            self._group.graph.new_store_name(AGGREGATE)
        return self._table(AGGREGATE, name, materialized, LONG, lambda node: Count())

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """A table of values: the first one, and then what `reducer(aggregate, value)` returns."""
        value = self._group.value_serde
        return self._table(REDUCE, name, materialized, value, lambda node: Reduce(function(node, "reducer", reducer)))

    def _aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any] | None,
        name: str | None,
        materialized: Materialized | None,
    ) -> KTable:
        def fold(node: str) -> Fold:
            return Fold(
                function(node, "initializer", initializer),
                function(node, "aggregator", aggregator),
                None if merger is None else function(node, "merger", merger),
            )

        return self._table(AGGREGATE, name, materialized, None, fold)

    def _table(
        self,
        prefix: str,
        name: str | None,
        materialized: Materialized | None,
        value_serde: Any,
        fold_of: Callable[[str], AnyFold],
    ) -> KTable:
        group, aggregation, graph = self._group, self._aggregation, self._group.graph
        chosen = materialized or Materialized()
        made = chosen.completed(graph, prefix, group.key_serde, value_serde)
        node_name = graph.named(name, prefix)
        store = aggregation.store(made)
        step = aggregation.step(store.name, fold_of(node_name))
        parent, sources = group.parent_of(store.name, chosen.name is not None)
        node = AggregateNode(node_name, step, store, aggregation.grace_ms)
        node.is_versioned = store.history_ms is not None
        graph.add(node, parent)
        return KTable(
            graph,
            node,
            node_name,
            aggregation.key_serde(made.key),
            made.value,
            sources,
            StoreOrigin(node, aggregation.getter(store.name)),
            chosen.name,
        )
