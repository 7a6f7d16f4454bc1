"""KStream: a stream of records. All calls are Kafka's; names of nodes are given in Kafka's order.

Options are keyword arguments: `name` of the processor, `key` and `value` serdes. A call that may change keys makes the
next grouping or join repartition the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from broker_streams.dsl.graph import Graph, GraphNode, StepNode, checked_name
from broker_streams.dsl.joins import Joins
from broker_streams.dsl.nodes import RepartitionNode, SinkNode, function, repartition
from broker_streams.dsl.suppliers import checked_supplier, stores_of
from broker_streams.plan.steps import Step, stateless
from broker_streams.plan.steps.processor_api import Process, ProcessValues
from broker_streams.plan.topology import Sink, TopologyError
from broker_streams.serdes.names import of as serde_of

if TYPE_CHECKING:
    from broker_streams.dsl.branched import BranchedStream
    from broker_streams.dsl.grouped import KGroupedStream
    from broker_streams.dsl.ktable import KTable
    from broker_streams.dsl.materialized import Materialized


class KStream(Joins):
    """`needs_repartition`: keys may have changed since the records were partitioned."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        key_serde: Any,
        value_serde: Any,
        sources: Sequence[str],
        needs_repartition: bool,
    ) -> None:
        super().__init__(graph, node, name, key_serde, value_serde, sources)
        self.needs_repartition = needs_repartition

    # One step, and the stream below it.

    def _node(
        self,
        step: Callable[[str], Step],
        prefix: str,
        name: str | None,
        *,
        changes_key: bool = False,
        changes_value: bool = False,
    ) -> StepNode:
        name = self.graph.named(name, prefix)
        node = StepNode(name, step(name))
        node.changes_key = changes_key
        node.changes_value = changes_value
        self.graph.add(node, self.node)
        return node

    def _below(self, node: GraphNode, key_serde: Any, value_serde: Any, needs_repartition: bool) -> KStream:
        return KStream(self.graph, node, node.name, key_serde, value_serde, self.sources, needs_repartition)

    def _same_key(self, node: GraphNode, value_serde: Any) -> KStream:
        return self._below(node, self.key_serde, value_serde, self.needs_repartition)

    def filter(self, predicate: Callable[[Any, Any], Any], *, name: str | None = None) -> KStream:
        """Keep records for which `predicate(key, value)` is true."""
        node = self._node(lambda at: stateless.Filter(function(at, "predicate", predicate)), "KSTREAM-FILTER-", name)
        return self._same_key(node, self.value_serde)

    def filter_not(self, predicate: Callable[[Any, Any], Any], *, name: str | None = None) -> KStream:
        """Keep records for which `predicate(key, value)` is false."""

        def step(at: str) -> Step:
            return stateless.Filter(function(at, "predicate", predicate), negate=True)

        return self._same_key(self._node(step, "KSTREAM-FILTER-", name), self.value_serde)

    def select_key(self, mapper: Callable[[Any, Any], Any], *, name: str | None = None) -> KStream:
        """Give each record the key that `mapper(key, value)` returns."""
        node = self.select_key_node(mapper, name)
        return self._below(node, None, self.value_serde, True)

    def select_key_node(self, mapper: Callable[[Any, Any], Any], name: str | None) -> GraphNode:
        """The node of `select_key`, and of `group_by`."""

        def step(at: str) -> Step:
            return stateless.SelectKey(function(at, "mapper", mapper))

        return self._node(step, "KSTREAM-KEY-SELECT-", name, changes_key=True)

    def map(self, mapper: Callable[[Any, Any], tuple[Any, Any]], *, name: str | None = None) -> KStream:
        """Replace each record by the pair that `mapper(key, value)` returns."""
        node = self._node(
            lambda at: stateless.Map(function(at, "mapper", mapper)), "KSTREAM-MAP-", name, changes_key=True
        )
        return self._below(node, None, None, True)

    def map_values(self, mapper: Callable[..., Any], *, with_key: bool = False, name: str | None = None) -> KStream:
        """Replace each value by `mapper(value)`, or by `mapper(key, value)`."""

        def step(at: str) -> Step:
            return stateless.MapValues(function(at, "mapper", mapper), with_key)

        return self._same_key(self._node(step, "KSTREAM-MAPVALUES-", name, changes_value=True), None)

    def flat_map(self, mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]], *, name: str | None = None) -> KStream:
        """Replace each record by the pairs that `mapper(key, value)` returns."""
        node = self._node(
            lambda at: stateless.FlatMap(function(at, "mapper", mapper)), "KSTREAM-FLATMAP-", name, changes_key=True
        )
        return self._below(node, None, None, True)

    def flat_map_values(
        self, mapper: Callable[..., Iterable[Any]], *, with_key: bool = False, name: str | None = None
    ) -> KStream:
        """Replace each value by all that `mapper(value)`, or `mapper(key, value)`, returns."""

        def step(at: str) -> Step:
            return stateless.FlatMapValues(function(at, "mapper", mapper), with_key)

        return self._same_key(self._node(step, "KSTREAM-FLATMAPVALUES-", name, changes_value=True), None)

    def peek(self, action: Callable[[Any, Any], object], *, name: str | None = None) -> KStream:
        """Call `action(key, value)` for each record."""
        node = self._node(lambda at: stateless.Peek(function(at, "action", action)), "KSTREAM-PEEK-", name)
        return self._same_key(node, self.value_serde)

    def foreach(self, action: Callable[[Any, Any], object], *, name: str | None = None) -> None:
        """Call `action(key, value)` for each record, and end the stream."""

        def step(at: str) -> Step:
            return stateless.Peek(function(at, "action", action), forwards=False)

        self._node(step, "KSTREAM-FOREACH-", name)

    def print(
        self,
        write: Callable[[str], object] = print,
        *,
        label: str | None = None,
        mapper: Callable[[Any, Any], str] | None = None,
        name: str | None = None,
    ) -> None:
        """Pass a line for each record to `write`: [label]: key, value; or what `mapper(key, value)` returns."""

        def step(at: str) -> Step:
            text = None if mapper is None else function(at, "mapper", mapper)
            return stateless.Print(function(at, "write", write), self.name if label is None else label, text)

        self._node(step, "KSTREAM-PRINTER-", name)

    # Several streams.

    def split(self, *, name: str | None = None) -> BranchedStream:
        """Branch the stream (KIP-418). Branches have the name of the split as prefix."""
        from broker_streams.dsl.branched import BranchedStream

        return BranchedStream(self, name)

    def merge(self, other: KStream, *, name: str | None = None) -> KStream:
        """The records of both streams."""
        if not isinstance(other, KStream):
            raise TopologyError(f"{other!r} is no stream: a stream is merged with a stream")
        node = StepNode(self.graph.named(name, "KSTREAM-MERGE-"), stateless.PassThrough())
        node.is_merge = True
        self.graph.add(node, self.node, other.node)
        sources = tuple(dict.fromkeys((*self.sources, *other.sources)))
        needs_repartition = self.needs_repartition or other.needs_repartition
        return KStream(self.graph, node, node.name, None, None, sources, needs_repartition)

    # Groups and tables.

    def group_by_key(self, *, key: Any = None, value: Any = None, name: str | None = None) -> KGroupedStream:
        """Group records by their key. `name` is that of the repartition topic, if one is needed."""
        from broker_streams.dsl.grouped import KGroupedStream

        key_serde, value_serde = serde_of(key) or self.key_serde, serde_of(value) or self.value_serde
        return KGroupedStream(
            self.graph, self.node, self.name, key_serde, value_serde, self.sources, self.needs_repartition, name
        )

    def group_by(
        self, selector: Callable[[Any, Any], Any], *, key: Any = None, value: Any = None, name: str | None = None
    ) -> KGroupedStream:
        """Group records by the key that `selector(key, value)` returns, behind a repartition topic."""
        from broker_streams.dsl.grouped import KGroupedStream

        node = self.select_key_node(selector, name)
        value_serde = serde_of(value) or self.value_serde
        return KGroupedStream(self.graph, node, node.name, serde_of(key), value_serde, self.sources, True, name)

    # Topics.

    def repartition(
        self,
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
        partitions: int | None = None,
        partitioner: Callable[[str, Any, Any, int], Any] | None = None,
    ) -> KStream:
        """Write the stream to a topic NAME-repartition, and go on with what is read from it (KIP-221)."""
        if partitions is not None and partitions < 1:
            raise TopologyError(f"a repartition topic with {partitions} partitions cannot be; at least 1 is needed")
        value_serde = serde_of(value) or self.value_serde
        prefix = self.graph.new_name("KSTREAM-REPARTITION-") if name is None else checked_name(name)
        chosen = None if partitioner is None else function(prefix, "partitioner", partitioner)
        # Kafka's topic has the default serde if none is given, whatever the stream has.
        node = repartition(
            self.graph,
            prefix,
            serde_of(key),
            value_serde,
            partitioner=chosen,
            partitions=partitions,
            is_optimizable=False,
        )
        self.graph.add(node, self.node)
        key_serde = serde_of(key) or self.key_serde
        return KStream(self.graph, node, node.name, key_serde, value_serde, (node.name,), False)

    def repartitioned(self, prefix: str, key_serde: Any, value_serde: Any) -> RepartitionNode:
        """The node of an automatic repartition below this stream, in front of a grouping, table or join."""
        node = repartition(self.graph, prefix, key_serde, value_serde)
        self.graph.add(node, self.node)
        return node

    def to(
        self,
        topic: str | Callable[[Any, Any, Any], str],
        *,
        key: Any = None,
        value: Any = None,
        partitioner: Callable[[str, Any, Any, int], Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Write the stream to a topic, or to the one that `topic(key, value, record_context)` returns.

        `partitioner(topic, key, value, partitions)` returns a partition, several, or None for that of the key.
        """
        name = self.graph.named(name, "KSTREAM-SINK-")
        sink = Sink(
            name,
            (),
            topic if isinstance(topic, str) else None,
            None if isinstance(topic, str) else function(name, "topic_extractor", topic),
            serde_of(key) or self.key_serde,
            serde_of(value) or self.value_serde,
            None if partitioner is None else function(name, "partitioner", partitioner),
        )
        self.graph.add(SinkNode(sink), self.node)

    def to_table(self, *, name: str | None = None, materialized: Materialized | None = None) -> KTable:
        """The latest record of each key as a row of a table (KIP-523)."""
        from broker_streams.dsl.table_sources import table_of_stream

        return table_of_stream(self, name, materialized)

    # Processors of users.

    def process(self, supplier: Callable[[], Any], *stores: str, name: str | None = None) -> KStream:
        """Run a processor. `supplier()` makes one for each task; a class is a supplier. `stores` are names of stores
        that it may use; a supplier with a method `stores` adds its own (KIP-401).
        """
        made = self.graph.new_name("KSTREAM-PROCESSOR-") if name is None else checked_name(name)
        return self._below(self._processor_node(Process, supplier, stores, made), None, None, True)

    def process_values(self, supplier: Callable[[], Any], *stores: str, name: str | None = None) -> KStream:
        """As `process`, with a processor that keeps keys."""
        made = self.graph.new_name("KSTREAM-PROCESSVALUES-") if name is None else checked_name(name)
        return self._same_key(self._processor_node(ProcessValues, supplier, stores, made), None)

    def _processor_node(
        self, step: type[Process | ProcessValues], supplier: Callable[[], Any], stores: Sequence[str], name: str
    ) -> GraphNode:
        for store in stores:
            if not isinstance(store, str):
                raise TopologyError(f"{store!r} is no name of a store: add it with add_state_store, and give its name")
        made = step(function(name, "supplier", checked_supplier(supplier)))
        node = StepNode(name, made, stores_of(supplier), stores)
        self.graph.add(node, self.node)
        return node
