"""The buffer of `suppress`: the latest change of each key, in the order of times (KIP-328).

The changelog has one record for each key that changed since the last commit: the change and its time in the buffer,
with the header v=3, or a tombstone. Kafka lets the producer set the time of such a record, so its timestamp is
NO_TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Bound, Changed
from broker_streams.kernel.stores.buffer_value import (
    Reader,
    RecordContext,
    Waiting,
    context_of,
    read_changes,
    read_waiting,
)
from broker_streams.kernel.stores.keys import MAX_LONG, pack_long, unpack_long
from broker_streams.kernel.stores.ordered import OrderedKeys
from broker_streams.kernel.stores.segments import Rows
from broker_streams.plan.java_order import BytesOrder
from broker_streams.records import NO_HEADERS, Change, Headers, Record

NO_TIMESTAMP: Final = -1
VERSION_HEADERS: Final[Headers] = (("v", b"\x03"),)


class Prior(NamedTuple):
    """The value of a buffered key before its first change that waits. `is_buffered` is False for other keys."""

    is_buffered: bool
    value: Any


class SuppressionBuffer:
    """`size_bytes` is Kafka's estimate of memory; `min_timestamp` is MAX_LONG if nothing waits."""

    def __init__(self, bound: Bound, task: TaskState, changed: Changed | None) -> None:
        self.name = bound.store
        self._bound = bound
        self._task = task
        self._changed = changed
        # The time in the buffer by key: that of the first change that waits.
        self._times: dict[bytes, int] = {}
        self._waiting: dict[bytes, Waiting] = {}
        # Times and keys in order.
        self._order = OrderedKeys()
        # Keys that changed since the last commit, in the order of their first change; Kafka writes them in another one.
        self._dirty: dict[bytes, None] = {}
        self._dirty_order = BytesOrder()
        self.size_bytes = 0
        self.min_timestamp = MAX_LONG

    @property
    def num_records(self) -> int:
        return len(self._times)

    def put(self, time_ms: int, key: Any, change: Change) -> None:
        """Keep a change of the record that is processed now. A key that waits keeps its time and its prior value."""
        data = self._bound.key(key)
        value = self._bound.value
        old = value(change.old)
        buffered = self._waiting.get(data)
        prior = old if buffered is None else buffered.prior
        self._set(time_ms, data, Waiting(prior, old, value(change.new), context_of(self._task)))
        if self._changed is not None:
            self._dirty[data] = None

    def _set(self, time_ms: int, key: bytes, waiting: Waiting) -> None:
        buffered = self._waiting.get(key)
        self._waiting[key] = waiting
        if buffered is None:
            self._times[key] = time_ms
            self._order.add(pack_long(time_ms) + key)
            self.size_bytes += 8 + len(key) + waiting.size_bytes
            if time_ms < self.min_timestamp:
                self.min_timestamp = time_ms
        else:
            self.size_bytes += waiting.size_bytes - buffered.size_bytes

    def _remove(self, key: bytes) -> None:
        waiting = self._waiting.pop(key)
        self._order.remove(pack_long(self._times.pop(key)) + key)
        self.size_bytes -= 8 + len(key) + waiting.size_bytes
        first = self._order.first_from(b"")
        self.min_timestamp = MAX_LONG if first is None else unpack_long(first)[0]

    def evict_while(self, predicate: Callable[[], bool], emit: Callable[[Record], None]) -> None:
        """Take changes out, the earliest first, as long as `predicate` holds.

        `emit` gets a Record of Change; while it runs, the task has the context of the record that caused the change.
        """
        task = self._task
        while self._times and predicate():
            first = self._order.first_from(b"")
            assert first is not None
            key = first[8:]
            waiting = self._waiting[key]
            context = waiting.context
            value_of = self._bound.value_of
            change = Change(value_of(waiting.new), value_of(waiting.old))
            record = Record(self._bound.key_of(key), change, context.timestamp, context.headers)
            before = task.timestamp, task.headers, task.metadata
            task.timestamp, task.headers, task.metadata = context.timestamp, context.headers, context.metadata
            try:
                emit(record)
            finally:
                task.timestamp, task.headers, task.metadata = before
            self._remove(key)
            if self._changed is not None:
                self._dirty[key] = None

    def prior_value_for_buffered(self, key: Any) -> Prior:
        """The value that a reader of the suppressed table sees for a key that waits."""
        waiting = self._waiting.get(self._bound.key(key))
        return Prior(False, None) if waiting is None else Prior(True, self._bound.value_of(waiting.prior))

    def flush(self) -> None:
        """Write the keys that changed to the changelog."""
        if self._changed is None:
            return
        for key in self._dirty_order.ordered(self._dirty):
            waiting = self._waiting.get(key)
            if waiting is None:
                self._changed(self.name, key, None, NO_TIMESTAMP, NO_HEADERS)
            else:
                value = waiting.data() + pack_long(self._times[key])
                self._changed(self.name, key, value, NO_TIMESTAMP, VERSION_HEADERS)
        self._dirty.clear()

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        """Take a record of the changelog, also one of Kafka Streams since 2.1. The record decides the time of its key;
        Kafka 4.3.1 keeps the time of the record before.

        Raises ValueError: the record has another version, or is cut.
        """
        if value is None:
            if key in self._waiting:
                self._remove(key)
            return
        version = next((data for name, data in reversed(headers) if name == "v"), b"")
        buffered = self._waiting.get(key)
        time_ms, waiting = _read(version, value, timestamp, headers, None if buffered is None else buffered.prior)
        if self._times.get(key, time_ms) != time_ms:
            # The key left the buffer and came back between two commits.
            self._remove(key)
        self._set(time_ms, key, waiting)

    def entries(self) -> Rows:
        """Keys and the values of the changelog, in the order of times."""
        keys = [data[8:] for data in self._order.between()]
        return ((key, self._waiting[key].data() + pack_long(self._times[key])) for key in keys)


def _read(
    version: bytes | None, value: bytes, timestamp: int, headers: Headers, prior: bytes | None
) -> tuple[int, Waiting]:
    """Time and change of a record of the changelog. `prior` is that of the key's change before, for old versions."""
    reader = Reader(value)
    if version == b"\x03":
        waiting = read_waiting(reader)
        return reader.int64(), waiting
    if version == b"\x02":
        # Kafka Streams 2.4.0 to 2.5.0 marked records of version 3 as version 2.
        try:
            return _read_second(reader)
        except ValueError:
            return _read(b"\x03", value, timestamp, headers, prior)
    if version not in (b"\x01", b""):
        raise ValueError(f"a record of the buffer has version {version!r}; 1, 2, 3, or none is allowed")
    time_ms = reader.int64()
    if version == b"\x01":
        context = reader.context()
        old, new = read_changes(reader.array())
    else:
        context = RecordContext(timestamp, -1, -1, "", headers)
        old, new = read_changes(reader.rest())
    return time_ms, Waiting(old if prior is None else prior, old, new, context)


def _read_second(reader: Reader) -> tuple[int, Waiting]:
    context = reader.context()
    old, new = read_changes(reader.array())
    prior = reader.array()
    return reader.int64(), Waiting(prior, old, new, context)
