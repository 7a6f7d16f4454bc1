"""The order in which a task processes the records of its partitions.

The next record is the one with the lowest timestamp among the first records of all partitions (KIP-353). A task waits
for a partition without records as long as max.task.idle.ms says (KIP-695). The first record of each partition is
deserialized already, as its timestamp may come from its value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from broker_streams.kernel.heap import TimeHeap
from broker_streams.kernel.processor import Forward
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.records import Headers, Record

NO_TIMESTAMP: Final = -1
# A record as it is read: key, value, timestamp, offset, headers.
Input = tuple[bytes | None, bytes | None, int, int, Headers]
Deserialize = Callable[[str, bytes | None, Headers], Any]


class ConsumedRecord(NamedTuple):
    """The record that a user's timestamp extractor sees."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers


class InvalidTimestamp(Exception):
    """The extractor of a source ends the task."""


# (record, largest timestamp of the partition or -1) -> timestamp; a negative one skips the record.
Extract = Callable[[ConsumedRecord, int], int]


class Entry(NamedTuple):
    """How a source reads a partition. `forward` takes each record; `refuse` takes the input that cannot be read.

    `extract` None: the timestamp of the input, which must not be negative.
    """

    node: str
    key: Deserialize
    value: Deserialize
    forward: Forward
    extract: Extract | None
    refuse: Callable[[RecordQueue, Input, Exception], None]
    skip: Callable[[RecordQueue, Input, int], None]


class RecordQueue:
    """The records of one partition. A `head_input` without a `head` was skipped: only its offset counts."""

    __slots__ = (
        "_entry",
        "_extract",
        "_key",
        "_value",
        "consumed",
        "forward",
        "head",
        "head_input",
        "inputs",
        "node",
        "partition",
        "partition_time_ms",
        "time_ms",
        "topic",
    )

    def __init__(self, topic: str, partition: int, entry: Entry) -> None:
        self.topic = topic
        self.partition = partition
        self.node = entry.node
        self.forward = entry.forward
        self._entry = entry
        self._key = entry.key
        self._value = entry.value
        self._extract = entry.extract
        self.inputs: deque[Input] = deque()
        self.head: Record | None = None
        self.head_input: Input | None = None
        # The timestamp of the head.
        self.time_ms = NO_TIMESTAMP
        self.partition_time_ms = NO_TIMESTAMP
        # The offset of the last record that was processed.
        self.consumed = -1

    def __len__(self) -> int:
        return len(self.inputs) + (self.head_input is not None)

    def add(self, inputs: Iterable[Input]) -> None:
        self.inputs.extend(inputs)
        if self.head_input is None:
            self.advance()

    def advance(self) -> None:
        """Forget the head, and make the next input that can be read the head; without one, the last that cannot."""
        if self.time_ms > self.partition_time_ms:
            self.partition_time_ms = self.time_ms
        inputs = self.inputs
        topic = self.topic
        found: Input | None = None
        while inputs:
            found = inputs.popleft()
            key, value, timestamp, offset, headers = found
            try:
                key_object = self._key(topic, key, headers)
                value_object = self._value(topic, value, headers)
            except Exception as error:
                self._forget_head()
                self._entry.refuse(self, found, error)
                continue
            if self._extract is not None:
                self._forget_head()
                consumed = ConsumedRecord(topic, self.partition, offset, timestamp, key_object, value_object, headers)
                timestamp = self._extracted(self._extract, consumed)
                if timestamp < 0:
                    self._entry.skip(self, found, timestamp)
                    continue
            elif timestamp < 0:
                self._forget_head()
                raise InvalidTimestamp(
                    f"record {topic}-{self.partition} at offset {offset} has timestamp {timestamp}:"
                    " set default.timestamp.extractor to one that takes negative timestamps"
                )
            self.head = Record(key_object, value_object, timestamp, headers)
            self.time_ms = timestamp
            self.head_input = found
            return
        self._forget_head()
        self.head_input = found

    def _forget_head(self) -> None:
        self.head = self.head_input = None
        self.time_ms = NO_TIMESTAMP

    def _extracted(self, extract: Extract, record: ConsumedRecord) -> int:
        place = f"record {record.topic}-{record.partition} at offset {record.offset}"
        try:
            timestamp = extract(record, self.partition_time_ms)
        except InvalidTimestamp as error:
            raise InvalidTimestamp(f"{place} has timestamp {record.timestamp}: {error}") from None
        except Exception as error:
            raise InvalidTimestamp(f"the timestamp extractor failed for {place}: {error}") from error
        if not isinstance(timestamp, int):
            raise InvalidTimestamp(f"the timestamp extractor returned {timestamp!r} for {place}; it returns ms")
        return timestamp

    def clear(self) -> None:
        self.inputs.clear()
        self._forget_head()
        self.partition_time_ms = NO_TIMESTAMP


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

    def add(self, topic: str, partition: int, inputs: Iterable[Input]) -> int:
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


def extractor(kind: TimestampExtractor, now_ms: Callable[[], int]) -> Extract | None:
    """Kafka's own extractors. Return None for the default one."""
    match kind:
        case TimestampExtractor.FAIL_ON_INVALID:
            return None
        case TimestampExtractor.LOG_AND_SKIP_ON_INVALID:
            return lambda record, partition_time_ms: record.timestamp
        case TimestampExtractor.USE_PARTITION_TIME_ON_INVALID:
            return _or_partition_time
        case TimestampExtractor.WALL_CLOCK:
            return lambda record, partition_time_ms: now_ms()


def _or_partition_time(record: ConsumedRecord, partition_time_ms: int) -> int:
    if record.timestamp >= 0:
        return record.timestamp
    if partition_time_ms < 0:
        raise InvalidTimestamp("no record of the partition had a timestamp before")
    return partition_time_ms
