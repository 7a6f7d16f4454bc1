"""The order in which a task processes the records of its partitions.

The next record is the one with the lowest timestamp among the first records of all partitions (KIP-353). A task waits
for a partition without records as long as max.task.idle.ms says (KIP-695). The first record of each partition is
deserialized already, as its timestamp may come from its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.wire.record import Record as Input
from broker_streams.kernel.heap import TimeHeap
from broker_streams.kernel.record_queue import RecordQueue
from broker_streams.records import Headers

# A record as a test gives it: key, value, timestamp, offset, headers.
Parts = tuple[bytes | None, bytes | None, int, int, Headers]
Inputs = Iterable[Input | Parts]


class PartitionGroup:
    """The queues of a task."""

    def __init__(self, max_task_idle_ms: int) -> None:
        self._max_task_idle_ms = max_task_idle_ms
        self.queues: dict[tuple[str, int], RecordQueue] = {}
        # The queue of a task with one input, which needs no order; then nothing is in the heap.
        self.only: RecordQueue | None = None
        # Queues with records, by the timestamps of their heads.
        self._filled: TimeHeap[RecordQueue] = TimeHeap()
        # Records that wait on the broker, as far as the host knows.
        self._lags: dict[tuple[str, int], int] = {}
        self._deadlines_ms: dict[tuple[str, int], int] = {}
        # Records that did not wait any longer for a partition without records (Kafka's enforced-processing).
        self.enforced = 0

    def assign(self, queue: RecordQueue) -> None:
        self.queues[queue.topic, queue.partition] = queue
        if len(self.queues) == 1:
            self.only = queue
        elif self.only is not None:
            if self.only.head_input is not None:
                self._filled.push(self.only)
            self.only = None

    def add(self, topic: str, partition: int, inputs: Inputs) -> int:
        """Add records and return how many of the partition wait now. Raises LookupError: it is no input of the task."""
        queue = self.queues.get((topic, partition))
        if queue is None:
            raise LookupError(f"partition {topic}-{partition} is no input of this task")
        was_empty = queue.head_input is None
        queue.add(inputs)
        if was_empty and queue.head_input is not None and self.only is None:
            self._filled.push(queue)
        return len(queue)

    def update_lags(self, lags: Mapping[tuple[str, int], int | None]) -> None:
        """Tell how many records of each partition wait on the broker; None: the host does not know it yet."""
        for place, lag in lags.items():
            if lag is None:
                self._lags.pop(place, None)
            else:
                self._lags[place] = lag

    def is_ready(self, now_ms: int) -> bool:
        """Whether a record may be processed now, or another one that is older could still come."""
        if self.only is not None:
            return self.only.head_input is not None
        if self._max_task_idle_ms < 0 or len(self._filled.items) == len(self.queues):
            self._deadlines_ms.clear()
            return True
        for place, queue in self.queues.items():
            if queue.head_input is not None:
                self._deadlines_ms.pop(place, None)
                continue
            if self._lags.get(place, -1) != 0:
                # Records wait on the broker, or the host does not know yet.
                self._deadlines_ms.pop(place, None)
                return False
            if now_ms < self._deadlines_ms.setdefault(place, now_ms + self._max_task_idle_ms):
                return False
        if not self._filled.items:
            return False
        self.enforced += 1
        return True

    def take(self) -> RecordQueue | None:
        """The queue whose head is next, for a call of `give_back` after its `advance`. None: all queues are empty."""
        if self.only is not None:
            return None if self.only.head_input is None else self.only
        return self._filled.pop() if self._filled.items else None

    def give_back(self, queue: RecordQueue) -> None:
        if queue.head_input is not None and self.only is None:
            self._filled.push(queue)

    def next_time_ms(self) -> int | None:
        """The timestamp of the record that `take` would choose; None: all queues are empty."""
        if self.only is not None:
            return None if self.only.head_input is None else self.only.time_ms
        first = self._filled.first()
        return None if first is None else first.time_ms

    def waiting(self) -> int:
        return sum(len(queue) for queue in self.queues.values())

    def clear(self) -> None:
        for queue in self.queues.values():
            queue.clear()
        self._filled.clear()
        self._lags.clear()
        self._deadlines_ms.clear()
