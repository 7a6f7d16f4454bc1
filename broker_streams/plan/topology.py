"""The topology: nodes in the order of their addition, stores, and the sub-topologies that they form.

`TopologyBuilder` takes nodes as the DSL or a user's processor API adds them, and checks each addition. `Topology` is
the result, frozen. Names of internal topics lack the application id until a host gives it (`decorated`).

A sub-topology holds nodes that are connected by records or by stores. Sub-topologies are numbered in the order of the
first node of each, which is Kafka's numbering: the task ids of an application stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.stores import Store
from broker_streams.plan.timestamps import TimestampExtractor


class TopologyError(ValueError):
    """A topology that cannot be. The text names the node, store or topic."""


@dataclass(frozen=True)
class Source:
    """Reads topics, or all topics whose whole name matches `pattern` (a Java expression)."""

    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: Function | TimestampExtractor | None = None
    # earliest, latest, none, or by_duration:PT1H; None: the application's auto.offset.reset.
    offset_reset: str | None = None

    parents: tuple[str, ...] = field(default=(), init=False)


@dataclass(frozen=True)
class ProcessorNode:
    """Runs `step` for each record of its parents. `stores` are the stores that it may use."""

    name: str
    parents: tuple[str, ...]
    step: Step
    stores: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sink:
    """Writes to a topic, or to the topic that `topic_extractor(key, value, record_context)` returns. `partitioner` is
    called as (topic, key, value, partitions) and returns partitions; None: Kafka's partitioner of the key's bytes.
    """

    name: str
    parents: tuple[str, ...]
    topic: str | None = None
    topic_extractor: Function | None = None
    key_serde: Any = None
    value_serde: Any = None
    partitioner: Function | None = None


Node = Source | ProcessorNode | Sink


@dataclass(frozen=True)
class InternalTopic:
    """A repartition topic. `partitions` None: as many as the largest of the topics that it is made from."""

    name: str
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Subtopology:
    """The part of a topology that tasks run: one for each partition of its source topics."""

    number: int
    nodes: tuple[Node, ...]
    stores: tuple[Store, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(each for each in self.nodes if isinstance(each, Source))

    @property
    def sinks(self) -> tuple[Sink, ...]:
        return tuple(each for each in self.nodes if isinstance(each, Sink))


@dataclass(frozen=True)
class Topology:
    """See the module. `global_nodes` are names of sources and processors that fill global stores."""

    nodes: tuple[Node, ...]
    stores: tuple[Store, ...]
    repartition_topics: tuple[InternalTopic, ...] = ()
    global_nodes: frozenset[str] = frozenset()
    global_stores: tuple[str, ...] = ()
    # Groups of source nodes whose topics must have equally many partitions.
    copartitioned: tuple[tuple[str, ...], ...] = ()

    def node(self, name: str) -> Node:
        return next(each for each in self.nodes if each.name == name)

    def store(self, name: str) -> Store:
        return next(each for each in self.stores if each.name == name)

    def children(self, name: str) -> tuple[Node, ...]:
        """In the order of their addition, in which a record reaches them."""
        return tuple(each for each in self.nodes if name in each.parents)

    def groups(self) -> tuple[tuple[Node, ...], ...]:
        """All node groups in Kafka's order, those of global stores too: a sub-topology's number is its place."""
        groups = _Groups(each.name for each in self.nodes)
        user_of_store: dict[str, str] = {}
        for node in self.nodes:
            for parent in node.parents:
                groups.join(parent, node.name)
            if isinstance(node, ProcessorNode):
                for store in node.stores:
                    if store not in self.global_stores:
                        groups.join(user_of_store.setdefault(store, node.name), node.name)
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(groups.root(node.name), []).append(node)
        return tuple(tuple(each) for each in found.values())

    def subtopologies(self) -> tuple[Subtopology, ...]:
        """Without those of global stores, whose numbers are left out."""
        found = []
        for number, nodes in enumerate(self.groups()):
            if any(node.name in self.global_nodes for node in nodes):
                continue
            used = {store for node in nodes if isinstance(node, ProcessorNode) for store in node.stores}
            stores = tuple(each for each in self.stores if each.name in used and each.name not in self.global_stores)
            found.append(Subtopology(number, nodes, stores))
        return tuple(found)

    def is_internal(self, topic: str) -> bool:
        return any(each.name == topic for each in self.repartition_topics)

    def decorated(self, topic: str, application_id: str) -> str:
        """The name of a topic in the cluster."""
        return f"{application_id}-{topic}" if self.is_internal(topic) else topic

    def changelog(self, store: Store, application_id: str) -> str | None:
        """The name of a store's changelog topic; None: it has none."""
        if store.source_topic is None and not store.logging:
            return None
        return store.source_topic or f"{application_id}-{store.name}-changelog"


class _Groups:
    """Disjoint sets of names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def root(self, name: str) -> str:
        while (parent := self._parent[name]) != name:
            self._parent[name] = name = self._parent[parent]
        return name

    def join(self, one: str, other: str) -> None:
        self._parent[self.root(other)] = self.root(one)


class TopologyBuilder:
    """Collects a topology. All methods raise TopologyError for names that exist, or that are missing."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, Store] = {}
        self._repartition_topics: dict[str, InternalTopic] = {}
        self._global_nodes: set[str] = set()
        self._global_stores: dict[str, None] = {}
        self._copartitioned: list[tuple[str, ...]] = []
        self._topics: dict[str, str] = {}
        self._patterns: dict[str, str] = {}

    def add_source(self, source: Source) -> None:
        self._check_new(source.name)
        if bool(source.topics) == (source.pattern is not None):
            raise TopologyError(f"source {source.name} needs topics or a pattern")
        for topic in source.topics:
            self._check_topic(topic)
        if source.pattern is not None:
            for topic in self._topics:
                if re.fullmatch(source.pattern, topic):
                    raise TopologyError(
                        f"pattern {source.pattern} of {source.name} matches topic {topic}, which is read"
                    )
            self._patterns[source.pattern] = source.name
        for topic in source.topics:
            self._topics[topic] = source.name
        self._nodes[source.name] = source

    def add_processor(self, node: ProcessorNode) -> None:
        self._check_new(node.name)
        self._check_parents(node)
        for store in node.stores:
            self._check_store(store)
        self._nodes[node.name] = node

    def add_sink(self, sink: Sink) -> None:
        self._check_new(sink.name)
        self._check_parents(sink)
        if bool(sink.topic) == (sink.topic_extractor is not None):
            raise TopologyError(f"sink {sink.name} needs a topic or a function for it")
        self._nodes[sink.name] = sink

    def add_store(self, store: Store, processors: Iterable[str] = ()) -> None:
        """Add a store, which may be there if it is equal, and connect it to processors."""
        if self._stores.get(store.name, store) != store:
            raise TopologyError(f"store {store.name} was added with other settings before")
        self._stores[store.name] = store
        for each in processors:
            self.connect(each, store.name)

    def store(self, name: str) -> Store:
        """A store that was added."""
        self._check_store(name)
        return self._stores[name]

    def connect(self, processor: str, *stores: str) -> None:
        node = self._nodes.get(processor)
        if not isinstance(node, ProcessorNode):
            kind = "does not exist" if node is None else "is no processor"
            raise TopologyError(f"{processor} {kind}: stores cannot be connected to it")
        for store in stores:
            self._check_store(store)
            if store not in node.stores:
                node = replace(node, stores=(*node.stores, store))
        self._nodes[processor] = node

    def add_global_store(self, store: Store, source: Source, processor: ProcessorNode) -> None:
        """A store that each instance fills from all partitions of a topic, without a changelog."""
        if store.name in self._stores:
            raise TopologyError(f"store {store.name} exists")
        if len(source.topics) != 1:
            raise TopologyError(f"global store {store.name} needs one topic")
        self._stores[store.name] = replace(store, logging=False)
        self._global_stores[store.name] = None
        self.add_source(source)
        self.add_processor(replace(processor, stores=(store.name,)))
        self._global_nodes |= {source.name, processor.name}

    def add_repartition_topic(self, topic: InternalTopic) -> None:
        self._repartition_topics[topic.name] = topic

    def use_source_topic(self, store: str, topic: str) -> None:
        """The source topic is the changelog of the store, which writes none itself."""
        self._stores[store] = replace(self._stores[store], source_topic=topic, logging=False)

    def copartition(self, sources: Iterable[str]) -> None:
        self._copartitioned.append(tuple(sources))

    def build(self) -> Topology:
        """Raises TopologyError for a topology without nodes, and for joined topics that cannot fit together."""
        if not self._nodes:
            raise TopologyError("a topology without nodes cannot run")
        for group in self._copartitioned:
            self._check_copartitioned(group)
        return Topology(
            tuple(self._nodes.values()),
            tuple(self._stores.values()),
            tuple(self._repartition_topics.values()),
            frozenset(self._global_nodes),
            tuple(self._global_stores),
            tuple(self._copartitioned),
        )

    def _check_copartitioned(self, group: tuple[str, ...]) -> None:
        """The numbers of partitions are known now only if the user gave all of them."""
        sources = [node for name in group if isinstance(node := self._nodes.get(name), Source)]
        topics = [self._repartition_topics.get(topic) for source in sources for topic in source.topics]
        found = {topic.name: topic.partitions for topic in topics if topic is not None and topic.partitions is not None}
        if len(found) == len(topics) and len(set(found.values())) > 1:
            shown = ", ".join(f"{name} has {partitions}" for name, partitions in sorted(found.items()))
            raise TopologyError(f"joined topics need equally many partitions: {shown}")

    def _check_new(self, name: str) -> None:
        if not name:
            raise TopologyError("a node needs a name")
        if name in self._nodes:
            raise TopologyError(f"node {name} exists")

    def _check_topic(self, topic: str) -> None:
        if topic in self._topics:
            raise TopologyError(f"topic {topic} is read by {self._topics[topic]} already")
        for pattern, name in self._patterns.items():
            if re.fullmatch(pattern, topic):
                raise TopologyError(f"topic {topic} matches pattern {pattern} of {name}")

    def _check_parents(self, node: ProcessorNode | Sink) -> None:
        if not node.parents:
            raise TopologyError(f"node {node.name} has no parent")
        for parent in node.parents:
            if parent == node.name:
                raise TopologyError(f"node {node.name} is its own parent")
            found = self._nodes.get(parent)
            if found is None:
                raise TopologyError(f"parent {parent} of {node.name} does not exist")
            if isinstance(found, Sink):
                raise TopologyError(f"parent {parent} of {node.name} is a sink")

    def _check_store(self, store: str) -> None:
        if store not in self._stores:
            raise TopologyError(f"store {store} does not exist")
