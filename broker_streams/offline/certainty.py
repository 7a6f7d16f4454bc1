"""The part of results that the recorded input determines, and so the comparison that is meaningful.

A task processes the records of one partition in their order. The order between partitions is that of their arrival: it
is recorded nowhere, and another run may have another one. Results that depend on it are determined in part only.

    RECORDS   the records of each partition; also their order if one task writes it
    CONTENTS  the records of each partition, in any order
    LAST      the last value of each key: the rows of a table
    NOTHING   joins of streams, and processors with state that see several partitions or the clock

Functions of aggregates count as ones whose result does not depend on the order of their records, as count and sum.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from broker_streams.kernel.settings import TaskSettings
from broker_streams.plan.steps.aggregates import StoredFold
from broker_streams.plan.steps.foreign_key_join import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from broker_streams.plan.steps.joins import SelfJoin
from broker_streams.plan.steps.processor_api import Process, ProcessValues
from broker_streams.plan.steps.stateless import (
    Branch,
    Filter,
    FilterNullKey,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)
from broker_streams.plan.steps.suppression import Suppress
from broker_streams.plan.steps.table_joins import TableJoinMerge, TableJoinSide
from broker_streams.plan.steps.tables import (
    TableAggregate,
    TableCount,
    TableFilter,
    TableGroup,
    TableMapValues,
    TableReduce,
    TableSource,
    TableToStream,
    TableTransformValues,
)
from broker_streams.plan.steps.windows import WindowedFold
from broker_streams.plan.stores import StoreKind
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.plan.topology import Node, ProcessorNode, Sink, Source, Topology


class Level(IntEnum):
    """See the module; a larger one allows the stricter comparison."""

    NOTHING = 0
    LAST = 1
    CONTENTS = 2
    RECORDS = 3


@dataclass(frozen=True)
class Certainty:
    """A level, and why it is not a stricter one; "" for RECORDS."""

    level: Level
    reason: str = ""

    def at_most(self, level: Level, reason: str) -> Certainty:
        return self if self.level <= level else Certainty(level, reason)


_STATELESS: Final = (
    Branch, Filter, FilterNullKey, FlatMap, FlatMapValues, Map, MapValues, PassThrough, Peek, Print, SelectKey,
    TableFilter, TableMapValues, TableToStream, TableGroup,
)  # fmt: skip
# With input in a known order they have one result, else rows that do not depend on the order.
_TABLES: Final = (TableSource, TableTransformValues, StoredFold, TableCount, TableReduce, TableAggregate, Suppress)
_JOINS_OF_TABLES: Final = (
    TableJoinSide, TableJoinMerge, ForeignTableJoin, ResponseJoin, SubscriptionJoin, SubscriptionReceive,
    SubscriptionSend,
)  # fmt: skip
# Their changelogs hold what waits, not rows of a table.
_BUFFERS: Final = (StoreKind.SUPPRESSION_BUFFER, StoreKind.JOIN_BUFFER, StoreKind.JOIN_OUTER)


class Certainties:
    """The certainty of each topic that a topology writes. `uses_clock`: a processor was called by the clock.
    `compacted`: input topics in which later records replace earlier ones of their keys.
    """

    def __init__(
        self, topology: Topology, settings: TaskSettings, *, uses_clock: bool, compacted: Collection[str] = ()
    ) -> None:
        self._topology, self._settings, self._uses_clock = topology, settings, uses_clock
        self._compacted = frozenset(compacted)
        self._stores = {each.name: each for each in topology.stores}
        self._of_node: dict[str, Certainty] = {}
        self._sources: dict[str, frozenset[str]] = {}
        # Internal topics may form a circle: go on until nothing changes.
        self._of_internal = {each.name: Certainty(Level.RECORDS) for each in topology.repartition_topics}
        while True:
            for node in topology.nodes:
                self._of_node[node.name] = self._certainty(node)
            found = {name: self._written(name) for name in self._of_internal}
            if all(found[name].level == each.level for name, each in self._of_internal.items()):
                break
            self._of_internal = found

    def topics(self) -> Mapping[str, Certainty]:
        """Topics of the user that sinks name."""
        names = {node.topic for node in self._topology.nodes if isinstance(node, Sink) and node.topic is not None}
        return {name: self._written(name) for name in sorted(names) if not self._topology.is_internal(name)}

    def of_chosen_topics(self) -> Certainty:
        """Topics that functions of sinks choose."""
        found = Certainty(Level.RECORDS)
        for node in self._topology.nodes:
            if isinstance(node, Sink) and node.topic is None:
                found = _least(found, self._of_node[node.name])
        return found

    def changelogs(self) -> Mapping[str, Certainty]:
        """Changelog topics with rows of tables."""
        found = {}
        for store in self._topology.stores:
            topic = self._topology.changelog(store, self._settings.application_id)
            if topic is None or store.source_topic is not None or store.kind in _BUFFERS or store.retain_duplicates:
                continue
            users = [
                self._of_node[node.name]
                for node in self._topology.nodes
                if isinstance(node, ProcessorNode) and store.name in node.stores
            ]
            certainty = Certainty(Level.LAST, "a changelog is a table")
            for each in users:
                certainty = _least(certainty, each)
            found[topic] = certainty
        return found

    def _written(self, topic: str) -> Certainty:
        """The certainty of the records that all sinks write to a topic."""
        sinks = [node for node in self._topology.nodes if isinstance(node, Sink) and node.topic == topic]
        found = Certainty(Level.RECORDS)
        for node in sinks:
            found = _least(found, self._of_node[node.name])
        return found.at_most(Level.CONTENTS, "several sinks write to it") if len(sinks) > 1 else found

    def _certainty(self, node: Node) -> Certainty:
        if isinstance(node, Source):
            return self._source(node)
        found = Certainty(Level.RECORDS)
        sources: frozenset[str] = frozenset()
        for parent in node.parents:
            found = _least(found, self._of_node[parent])
            sources |= self._sources[parent]
        self._sources[node.name] = sources
        if len(sources) > 1:
            found = found.at_most(Level.CONTENTS, "several topics are merged")
        if isinstance(node, Sink):
            return found
        return self._processor(node, found, len(sources) > 1)

    def _source(self, node: Source) -> Certainty:
        self._sources[node.name] = frozenset(node.topics)
        extractor = node.timestamp_extractor or self._settings.timestamp_extractor
        if extractor is TimestampExtractor.WALL_CLOCK:
            return Certainty(Level.NOTHING, "timestamps are those of the clock")
        replaced = sorted(self._compacted.intersection(node.topics))
        if replaced and not self._is_table(node):
            return Certainty(Level.NOTHING, f"{replaced[0]} is compacted: records of the stream may be gone")
        if replaced:
            return Certainty(Level.LAST, f"{replaced[0]} is compacted: earlier rows of the table may be gone")
        if len(node.topics) > 1:
            return Certainty(Level.CONTENTS, "several topics are merged")
        (topic,) = node.topics
        if topic not in self._of_internal:
            return Certainty(Level.RECORDS)
        return self._of_internal[topic].at_most(Level.CONTENTS, "several tasks write to a repartition topic")

    def streams_of_compacted_topics(self) -> list[str]:
        """Topics that compaction makes incomplete: they are read as streams."""
        sources = [node for node in self._topology.nodes if isinstance(node, Source) and not self._is_table(node)]
        return sorted(self._compacted.intersection(topic for node in sources for topic in node.topics))

    def _is_table(self, node: Source) -> bool:
        """Whether only tables read the source, so its last records are enough."""
        readers = [each for each in self._topology.nodes if not isinstance(each, Source) and node.name in each.parents]
        return node.name in self._topology.global_nodes or all(
            isinstance(each, ProcessorNode) and isinstance(each.step, TableSource) for each in readers
        )

    def _processor(self, node: ProcessorNode, given: Certainty, is_merged: bool) -> Certainty:
        step = node.step
        found = given
        if isinstance(step, _JOINS_OF_TABLES):
            found = given.at_most(Level.LAST, "tables are joined")
        elif isinstance(step, StoredFold) and given.level <= Level.LAST:
            found = Certainty(Level.NOTHING, f"it has a part for each update of a table: {given.reason}")
        elif isinstance(step, _TABLES):
            if given.level < Level.RECORDS:
                late = " of records, and on which came late for their windows" if isinstance(step, WindowedFold) else ""
                found = given.at_most(Level.LAST, f"updates of a table depend on the order{late}: {given.reason}")
        elif isinstance(step, Process | ProcessValues):
            found = self._of_user(node, given, is_merged)
        elif not isinstance(step, _STATELESS) and not isinstance(step, SelfJoin):
            found = Certainty(Level.NOTHING, "joined streams depend on the order in which records arrived")
        elif isinstance(step, SelfJoin) and given.level < Level.RECORDS:
            found = Certainty(Level.NOTHING, f"a join depends on the order of records: {given.reason}")
        caching = any(self._stores[name].caching for name in node.stores if name in self._stores)
        if caching and self._settings.cache_bytes > 0:
            found = found.at_most(Level.LAST, "caches pass on the last change of a row before a commit")
        return found

    def _of_user(self, node: ProcessorNode, given: Certainty, is_merged: bool) -> Certainty:
        if self._uses_clock:
            return Certainty(Level.NOTHING, "a processor is called by the clock")
        if self._topology.global_stores:
            return Certainty(Level.NOTHING, "processors may read global stores, which have no order with other topics")
        if not node.stores:
            return given
        if is_merged or given.level < Level.RECORDS:
            return Certainty(Level.NOTHING, "a processor with stores sees several partitions")
        return given


def _least(one: Certainty, other: Certainty) -> Certainty:
    return other if other.level < one.level else one
