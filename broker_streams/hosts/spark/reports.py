"""Figures of tasks on Spark: a worker reports what each batch of a task did, and the driver adds the reports up (sums).

A task may be in another process in each batch, so reports have differences.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from broker_cy.admin.metadata import TopicPartition
from broker_streams.hosts.batches import PROCESS, READ
from broker_streams.hosts.embedded.restoring import Restorer
from broker_streams.hosts.figures import LATENCY, LATENESS, rows_of
from broker_streams.hosts.measures import Measures, TaskMeasures, Timed
from broker_streams.hosts.store_measures import StoreMeasures
from broker_streams.kernel.task import Task


@dataclass
class Report:
    """One batch of one task: what it did, and how the task is after it. `parts_ns` has the time of each part; a part
    of a long batch may have several turns.
    """

    measures: Measures = field(default_factory=Measures)
    parts_ns: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    enforced: int = 0
    restored: int = 0
    buffered: int = 0
    # Records that wait in the task, by input.
    waiting: Mapping[TopicPartition, int] = field(default_factory=dict)
    stream_time_ms: int | None = None
    rows: Mapping[str, int | None] = field(default_factory=dict)
    state_bytes: int | None = None
    # How many values, their total, and the least and the largest one, by the names in TaskFigures.
    spreads: Mapping[str, tuple[int, int, tuple[int, int] | None]] = field(default_factory=dict)
    nodes: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, Timed]] = field(default_factory=dict)
    lookups: Mapping[str, tuple[int, int]] = field(default_factory=dict)


class Meter:
    """Measures a task in a worker, which keeps it with the task. Made before the processors are initialized."""

    def __init__(self, task: Task, restorer: Restorer, *, is_detailed: bool) -> None:
        """`is_detailed`: with calls of stores (metrics.recording.level=DEBUG)."""
        self._task, self._restorer = task, restorer
        self._stores = StoreMeasures(task.stores) if is_detailed else None
        self._report = Report()
        self._of_task = TaskMeasures()
        # Counts that earlier reports have told.
        self._told = (0, 0, 0)
        self._nodes: dict[str, int] = {}
        self._spreads: dict[str, tuple[int, int]] = {}
        self._at_ns = 0

    def begin(self) -> None:
        """A part of the batch begins here."""
        self._at_ns = time.perf_counter_ns()

    def end(self, part: str) -> int:
        """The part ends here, and another one may begin; return its time in ns."""
        now_ns = time.perf_counter_ns()
        spent_ns, self._at_ns = now_ns - self._at_ns, now_ns
        self._report.parts_ns[part] = self._report.parts_ns.get(part, 0) + spent_ns
        return spent_ns

    def polled(self, topic: str, records: int, size_bytes: int) -> None:
        """A chunk of records was read: the end of a part READ."""
        self._report.measures.poll(topic, records, size_bytes, self.end(READ))

    def processed(self, records: int) -> None:
        spent_ns = self.end(PROCESS)
        if records:
            self._report.measures.process(self._of_task, records, spent_ns)

    def punctuated(self, was_called: int | bool) -> None:
        spent_ns = self.end(PROCESS)
        if was_called:
            self._report.measures.punctuate(self._of_task, spent_ns)

    def produced(self, topic: str, records: int, size_bytes: int) -> None:
        self._report.measures.produce(topic, records, size_bytes)

    def take(self, inputs: Iterable[TopicPartition], state_bytes: int | None) -> Report:
        """The report of the batch that ends, after which another one begins."""
        task, state, found = self._task, self._task.state, self._report
        self._report = Report()
        now = (state.dropped_records, task.enforced, self._restorer.restored)
        found.dropped, found.enforced, found.restored = (new - old for new, old in zip(now, self._told, strict=True))
        self._told = now
        found.buffered = task.waiting()
        if found.buffered:
            found.waiting = {key: task.waiting_of(*key) for key in inputs}
        found.stream_time_ms = state.stream_time_ms if state.stream_time_ms >= 0 else None
        found.rows = {name: rows_of(store) for name, store in task.stores.items()}
        found.state_bytes = state_bytes
        nodes = dict(state.node_counts or {})
        found.nodes = {name: count - self._nodes.get(name, 0) for name, count in nodes.items()}
        self._nodes = nodes
        found.spreads = self._take_spreads()
        if self._stores is not None:
            found.calls = {
                store: {call: timed.take() for call, timed in calls.items()}
                for store, calls in self._stores.calls.items()
            }
            found.lookups = {name: each.take() for name, each in self._stores.caches.items()}
        return found

    def _take_spreads(self) -> dict[str, tuple[int, int, tuple[int, int] | None]]:
        task = self._task
        found = {}
        for name, spreads in (
            (LATENESS, [task.state.lateness]),
            *((f"{LATENCY}{node}", each) for node, each in task.latencies.items()),
        ):
            count, total = sum(each.count for each in spreads), sum(each.total for each in spreads)
            before = self._spreads.get(name, (0, 0))
            self._spreads[name] = count, total
            taken = [each for each in (spread.take() for spread in spreads) if each is not None]
            seen = (min(least for least, _ in taken), max(most for _, most in taken)) if taken else None
            found[name] = count - before[0], total - before[1], seen
        return found
