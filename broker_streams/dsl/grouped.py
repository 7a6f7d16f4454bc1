"""KGroupedStream: records of a stream by their key, to be aggregated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from broker_streams.dsl.aggregations import Aggregations, WithoutWindows
from broker_streams.dsl.graph import Graph, GraphNode, checked_name
from broker_streams.dsl.materialized import Materialized
from broker_streams.dsl.nodes import RepartitionNode, Stream, repartition
from broker_streams.plan.windows import FixedWindows, SessionWindows, SlidingWindows

if TYPE_CHECKING:
    from broker_streams.dsl.cogrouped import CogroupedKStream
    from broker_streams.dsl.ktable import KTable
    from broker_streams.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream


class KGroupedStream(Stream, Aggregations):
    """`needs_repartition`: keys may have changed since the records were partitioned. `topic_name` is the user's name
    for the repartition topic, which all aggregations of this group share then; without one each has its own.
    """

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        key_serde: Any,
        value_serde: Any,
        sources: Sequence[str],
        needs_repartition: bool,
        topic_name: str | None = None,
    ) -> None:
        Stream.__init__(self, graph, node, name, key_serde, value_serde, sources)
        Aggregations.__init__(self, self, WithoutWindows())
        self.needs_repartition = needs_repartition
        self.topic_name = None if topic_name is None else checked_name(topic_name)
        self._repartition: RepartitionNode | None = None

    def parent_of(self, store: str, is_named: bool) -> tuple[GraphNode, tuple[str, ...]]:
        """See Group."""
        if not self.needs_repartition:
            return self.node, self.sources
        made = self.new_repartition(store)
        if self._repartition is None or self.topic_name is None:
            self._repartition = made
        self.graph.add(self._repartition, self.node)
        return self._repartition, (made.name,)

    def new_repartition(self, store: str) -> RepartitionNode:
        """A repartition that is named after the store, unless it has a name. It is not added to the graph."""
        return repartition(self.graph, self.topic_name or store, self.key_serde, self.value_serde)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        *,
        name: str | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """A table of what `aggregator(key, value, aggregate)` returns, beginning with `initializer()`."""
        return self._aggregate(initializer, aggregator, None, name, materialized)

    def cogroup(self, aggregator: Callable[[Any, Any, Any], Any]) -> CogroupedKStream:
        """Aggregate this stream together with others of the same keys."""
        from broker_streams.dsl.cogrouped import CogroupedKStream

        return CogroupedKStream(self.graph).cogroup(self, aggregator)

    @overload
    def windowed_by(self, windows: FixedWindows | SlidingWindows) -> TimeWindowedKStream: ...

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream: ...

    def windowed_by(
        self, windows: FixedWindows | SlidingWindows | SessionWindows
    ) -> TimeWindowedKStream | SessionWindowedKStream:
        """Aggregate the records of each window apart. Raises TypeError: these are no windows of an aggregation."""
        from broker_streams.dsl.windowed import windowed

        return windowed(self, windows)
