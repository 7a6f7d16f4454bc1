"""Graph nodes of sources, sinks, stores and repartition topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from broker_streams.dsl.graph import Graph, GraphNode, StepNode
from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.steps.stateless import PassThrough
from broker_streams.plan.stores import Store
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.plan.topology import (
    InternalTopic,
    ProcessorNode,
    Sink,
    Source,
    TopologyBuilder,
    TopologyError,
)

SUFFIX: Final = "-repartition"
_GENERATED: Final = re.compile(r"KSTREAM.*-[0-9]{10}")


def function(node: str, field: str, call: Callable[..., Any]) -> Function:
    """A function of the user, at its place. Raises TopologyError: it cannot be called."""
    if not callable(call):
        raise TopologyError(f"the {field} of {node} is {call!r}, which cannot be called")
    return Function(f"{node}.{field}", call)


class SourceNode(GraphNode):
    """Reads topics for a stream."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.name)
        self.source = source

    def merge(self, other: SourceNode) -> None:
        """Take the children of a source of the same topics. Raises TopologyError: their offset resets differ."""
        if self.source.offset_reset != other.source.offset_reset:
            topics = ", ".join(self.source.topics) or self.source.pattern
            raise TopologyError(
                f"{topics} is read with offset reset {self.source.offset_reset} by {self.name}"
                f" and {other.source.offset_reset} by {other.name}"
            )
        for child in tuple(other.children):
            other.remove_child(child)
            self.add_child(child)

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_source(self.source)


class TableSourceNode(StepNode):
    """Reads a topic into a table: a source, and the processor that keeps the table. The node has the name of the
    processor. A table that needs no store has no `stores`.
    """

    def __init__(self, name: str, source: Source, step: Step, stores: Sequence[Store] = ()) -> None:
        super().__init__(name, step, stores)
        self.source = source
        # The topic itself is the changelog of the store.
        self.reuses_topic = False

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_source(self.source)
        topology.add_processor(ProcessorNode(self.name, (self.source.name,), self.step))
        for store in self.stores:
            topology.add_store(store, (self.name,))
            if self.reuses_topic:
                topology.use_source_topic(store.name, self.source.topics[0])


class SinkNode(GraphNode):
    """Writes a stream to a topic. The parents of `sink` come with the writing."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink.name)
        self.sink = sink

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_sink(replace(self.sink, parents=self.parent_names))


class StoreNode(GraphNode):
    """A store of the user, which processors are connected to by its name."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.name)
        self.store = store

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_store(self.store)


class GlobalStoreNode(StoreNode):
    """A global store, and the source and processor that fill it. The node has the name of the processor."""

    def __init__(self, store: Store, source: Source, processor_name: str, step: Step) -> None:
        super().__init__(store)
        self.name = processor_name
        self.source = source
        self.step = step

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_global_store(self.store, self.source, ProcessorNode(self.name, (self.source.name,), self.step))


class RepartitionNode(GraphNode):
    """Writes records to a topic of the application and reads them again. The node has the name of the source.

    `filter_step` runs in the processor in front of the topic; `filter_name` None: there is none, as for tables.
    `is_optimizable`: one topic may take the place of several ones of this kind below the same change of the key.
    """

    def __init__(
        self,
        topic: InternalTopic,
        source_name: str,
        filter_name: str | None,
        sink_name: str,
        key_serde: Any,
        value_serde: Any,
        partitioner: Function | None = None,
        is_optimizable: bool = True,
    ) -> None:
        super().__init__(source_name)
        self.topic = topic
        self.filter_name = filter_name
        self.filter_step: Step = PassThrough()
        self.sink_name = sink_name
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.partitioner = partitioner
        self.is_optimizable = is_optimizable

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_repartition_topic(self.topic)
        parents = self.parent_names
        if self.filter_name is not None:
            topology.add_processor(ProcessorNode(self.filter_name, parents, self.filter_step))
            parents = (self.filter_name,)
        topology.add_sink(
            Sink(
                self.sink_name,
                parents,
                self.topic.name,
                key_serde=self.key_serde,
                value_serde=self.value_serde,
                partitioner=self.partitioner,
            )
        )
        topology.add_source(
            Source(
                self.name,
                (self.topic.name,),
                key_serde=self.key_serde,
                value_serde=self.value_serde,
                timestamp_extractor=TimestampExtractor.FAIL_ON_INVALID,
            )
        )


def repartition(
    graph: Graph,
    prefix: str,
    key_serde: Any,
    value_serde: Any,
    *,
    partitioner: Function | None = None,
    partitions: int | None = None,
    config: Mapping[str, str] | None = None,
    is_optimizable: bool = True,
) -> RepartitionNode:
    """A node for the topic PREFIX-repartition, which is not added to the graph yet.

    Three names are counted in any case. They are used if the prefix is a generated name of a node; otherwise the names
    are those of the topic with -sink, -filter and -source.
    """
    topic = prefix if prefix.endswith(SUFFIX) else prefix + SUFFIX
    sink = graph.new_name("KSTREAM-SINK-")
    null_key_filter = graph.new_name("KSTREAM-FILTER-")
    source = graph.new_name("KSTREAM-SOURCE-")
    if not _GENERATED.fullmatch(prefix):
        sink, null_key_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    return RepartitionNode(
        InternalTopic(topic, partitions, dict(config or {})),
        source,
        null_key_filter,
        sink,
        key_serde,
        value_serde,
        partitioner,
        is_optimizable,
    )


class Stream:
    """The part that streams and tables share: a name, serdes (None: not known), the graph with their node, and the
    names of the sources that their records come from (for equally partitioned topics).
    """

    def __init__(
        self, graph: Graph, node: GraphNode, name: str, key_serde: Any, value_serde: Any, sources: Sequence[str]
    ) -> None:
        self.graph = graph
        self.node = node
        self.name = name
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.sources = tuple(sources)
        # The repartition of all joins of this stream that have no name.
        self.join_repartition: RepartitionNode | None = None

    def copartitioned_with(self, *others: Stream) -> tuple[str, ...]:
        """Require equally many partitions of the sources of all. Returns the names of the sources."""
        names = tuple(dict.fromkeys(name for each in (self, *others) for name in each.sources))
        self.graph.copartition(names)
        return names

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"
