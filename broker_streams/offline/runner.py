"""Runs all tasks of a topology over recorded records, in one order that depends on nothing but the records.

    runner = Runner(plan, settings, counts)
    while wanted := runner.wanted():
        runner.add(topic, partition, inputs)     for each wanted partition, or
        runner.finish(topic, partition)          where no further record follows
        runner.run()
        results = runner.take()

The next record is the one with the lowest timestamp among the first records of all tasks; of several, that of the first
sub-topology and partition. Records for repartition topics go to their tasks at once, so their queues stay short. The
clock is the largest timestamp so far. Caches are emptied after each record, as in TopologyTestDriver.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from broker_cy.client.partitioner import partition_of
from broker_streams.kernel.build import build, build_global
from broker_streams.kernel.partition_group import Parts as Input
from broker_streams.kernel.punctuation import NEVER_MS
from broker_streams.kernel.settings import TaskSettings
from broker_streams.kernel.task import Task
from broker_streams.plan.partitions import partitions_of, topics_of
from broker_streams.plan.topology import Source, Subtopology, Topology, TopologyError
from broker_streams.records import Headers

# Records that wait in all queues; with more, the longest queue is processed first, whatever its timestamps are.
QUEUED_MAX: Final = 1_000_000
Place = tuple[str, int]
TaskId = tuple[int, int]


class Result(NamedTuple):
    """A record that a task wrote. `partition` None: the producer would choose one, as the record has no key.
    `is_change`: it is for a changelog.
    """

    task: TaskId
    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    is_change: bool = False


@dataclasses.dataclass
class _Running:
    task_id: TaskId
    task: Task
    # Inputs of the user, and of repartition topics.
    inputs: frozenset[Place]
    internal: frozenset[Place]
    keeps_back: bool


class Runner:
    """`counts` has the partitions of all topics of the cluster that the topology reads or writes."""

    def __init__(self, topology: Topology, settings: TaskSettings, counts: Mapping[str, int]) -> None:
        """Raises StreamsError, TopologyError: the topology cannot run."""
        for node in topology.nodes:
            if isinstance(node, Source) and node.pattern is not None:
                raise TopologyError(f"source {node.name} reads topics by the pattern {node.pattern}; name them instead")
        self.topology = topology
        self.settings = settings
        # Results must depend on the records only, not on when a task waited.
        self._settings = dataclasses.replace(
            settings, max_task_idle_ms=0, join_emit_interval_ms=0, window_emit_interval_ms=0
        )
        self._counts = dict(counts)
        self._partitions = partitions_of(topology, counts)
        application_id = settings.application_id
        for topic, count in self._partitions.of_topic.items():
            self._counts[topology.decorated(topic, application_id)] = count
        self._global = build_global(topology, self._settings)
        self.now_ms = 0
        self.uses_clock = False
        self._results: list[Result] = []
        self._running = [made for part in topology.subtopologies() for made in self._make(part)]
        self._owner = {place: each for each in self._running for place in (*each.inputs, *each.internal)}
        self._finished: set[Place] = set()
        self._queued: dict[Place, int] = dict.fromkeys(self._owner, 0)
        self._empty = {place for each in self._running for place in each.inputs}
        for each in self._running:
            each.task.update_lags(dict.fromkeys(each.internal, 0))
            each.task.initialize(self.now_ms)
            self._collect(each)
        self._clocked = [each for each in self._running if each.task.wall_clock_due_ms != NEVER_MS]
        self.uses_clock = bool(self._clocked)

    def _make(self, part: Subtopology) -> Iterable[_Running]:
        topology, application_id = self.topology, self._settings.application_id
        global_stores: Mapping[str, Any] = self._global.stores if self._global is not None else {}
        topics = topics_of(part.sources, ())
        caching = self._settings.cache_bytes > 0 and any(each.caching for each in part.stores)
        for number in range(self._partitions.tasks(part)):
            task = build(topology, part, number, self._settings, lambda topic: self.count_of(topic), global_stores)
            places: dict[bool, list[Place]] = {False: [], True: []}
            for topic in topics:
                if number < self._partitions.of_topic[topic]:
                    place = topology.decorated(topic, application_id), number
                    task.assign(*place)
                    places[topology.is_internal(topic)].append(place)
            yield _Running((part.number, number), task, frozenset(places[False]), frozenset(places[True]), caching)

    def count_of(self, topic: str) -> int:
        """Partitions of a topic; 1 for one that does not exist."""
        return self._counts.get(topic, 1)

    @property
    def inputs(self) -> list[Place]:
        """The partitions of the user's topics that tasks read."""
        return sorted(place for each in self._running for place in each.inputs)

    @property
    def global_topics(self) -> list[str]:
        names = self.topology.global_nodes
        sources = (node for node in self.topology.nodes if isinstance(node, Source) and node.name in names)
        return sorted({topic for source in sources for topic in source.topics})

    def add_global(self, topic: str, inputs: Iterable[Input]) -> None:
        """Fill the global stores that read a topic: before `run`."""
        assert self._global is not None
        for each in inputs:
            self._global.add(topic, 0, [each])
            self._global.run(self.now_ms)

    def wanted(self) -> list[Place]:
        """Inputs that must have a record before any task may go on; [] after the last record of all inputs."""
        return sorted(self._empty)

    def add(self, topic: str, partition: int, inputs: list[Input]) -> None:
        """Raises StreamsError: a record cannot be read."""
        place = topic, partition
        owner = self._owner[place]
        self._queued[place] = owner.task.add(topic, partition, inputs, self.now_ms)
        if self._queued[place]:
            self._empty.discard(place)
        self._collect(owner)

    def finish(self, topic: str, partition: int) -> None:
        """No further record follows."""
        place = topic, partition
        self._finished.add(place)
        self._empty.discard(place)
        self._owner[place].task.update_lags({place: 0})

    def run(self) -> None:
        """Process records as long as the order is known: until an input is wanted. Raises StreamsError."""
        while not self._empty:
            chosen, next_ms = self._choose()
            if chosen is None:
                break
            self._step(chosen, next_ms)
        if not self._empty and len(self._finished) == sum(len(each.inputs) for each in self._running):
            self._flush_all()

    def _choose(self) -> tuple[_Running | None, int]:
        """The task with the lowest timestamp, and the lowest one of all others."""
        chosen: _Running | None = None
        lowest = following = NEVER_MS
        for each in self._running:
            time_ms = each.task.next_time_ms()
            if time_ms is None:
                continue
            if time_ms < lowest or chosen is None:
                chosen, lowest, following = each, time_ms, min(lowest, following) if chosen is not None else following
            elif time_ms < following:
                following = time_ms
        if sum(self._queued.values()) > QUEUED_MAX:
            place = max(self._queued, key=lambda each: (self._queued[each], each))
            chosen, following = self._owner[place], NEVER_MS
        return chosen, following

    def _step(self, of: _Running, next_ms: int) -> None:
        """Process one record of a task, and further ones before `next_ms` as long as no other task gets some."""
        task = of.task
        is_first = True
        while True:
            time_ms = task.next_time_ms()
            if time_ms is None or not (is_first or time_ms < next_ms):
                return
            is_first = False
            if time_ms > self.now_ms:
                self._advance(time_ms)
            if not task.process(self.now_ms):
                return
            if of.keeps_back:
                task.flush()
            went_on = self._collect(of)
            for place in of.inputs:
                waiting = task.waiting_of(*place)
                self._queued[place] = waiting
                if not waiting and place not in self._finished:
                    self._empty.add(place)
            for place in of.internal:
                self._queued[place] = task.waiting_of(*place)
            if went_on or self._empty:
                return

    def _advance(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for each in self._clocked:
            if each.task.wall_clock_due_ms <= now_ms:
                each.task.punctuate(now_ms)
                self._collect(each)

    def _flush_all(self) -> None:
        """After the last record: what stores write with a commit. It may reach further tasks."""
        while True:
            went_on = False
            for each in self._running:
                each.task.flush()
                went_on |= self._collect(each)
            if not went_on:
                return
            while (chosen := self._choose())[0] is not None:
                self._step(chosen[0], chosen[1])

    def _collect(self, of: _Running) -> bool:
        """Keep the results of a task; return whether another task got some of them."""
        outputs, changes = of.task.take_results()
        went_on = False
        for topic, partition, key, value, timestamp, headers in outputs:
            number = partition
            if number is None and key is not None:
                number = partition_of(key, self.count_of(topic))
            self._results.append(Result(of.task_id, topic, number, key, value, timestamp, headers))
            # A record without a key has no partition of its own.
            place = topic, of.task_id[1] % self.count_of(topic) if number is None else number
            owner = self._owner.get(place)
            if owner is not None and place in owner.internal:
                # Offsets of repartition topics depend on how transactions interleave: they only count here.
                record = (key, value, timestamp, self._queued[place], headers)
                self._queued[place] = owner.task.add(*place, [record], self.now_ms)
                went_on = True
        for topic, key, value, timestamp, headers in changes:
            self._results.append(Result(of.task_id, topic, of.task_id[1], key, value, timestamp, headers, True))
        return went_on

    def take(self) -> list[Result]:
        """Results since the last call, in their order."""
        found, self._results = self._results, []
        return found

    def metadata(self) -> dict[Place, str]:
        """The texts beside committed offsets, by input; those of repartition topics too."""
        return {place: text for each in self._running for place, text in each.task.metadata().items()}

    def partitions_of_task(self, part: Subtopology) -> int:
        """The number of tasks of a sub-topology, which is that of the partitions of its changelogs."""
        return self._partitions.tasks(part)

    def close(self) -> None:
        for each in self._running:
            each.task.close()
