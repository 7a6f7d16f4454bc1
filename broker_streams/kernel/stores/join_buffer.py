"""The buffer of a stream-table join with a grace period: records wait until the table is that far (KIP-923).

A row is buffer_value.Waiting under keys.time_first_window_key, so records of one time and key keep their order. The
changelog has the row with the int64 0 after it, and a tombstone when it leaves; Kafka lets the producer set the time of
such a record, so its timestamp is NO_TIMESTAMP. Kafka 4.3.1 restores such rows under garbled keys and counts none of
them; here they come back as they were.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Bound, Changed
from broker_streams.kernel.stores.buffer_value import Reader, Waiting, context_of, read_waiting
from broker_streams.kernel.stores.keys import (
    MAX_INT,
    MAX_LONG,
    pack_long,
    time_first_window_key,
    time_first_window_parts,
)
from broker_streams.kernel.stores.maps import MEMORY, Maps
from broker_streams.kernel.stores.segments import Rows
from broker_streams.kernel.stores.suppression import NO_TIMESTAMP
from broker_streams.kernel.stores.windows import time_bounds
from broker_streams.records import NO_HEADERS, Headers, Record


class JoinBuffer:
    """Records of the last `grace_ms`, seen from the latest record that was put."""

    def __init__(
        self, bound: Bound, grace_ms: int, task: TaskState, changed: Changed | None, maps: Maps = MEMORY
    ) -> None:
        self.name = bound.store
        self._bound = bound
        self._grace_ms = grace_ms
        self._task = task
        self._changed = changed
        self._rows = maps.open("rows")
        self._sequence = 0
        self._stream_time_ms = -1
        self.size_bytes = 0
        found = maps.numbers("buffer", lambda: (self._stream_time_ms, self._sequence, self.size_bytes))
        if found is not None:
            self._stream_time_ms, self._sequence, self.size_bytes = found

    @property
    def num_records(self) -> int:
        return len(self._rows)

    @property
    def min_timestamp(self) -> int:
        """MAX_LONG if nothing waits."""
        first = next(self._rows.items(), None)
        return MAX_LONG if first is None else time_first_window_parts(first[0])[1]

    def put(self, record: Record) -> bool:
        """Keep a record. False: it is older than the grace period, and must be joined at once.

        Raises ValueError: the record has no value.
        """
        if self._stream_time_ms - self._grace_ms > record.timestamp:
            return False
        value = self._bound.value(record.value)
        if value is None:
            raise ValueError(f"a record of buffer {self.name} has no value; a join drops such records before")
        self._sequence = (self._sequence + 1) & MAX_INT
        key = time_first_window_key(self._bound.key(record.key), record.timestamp, self._sequence)
        waiting = Waiting(None, None, value, context_of(self._task))
        data = waiting.data()
        self._rows.put(key, data)
        self._stream_time_ms = max(self._stream_time_ms, record.timestamp)
        self.size_bytes += len(key) + waiting.size_bytes
        if self._changed is not None:
            self._changed(self.name, key, data + pack_long(0), NO_TIMESTAMP, NO_HEADERS)
        return True

    def evict(self, emit: Callable[[Record], None]) -> None:
        """Take out the records whose grace period is over, in the order of time, key and arrival.

        While `emit` runs, the task has the context of the record.
        """
        last_ms = self._stream_time_ms - self._grace_ms
        if last_ms < 0:
            return
        task = self._task
        for key, data in self._rows.items(*time_bounds(0, last_ms), False):
            waiting = read_waiting(Reader(data))
            context = waiting.context
            bound = self._bound
            record = Record(
                bound.key_of(time_first_window_parts(key)[0]),
                bound.value_of(waiting.new),
                context.timestamp,
                context.headers,
            )
            before = task.timestamp, task.headers, task.metadata
            task.timestamp, task.headers, task.metadata = context.timestamp, context.headers, context.metadata
            try:
                emit(record)
            finally:
                task.timestamp, task.headers, task.metadata = before
            self._rows.put(key, None)
            self.size_bytes -= len(key) + waiting.size_bytes
            if self._changed is not None:
                self._changed(self.name, key, None, NO_TIMESTAMP, NO_HEADERS)

    def flush(self) -> None:
        """Nothing waits for a commit: each change is in the changelog at once."""

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        """Take a record of the changelog. Raises ValueError: the record is cut."""
        previous = self._rows.get(key)
        if previous is not None:
            self.size_bytes -= len(key) + read_waiting(Reader(previous)).size_bytes
        _, time_ms, sequence = time_first_window_parts(key)
        self._stream_time_ms = max(self._stream_time_ms, time_ms)
        self._sequence = max(self._sequence, sequence)
        if value is None:
            self._rows.put(key, None)
            return
        waiting = read_waiting(Reader(value))
        self.size_bytes += len(key) + waiting.size_bytes
        self._rows.put(key, waiting.data())

    def entries(self) -> Rows:
        return self._rows.items()
