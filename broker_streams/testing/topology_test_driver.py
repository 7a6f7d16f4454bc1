"""TopologyTestDriver: runs a topology on records that a test gives, without a cluster, record by record.

    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        orders = driver.create_input_topic("orders", key=STRING, value=STRING)
        totals = driver.create_output_topic("totals", key=STRING, value=LONG)
        orders.pipe_input("a", "1", 1_000)
        assert totals.read_key_value() == ("a", 1)

As Kafka's driver, it runs the whole topology as one task with one partition of each topic, commits after each record,
and passes records of internal topics on at once. Its clock moves only with `advance_wall_clock_time`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from broker_streams import settings
from broker_streams.dsl.topology import Topology
from broker_streams.kernel.build import build, build_global
from broker_streams.kernel.errors import Output, log_and_continue
from broker_streams.kernel.settings import TaskSettings
from broker_streams.kernel.task import Task
from broker_streams.plan.durations import milliseconds
from broker_streams.plan.stores import StoreKind
from broker_streams.plan.topology import Source, Subtopology
from broker_streams.plan.topology import Topology as Plan
from broker_streams.records import NO_HEADERS, Headers
from broker_streams.registry.opening import open_registry
from broker_streams.serdes import names
from broker_streams.serdes.schemas.binding import with_registry
from broker_streams.testing.stores import PlainStore, PlainWindowStore
from broker_streams.testing.topics import InputTopic, OutputTopic

# As Kafka's driver, for results that became final: a test need not move the clock.
_EMIT_AT_ONCE: Final = {
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
}


class TopologyTestDriver:
    """`config` has Kafka's names of settings. Raises StreamsError and TopologyError: the topology cannot run."""

    def __init__(
        self,
        topology: Topology | Plan,
        config: Mapping[str, Any] | None = None,
        initial_wall_clock_time_ms: int = 0,
    ) -> None:
        plan = topology.plan if isinstance(topology, Topology) else topology
        given = {"application.id": "topology-test-driver", **(config or {})}
        found = settings.read(_EMIT_AT_ONCE | given)
        settings.warn(found)
        self._settings = TaskSettings.of(found, open_registry(found))
        self._plan = plan
        self._now_ms = initial_wall_clock_time_ms
        # All records that were written, those of changelogs too, as (topic, partition, key, value, timestamp, headers).
        self.produced: list[Output] = []
        self._queues: dict[str, deque[Output]] = {}
        self._offsets: dict[str, int] = {}
        global_sources = (each for each in plan.nodes if isinstance(each, Source) and each.name in plan.global_nodes)
        self._global_topics = {topic for source in global_sources for topic in source.topics}
        self._global_task = self._build_global_task()
        self._task = self._build_task()
        self._is_closed = False

    def _build_global_task(self) -> Task | None:
        # Kafka's driver skips records of global topics that cannot be read.
        settings = dataclasses.replace(self._settings, deserialization_handler=log_and_continue, dead_letter_topic=None)
        return build_global(self._plan, settings)

    def _build_task(self) -> Task | None:
        plan = self._plan
        nodes = tuple(each for each in plan.nodes if each.name not in plan.global_nodes)
        if not nodes:
            return None
        stores = tuple(each for each in plan.stores if each.name not in plan.global_stores)
        part = Subtopology(0, nodes, stores)
        global_stores = self._global_task.stores if self._global_task is not None else {}
        task = build(plan, part, 0, self._settings, lambda topic: 1, global_stores)
        self._patterns: list[str] = []
        self._inputs: set[str] = set()
        for source in part.sources:
            if source.pattern is not None:
                self._patterns.append(source.pattern)
            for topic in source.topics:
                decorated = plan.decorated(topic, self._settings.application_id)
                self._inputs.add(decorated)
                task.assign(decorated, 0)
        task.initialize(self._now_ms)
        return task

    def create_input_topic(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        start_timestamp_ms: int | None = None,
        auto_advance_ms: int = 0,
    ) -> InputTopic:
        """A topic to write to. Serdes of None are the application's defaults. Records without a timestamp get
        `start_timestamp_ms` (the driver's time), and each further one `auto_advance_ms` more.
        """
        start_ms = self._now_ms if start_timestamp_ms is None else start_timestamp_ms
        key_serde, value_serde = self._serdes(key, value)
        return InputTopic(self.pipe_raw, topic, key_serde, value_serde, start_ms, auto_advance_ms)

    def create_output_topic(self, topic: str, *, key: Any = None, value: Any = None) -> OutputTopic:
        """A topic to read from, changelogs and repartition topics too."""
        key_serde, value_serde = self._serdes(key, value)
        return OutputTopic(self._queues, topic, key_serde, value_serde)

    def _serdes(self, key: Any, value: Any) -> tuple[Any, Any]:
        registry = self._settings.registry
        return (
            with_registry(names.of(key) or self._settings.key_serde, registry, is_key=True),
            with_registry(names.of(value) or self._settings.value_serde, registry),
        )

    def produced_topic_names(self) -> set[str]:
        return set(self._queues)

    def pipe_raw(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = NO_HEADERS
    ) -> None:
        """Process one record in bytes. Raises ValueError: no source reads the topic. StreamsError: the task ended."""
        is_input, is_global = self._is_input(topic), topic in self._global_topics
        if not is_input and not is_global:
            raise ValueError(f"no source of the topology reads topic {topic}")
        if is_input:
            self._enqueue(topic, key, value, timestamp, headers)
            self._complete()
        if is_global:
            self._process_global(topic, key, value, timestamp, headers)

    def advance_wall_clock_time(self, advance: int | str) -> None:
        """Move the clock by a duration, call the punctuations that are due, and process what waited for the time."""
        self._now_ms += milliseconds(advance, "the advance of the clock")
        try:
            if self._task is not None:
                self._task.punctuate(self._now_ms)
                self._commit()
        finally:
            self._capture()
        self._complete()

    @property
    def wall_clock_time_ms(self) -> int:
        return self._now_ms

    @property
    def dropped_records(self) -> int:
        """Records that processors skipped (Kafka's metric dropped-records-total)."""
        return sum(task.state.dropped_records for task in (self._task, self._global_task) if task is not None)

    def close(self) -> None:
        """Close all processors. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in (self._task, self._global_task):
            if task is not None:
                task.close()
        self._capture()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Stores.

    def get_all_state_stores(self) -> dict[str, Any]:
        return {each.name: self.get_state_store(each.name) for each in self._plan.stores}

    def get_state_store(self, name: str) -> Any:
        """A store as processors see it; None: the topology has no such store."""
        for task in (self._task, self._global_task):
            if task is not None and name in task.stores:
                # A test that writes into a store does so outside of any record.
                task.state.timestamp, task.state.headers, task.state.metadata = 0, NO_HEADERS, None
                return task.stores[name]
        return None

    def get_key_value_store(self, name: str) -> Any:
        """Keys and plain values, also of a store that keeps timestamps; None: no such store."""
        if self._kind(name) is StoreKind.TIMESTAMPED_KEY_VALUE:
            return PlainStore(self.get_state_store(name))
        return self._of_kind(name, StoreKind.KEY_VALUE)

    def get_timestamped_key_value_store(self, name: str) -> Any:
        return self._of_kind(name, StoreKind.TIMESTAMPED_KEY_VALUE)

    def get_versioned_key_value_store(self, name: str) -> Any:
        return self._of_kind(name, StoreKind.VERSIONED_KEY_VALUE)

    def get_window_store(self, name: str) -> Any:
        """Plain values, also of a store that keeps timestamps; None: no such store."""
        if self._kind(name) is StoreKind.TIMESTAMPED_WINDOW:
            return PlainWindowStore(self.get_state_store(name))
        return self._of_kind(name, StoreKind.WINDOW)

    def get_timestamped_window_store(self, name: str) -> Any:
        return self._of_kind(name, StoreKind.TIMESTAMPED_WINDOW)

    def get_session_store(self, name: str) -> Any:
        return self._of_kind(name, StoreKind.SESSION)

    def _kind(self, name: str) -> StoreKind | None:
        return next((each.kind for each in self._plan.stores if each.name == name), None)

    def _of_kind(self, name: str, kind: StoreKind) -> Any:
        return self.get_state_store(name) if self._kind(name) is kind else None

    # The loop of Kafka's driver.

    def _is_input(self, topic: str) -> bool:
        if self._task is None:
            return False
        if topic not in self._inputs and any(re.fullmatch(pattern, topic) for pattern in self._patterns):
            self._inputs.add(topic)
            self._task.assign(topic, 0)
        return topic in self._inputs

    def _next_offset(self, topic: str) -> int:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        return offset

    def _enqueue(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        assert self._task is not None
        self._task.add(topic, 0, [(key, value, timestamp, self._next_offset(topic), headers)], self._now_ms)

    def _process_global(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers
    ) -> None:
        assert self._global_task is not None
        # The offset is another one than that of a task's topic: each has its own consumer.
        offset = self._next_offset(f"{topic} (global)")
        self._global_task.add(topic, 0, [(key, value, timestamp, offset, headers)])
        self._global_task.run(self._now_ms)

    def _complete(self) -> None:
        # A processor may have written in its `init`, or a test to a store.
        self._capture()
        task = self._task
        if task is None:
            return
        # Nothing waits on a broker.
        task.update_lags({(topic, 0): 0 for topic in self._inputs})
        try:
            while task.waiting() and task.process(self._now_ms):
                self._commit()
                self._capture()
        finally:
            # Records that were written before an error are seen too, as are dead letters.
            self._capture()

    def _commit(self) -> None:
        if self._task is not None and self._task.commit_needed:
            self._task.flush()

    def _capture(self) -> None:
        """Keep what the task wrote, and give it what is for its own topics."""
        if self._task is None:
            return
        outputs, changes = self._task.take_results()
        written: Iterable[Output] = (
            *outputs,
            *((topic, 0, key, value, timestamp, headers) for topic, key, value, timestamp, headers in changes),
        )
        for output in written:
            topic, _, key, value, timestamp, headers = output
            self.produced.append(output)
            self._queues.setdefault(topic, deque()).append(output)
            if self._is_input(topic):
                self._enqueue(topic, key, value, timestamp, headers)
            if topic in self._global_topics:
                self._process_global(topic, key, value, timestamp, headers)
