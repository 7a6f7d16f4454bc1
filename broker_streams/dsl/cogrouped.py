"""CogroupedKStream: several grouped streams of the same keys, aggregated into one table (KIP-150)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker_streams.dsl.aggregations import AggregateNode, Aggregation, WithoutWindows
from broker_streams.dsl.graph import Graph, GraphNode, StepNode
from broker_streams.dsl.ktable import KTable
from broker_streams.dsl.materialized import Materialized
from broker_streams.dsl.nodes import function
from broker_streams.dsl.table_origins import PassThroughOrigin, StoreOrigin
from broker_streams.plan.steps.aggregates import Fold
from broker_streams.plan.steps.stateless import PassThrough
from broker_streams.plan.stores import StoreKind
from broker_streams.plan.topology import TopologyError
from broker_streams.plan.windows import FixedWindows, SessionWindows, SlidingWindows

if TYPE_CHECKING:
    from broker_streams.dsl.grouped import KGroupedStream

AGGREGATE: Final = "COGROUPKSTREAM-AGGREGATE-"
MERGE: Final = "COGROUPKSTREAM-MERGE-"
Aggregator = Callable[[Any, Any, Any], Any]


class CogroupedKStream:
    """Groups in the order of their addition, each with its aggregator."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._aggregators: dict[KGroupedStream, Aggregator] = {}
        # The nodes to aggregate below. Several tables of this cogroup share its repartition topics.
        self._parents: dict[KGroupedStream, GraphNode] = {}

    def cogroup(self, group: KGroupedStream, aggregator: Aggregator) -> CogroupedKStream:
        """Add a grouped stream, whose records become `aggregator(key, value, aggregate)`."""
        if not callable(aggregator):
            raise TopologyError(f"the aggregator of {group.name} is {aggregator!r}, which cannot be called")
        self._aggregators[group] = aggregator
        return self

    def aggregate(
        self,
        initializer: Callable[[], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """A table of aggregates that begin with `initializer()`."""
        return self.table(WithoutWindows(), initializer, None, name, materialized)

    def windowed_by(self, windows: FixedWindows | SlidingWindows | SessionWindows) -> WindowedCogroupedKStream:
        """Aggregate the records of each window apart."""
        from broker_streams.dsl.windowed import in_windows

        return WindowedCogroupedKStream(self, in_windows(windows))

    def table(
        self,
        aggregation: Aggregation,
        initializer: Callable[[], Any],
        merger: Aggregator | None,
        name: str | None,
        materialized: Materialized | None,
    ) -> KTable:
        graph = self._graph
        chosen = materialized or Materialized()
        made = chosen.completed(graph, AGGREGATE, None, None)
        store = aggregation.store(made)
        self._repartition(store.name)
        nodes = []
        for number, (group, aggregator) in enumerate(self._aggregators.items()):
            node_name = graph.named(name, AGGREGATE, f"-cogroup-agg-{number}")
            fold = Fold(
                function(node_name, "initializer", initializer),
                function(node_name, "aggregator", aggregator),
                None if merger is None else function(node_name, "merger", merger),
            )
            node = AggregateNode(node_name, aggregation.step(store.name, fold), store, aggregation.grace_ms)
            if store.kind not in (StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION):
                node.is_versioned = store.history_ms is not None
            graph.add(node, self._parents[group])
            nodes.append(node)
        # The table: it passes the changes of all aggregations on.
        merge = StepNode(graph.named(name, MERGE, "-cogroup-merge"), PassThrough())
        graph.add(merge, *nodes)
        key_serde = aggregation.key_serde(made.key)
        getter = aggregation.getter(store.name)
        origin = PassThroughOrigin([StoreOrigin(node, getter) for node in nodes], getter)
        return KTable(graph, merge, merge.name, key_serde, made.value, (merge.name,), origin, chosen.name)

    def _repartition(self, store: str) -> None:
        """Find the nodes to aggregate below. Records of one key must come to one task from all groups."""
        for group in self._aggregators:
            if not group.needs_repartition:
                self._parents[group] = group.node
                continue
            # The names are counted each time, as in Kafka.
            node = group.new_repartition(store)
            if group not in self._parents:
                self._graph.add(node, group.node)
                self._parents[group] = node
        first, *others = self._parents
        first.copartitioned_with(*others)


class WindowedCogroupedKStream:
    """A cogroup in windows. A session needs a merger, other windows have none."""

    def __init__(self, cogroup: CogroupedKStream, aggregation: Aggregation) -> None:
        self._cogroup = cogroup
        self._aggregation = aggregation

    def aggregate(
        self,
        initializer: Callable[[], Any],
        merger: Aggregator | None = None,
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """As CogroupedKStream.aggregate, for each window. Sessions that meet become `merger(key, one, other)`.

        Raises ValueError: sessions without a merger, or other windows with one.
        """
        return self._cogroup.table(self._aggregation, initializer, merger, name, materialized)
