"""Counts that a host takes of itself, once a step, and the states that it goes through.

Nothing is counted for each record, so a count costs nothing that could be seen. Rates, averages and the names of Kafka
Streams' metrics are made from the counts when somebody asks (broker_streams/seen).
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from typing import Protocol


class State(enum.Enum):
    """The states of an instance, those of KafkaStreams.State."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


# The new state, the one before, and the error of a failure.
Listener = Callable[[State, State, BaseException | None], None]


class Life:
    """The state of an instance. `error` is what ended it. Listeners are called at each change, and must not fail."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.state = State.CREATED
        self.since_ms = self.begin_ms = now_ms()
        self.listeners: list[Listener] = []
        self._now_ms = now_ms
        self.error: BaseException | None = None

    def enter(self, state: State, error: BaseException | None = None) -> None:
        """An instance that is about to end does not run again."""
        before = self.state
        if state is before or (before in _LAST and state not in _LAST):
            return
        self.state, self.since_ms = state, self._now_ms()
        self.error = error or self.error
        for each in self.listeners:
            each(state, before, error)


_LAST = frozenset((State.PENDING_SHUTDOWN, State.NOT_RUNNING, State.PENDING_ERROR, State.ERROR))


class Timed:
    """How often something was done, how long that took, and the longest time since `take_max`."""

    __slots__ = ("count", "max_ns", "total_ns")

    def __init__(self) -> None:
        self.count = self.total_ns = self.max_ns = 0

    def add(self, count: int, ns: int) -> None:
        """`ns` is the time of all `count` together; the longest one is taken as the average of these."""
        self.count += count
        self.total_ns += ns
        each_ns = ns // count
        if each_ns > self.max_ns:
            self.max_ns = each_ns

    def take_max(self) -> int:
        found, self.max_ns = self.max_ns, 0
        return found

    def take(self) -> Timed:
        """Return the counts since the last call."""
        found = Timed()
        found.merge(self)
        self.count = self.total_ns = self.max_ns = 0
        return found

    def merge(self, other: Timed) -> None:
        self.count += other.count
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)


class Spreading(Protocol):
    """Values since the begin, as the kernel counts them (kernel/forward.pyx)."""

    count: int
    total: int

    def take(self) -> tuple[int, int] | None:
        """The least and the largest value since the last call; None: there was none."""


class SpreadSum:
    """Values that were counted elsewhere."""

    __slots__ = ("_seen", "count", "total")

    def __init__(self) -> None:
        self.count = self.total = 0
        self._seen: tuple[int, int] | None = None

    def add(self, count: int, total: int, seen: tuple[int, int] | None) -> None:
        self.count += count
        self.total += total
        if seen is not None:
            least, most = self._seen or seen
            self._seen = min(least, seen[0]), max(most, seen[1])

    def take(self) -> tuple[int, int] | None:
        found, self._seen = self._seen, None
        return found


class Traffic:
    """Records and bytes of a topic."""

    __slots__ = ("records", "size_bytes")

    def __init__(self) -> None:
        self.records = self.size_bytes = 0

    def add(self, records: int, size_bytes: int) -> None:
        self.records += records
        self.size_bytes += size_bytes


class TaskMeasures:
    """The counts of one task in this process."""

    __slots__ = ("processed", "punctuated")

    def __init__(self) -> None:
        self.processed, self.punctuated = Timed(), Timed()


class Measures:
    """The counts of one instance since its begin. `consumed` and `produced` are by topic."""

    def __init__(self) -> None:
        self.processed, self.punctuated = Timed(), Timed()
        # A poll is a chunk of records; its time is that of handing the records to their task.
        self.polled, self.committed = Timed(), Timed()
        self.polled_records = 0
        self.tasks_created = self.tasks_closed = 0
        self.consumed: dict[str, Traffic] = {}
        self.produced: dict[str, Traffic] = {}

    def poll(self, topic: str, records: int, size_bytes: int, ns: int) -> None:
        self.polled.add(1, ns)
        self.polled_records += records
        self.traffic(self.consumed, topic).add(records, size_bytes)

    def process(self, task: TaskMeasures, records: int, ns: int) -> None:
        task.processed.add(records, ns)
        self.processed.add(records, ns)

    def punctuate(self, task: TaskMeasures, ns: int) -> None:
        task.punctuated.add(1, ns)
        self.punctuated.add(1, ns)

    def produce(self, topic: str, records: int, size_bytes: int) -> None:
        self.traffic(self.produced, topic).add(records, size_bytes)

    def commit(self, ns: int) -> None:
        self.committed.add(1, ns)

    @staticmethod
    def traffic(by_topic: dict[str, Traffic], topic: str) -> Traffic:
        found = by_topic.get(topic)
        if found is None:
            found = by_topic[topic] = Traffic()
        return found
