"""Makes a task from nodes of a topology."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import broker_streams.kernel.processors as _processors
from broker_cy.wire.record import Record as Input
from broker_streams.kernel.collector import ChoosingSink, Collector
from broker_streams.kernel.entry import Entry, Extract, extractor
from broker_streams.kernel.errors import StreamsError, log_and_fail
from broker_streams.kernel.failures import Failures
from broker_streams.kernel.forward import Spread, guarded, measured
from broker_streams.kernel.operators import processor_of
from broker_streams.kernel.partition_group import PartitionGroup
from broker_streams.kernel.processor import Forward, Processing, ProcessorContext, TaskState
from broker_streams.kernel.record_queue import RecordQueue
from broker_streams.kernel.settings import TaskSettings
from broker_streams.kernel.stores.factory import open_stores
from broker_streams.kernel.stores.maps import OpenMaps, in_memory
from broker_streams.kernel.task import Task
from broker_streams.kernel.topic_sink import TopicSink
from broker_streams.plan.functions import Function
from broker_streams.plan.java_order import in_hash_order
from broker_streams.plan.stores import Store
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.plan.topology import Node, ProcessorNode, Sink, Source, Subtopology, Topology
from broker_streams.records import Record
from broker_streams.serdes import Serde
from broker_streams.serdes.schemas.binding import of_source, with_registry
from broker_streams.serdes.windowed import WindowedSerde

# The import registers the processors of all steps.
assert _processors is not None


def build(
    topology: Topology,
    part: Subtopology,
    partition: int,
    settings: TaskSettings,
    partitions: Callable[[str], int] | None = None,
    global_stores: Mapping[str, Any] | None = None,
    open_maps: OpenMaps = in_memory,
) -> Task:
    """A task that lacks its inputs (`Task.assign`) and is not initialized.

    `partitions` returns the number of partitions of a topic; without it, the producer chooses partitions by keys, and
    sinks with a partitioner fail. All processors may read `global_stores`. `open_maps` opens the maps of
    persistent stores.

    Raises StreamsError: a node has no serde. LookupError: the kernel cannot run a step.
    """
    try:
        bound = with_registry(part, settings.registry)
    except ValueError as error:
        raise StreamsError(str(error)) from None
    return _Builder(topology, bound, partition, settings, partitions, global_stores or {}, open_maps).build()


class _Builder:
    def __init__(
        self,
        topology: Topology,
        part: Subtopology,
        partition: int,
        settings: TaskSettings,
        partitions: Callable[[str], int] | None,
        global_stores: Mapping[str, Any],
        open_maps: OpenMaps,
    ) -> None:
        self._topology = topology
        self._part = part
        self._settings = settings
        self._global_stores = global_stores
        self._open_maps = open_maps
        self._state = TaskState(settings.application_id, (part.number, partition))
        self._state.join_emit_interval_ms = settings.join_emit_interval_ms
        self._state.window_emit_interval_ms = settings.window_emit_interval_ms
        self._state.key_serde, self._state.value_serde = settings.key_serde, settings.value_serde
        self._state.splits_changes = settings.splits_changes
        self._state.node_counts = {} if settings.counts_nodes else None
        self._collector = Collector(partitions)
        self._failures = Failures(self._state, settings, self._collector.outputs.append)
        self._task = Task(self._state, PartitionGroup(settings.max_task_idle_ms), self._collector, self._failures)
        self._forwards: dict[str, Forward] = {}
        self._processors: dict[str, tuple[Processing, ProcessorContext]] = {}
        self._children: dict[str, list[Node]] = {}

    def build(self) -> Task:
        settings, nodes = self._settings, self._part.nodes
        for node in nodes:
            for parent in node.parents:
                self._children.setdefault(parent, []).append(node)
        stores = [with_place(each, settings) for each in stores_in_order(self._part)]
        changelogs = {
            each.name: self._topology.changelog(each, settings.application_id) or "" for each in self._part.stores
        }
        self._task.stores = open_stores(
            stores,
            self._state,
            self._collector.changed(changelogs),
            settings.key_serde,
            settings.value_serde,
            settings.cache_bytes,
            self._open_maps,
        )
        # Children first, so that each node forwards to their bound calls.
        for node in reversed(nodes):
            self._add(node)
        in_order = {node.name: self._processors[node.name] for node in nodes if node.name in self._processors}
        writers = {topic: store for store, topic in changelogs.items()}
        writers |= {
            self._decorated(node.topic): node.name
            for node in nodes
            if isinstance(node, Sink) and node.topic is not None
        }
        self._task.bind(in_order, self._queue_of, writers)
        return self._task

    def _add(self, node: Node) -> None:
        if isinstance(node, Source):
            return
        if isinstance(node, Sink):
            sink = self._sink(node)
            self._processors[node.name] = sink, self._context(node)
            # As in Kafka, an error of a sink goes to the handler of the processor above it.
            self._forwards[node.name] = self._counted(node.name, sink if isinstance(sink, TopicSink) else sink.process)
            return
        processor = processor_of(node.step)
        self._processors[node.name] = processor, self._context(node)
        self._forwards[node.name] = self._counted(node.name, guarded(node.name, processor, self._failures))

    def _counted(self, node: str, forward: Forward) -> Forward:
        if node not in self._children:
            spread = Spread()
            self._task.latencies[node] = [spread]
            forward = measured(forward, self._state, spread)
        counts = self._state.node_counts
        if counts is None:
            return forward
        counts[node] = 0

        def counted(record: Record) -> None:
            counts[node] += 1
            forward(record)

        return counted

    def _context(self, node: Node) -> ProcessorContext:
        children = {child.name: self._forwards[child.name] for child in self._children.get(node.name, ())}
        names = node.stores if isinstance(node, ProcessorNode) else ()
        stores: dict[str, Any] = {name: ReadOnlyStore(name, store) for name, store in self._global_stores.items()}
        stores |= {name: self._task.stores[name] for name in names if name in self._task.stores}
        task = self._task

        def schedule(*args: Any) -> Any:
            return task.schedule(node.name, *args)

        def request_commit() -> None:
            task.commit_requested = True

        return ProcessorContext(node.name, self._state, children, stores, schedule, request_commit)

    def _sink(self, node: Sink) -> Processing:
        key_serde = self._serde(node.name, "key", node.key_serde)
        value_serde = self._serde(node.name, "value", node.value_serde)
        partitioner: Callable[..., Any] | None = node.partitioner.call if node.partitioner else None
        suffix_bytes = node.key_serde.suffix_bytes if isinstance(node.key_serde, WindowedSerde) else 0
        if partitioner is None:
            # Values that know the partition of their receiver: responses of foreign-key joins.
            partitioner = getattr(value_serde, "partitions_of", None)
        if node.topic is not None and partitioner is None:
            topic = self._decorated(node.topic)
            return TopicSink(node.name, topic, key_serde, value_serde, self._collector, self._failures, suffix_bytes)
        chosen: Any = node.topic_extractor.call if node.topic_extractor else self._decorated(str(node.topic))
        return ChoosingSink(
            node.name,
            chosen,
            key_serde,
            value_serde,
            partitioner,
            self._collector,
            self._failures,
            self._state,
            self._decorated,
            suffix_bytes,
        )

    def _decorated(self, topic: str) -> str:
        return self._topology.decorated(topic, self._settings.application_id)

    def _serde(self, node: str, part: str, serde: Any) -> Serde:
        return resolved(serde, self._settings, node, part)

    def _queue_of(self, topic: str, partition: int) -> RecordQueue:
        """Raises LookupError: no source reads the topic."""
        for source in self._part.sources:
            topics = [self._decorated(each) for each in source.topics]
            if topic in topics or (source.pattern is not None and re.fullmatch(source.pattern, topic)):
                return RecordQueue(topic, partition, self._entry(source))
        raise LookupError(f"no source of task {self._state.task_id[0]}_{partition} reads topic {topic}")

    def _entry(self, source: Source) -> Entry:
        children = [self._forwards[child.name] for child in self._children.get(source.name, ())]
        failures, state = self._failures, self._state

        def refuse(topic: str, partition: int, found: Input, error: Exception) -> None:
            failures.deserialization(source.name, topic, partition, found, error)

        def skip() -> None:
            state.dropped_records += 1

        return Entry(
            source.name,
            of_source(self._serde(source.name, "key", source.key_serde)),
            of_source(self._serde(source.name, "value", source.value_serde)),
            self._context(source).forward_all if children else _ignored,
            self._extract(source),
            refuse,
            skip,
        )

    def _extract(self, source: Source) -> Extract | None:
        chosen = source.timestamp_extractor or self._settings.timestamp_extractor
        if isinstance(chosen, Function):
            return chosen.call
        state = self._state
        return extractor(chosen, lambda: state.system_time_ms)


def _ignored(record: Any) -> None:
    """A source without children."""


def with_place(store: Store, settings: TaskSettings) -> Store:
    """The store, persistent or not, by the application's settings where it does not say it itself."""
    if store.persistent is not None:
        return store
    return dataclasses.replace(store, persistent=not settings.in_memory_stores)


def stores_in_order(part: Subtopology) -> Iterable[Store]:
    """The stores of a task in the order in which Kafka registers them, and flushes them at a commit."""
    by_name = {each.name: each for each in part.stores}
    found: dict[str, Store] = {}
    for node in part.nodes:
        if isinstance(node, ProcessorNode):
            for name in in_hash_order(node.stores):
                if name in by_name:
                    found.setdefault(name, by_name[name])
    return found.values()


def resolved(serde: Any, settings: TaskSettings, node: str, part: str) -> Serde:
    """The serde of a node, or the application's default. A serde around another one takes a default in its place if it
    has none (`with_defaults`). Raises StreamsError: no serde is given.
    """
    default = settings.key_serde if part == "key" else settings.value_serde
    found: Any = default if serde is None else serde
    if hasattr(found, "with_defaults"):
        found = found.with_defaults(settings.key_serde, settings.value_serde)
    if found is None or getattr(found, "inner", found) is None:
        raise StreamsError(f"{node} has no {part} serde: give it one, or set default.{part}.serde")
    return found  # type: ignore[no-any-return]  # a user's object


class ReadOnlyStore:
    """A global store as the processors of tasks see it."""

    def __init__(self, name: str, store: Any) -> None:
        self._name = name
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """Raises PermissionError: the call writes."""
        if name in _WRITES:
            raise PermissionError(
                f"global store {self._name} is filled from its topic only; {name} is not allowed here"
            )
        return getattr(self._store, name)


_WRITES = frozenset(("put", "put_all", "put_if_absent", "delete", "remove", "restore", "flush", "set_flush_listener"))


def build_global(topology: Topology, settings: TaskSettings, open_maps: OpenMaps = in_memory) -> Task | None:
    """The task that fills the global stores, initialized at time 0; None: the topology has none.

    It reads all partitions of its topics, and has no results. Errors of its processors end it, unless
    processing.exception.handler.global.enabled is set. `open_maps` opens the maps of persistent stores.
    """
    nodes = tuple(each for each in topology.nodes if each.name in topology.global_nodes)
    if not nodes:
        return None
    stores = tuple(each for each in topology.stores if each.name in topology.global_stores)
    # Kafka takes timestamps as they are, and keeps back no row.
    changed = dataclasses.replace(
        settings,
        cache_bytes=0,
        max_task_idle_ms=-1,
        timestamp_extractor=TimestampExtractor.FAIL_ON_INVALID,
        processing_handler=settings.processing_handler if settings.global_processing_handler else log_and_fail,
    )
    nodes = tuple(
        dataclasses.replace(each, timestamp_extractor=None) if isinstance(each, Source) else each for each in nodes
    )
    task = build(topology, Subtopology(-1, nodes, stores), -1, changed, open_maps=open_maps)
    for node in nodes:
        if isinstance(node, Source):
            for topic in node.topics:
                task.assign(topic, 0)
    task.initialize(0)
    return task
