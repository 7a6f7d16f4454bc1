"""A versioned key-value store: the value of a key at any time of the last `history_ms` (KIP-889, KIP-914).

The latest value of a key is kept apart, as its timestamp int64 and the value. Each older version lies in the segment of
the time at which its validity ended (version_segment.py). A record that is older than the history is not put.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Bound, Changed
from broker_streams.kernel.stores.keys import MAX_LONG, pack_long, unpack_long
from broker_streams.kernel.stores.maps import MEMORY, Maps, RowMap
from broker_streams.kernel.stores.segments import Rows, Segments
from broker_streams.kernel.stores.version_segment import VersionSegment, times_of
from broker_streams.records import NO_HEADERS, Headers, VersionedRecord

# Answers of `put` besides the time until which the record is valid (VersionedKeyValueStore).
IS_LATEST: Final = -1
NOT_PUT: Final = -(1 << 63)


def version_interval(history_ms: int) -> int:
    """The length of a segment in ms (RocksDbVersionedKeyValueBytesStoreSupplier)."""
    if history_ms <= 60_000:
        return max(history_ms // 3, 2_000)
    if history_ms <= 300_000:
        return max(history_ms // 5, 20_000)
    if history_ms <= 3_600_000:
        return max(history_ms // 12, 60_000)
    return max(history_ms // 24, 300_000)


class Versions:
    """Versions of bytes."""

    def __init__(self, history_ms: int, interval_ms: int, maps: Maps = MEMORY) -> None:
        self._history_ms = history_ms
        self._latest = maps.open("latest")
        self._segments = Segments(history_ms, interval_ms, maps)
        self._stream_time_ms = -1
        found = maps.numbers("versions", lambda: (self._stream_time_ms,))
        if found is not None:
            self._stream_time_ms = found[0]
            self._segments.expire(self._stream_time_ms)

    def is_late(self, timestamp: int) -> bool:
        return timestamp < self._stream_time_ms - self._history_ms

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """The time until which the record is valid, IS_LATEST, or NOT_PUT. A value of None is a tombstone."""
        if timestamp > self._stream_time_ms:
            self._stream_time_ms = timestamp
            self._segments.expire(timestamp)
        elif self.is_late(timestamp):
            return NOT_PUT
        latest = self._latest.get(key)
        valid_to = None
        if latest is not None:
            valid_to = unpack_long(latest)[0]
            if timestamp >= valid_to:
                if timestamp > valid_to:
                    self._move(key, latest[8:], valid_to, timestamp)
                self._latest.put(key, None if value is None else pack_long(timestamp) + value)
                return IS_LATEST
        return self._put_older(key, value, timestamp, valid_to)

    def _live(self, timestamp: int) -> RowMap | None:
        return self._segments.live(self._segments.id_of(timestamp), self._stream_time_ms)

    def _move(self, key: bytes, value: bytes | None, valid_from: int, valid_to: int) -> None:
        """Add a version to the segment of the time at which it ended."""
        rows = self._live(valid_to)
        if rows is not None:
            self._add_latest(rows, key, value, valid_from, valid_to)

    @staticmethod
    def _add_latest(rows: RowMap, key: bytes, value: bytes | None, valid_from: int, valid_to: int) -> None:
        data = rows.get(key)
        if data is None:
            segment = VersionSegment(value, valid_from, valid_to)
        else:
            segment = VersionSegment.of(data)
            segment.add_latest(value, valid_from, valid_to)
        rows.put(key, segment.data())

    def _put_older(self, key: bytes, value: bytes | None, timestamp: int, valid_to: int | None) -> int:
        """Find the version that begins after the record, and put the record before it. None: none does yet."""
        for segment in self._segments.ids_between(timestamp, MAX_LONG, True):
            data = self._segments.of_id(segment).get(key)
            if data is None:
                continue
            next_timestamp, earliest = times_of(data)
            if next_timestamp <= timestamp:
                break
            if earliest <= timestamp:
                return self._put_within(segment, data, key, value, timestamp)
            if earliest < self._stream_time_ms - self._history_ms:
                # The versions before it are forgotten, and so is this record.
                return NOT_PUT
            valid_to = earliest
        if valid_to is None:
            return self._put_first(key, value, timestamp)
        rows = self._live(valid_to)
        if rows is None:
            return NOT_PUT
        data = rows.get(key)
        if data is None:
            rows.put(key, VersionSegment(value, timestamp, valid_to).data())
        else:
            versions = VersionSegment.of(data)
            if versions.next_timestamp <= timestamp:
                versions.add_latest(value, timestamp, valid_to)
            else:
                versions.add_earliest(value, timestamp)
            rows.put(key, versions.data())
        return valid_to

    def _put_within(self, segment: int, data: bytes, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Split the version that is valid at the time of the record."""
        versions = VersionSegment.of(data)
        found = versions.find(timestamp)
        if found.valid_from == timestamp:
            versions.versions[found.place] = (timestamp, value)
        elif self._segments.id_of(timestamp) != segment:
            # The version that was valid before ends in an older segment now.
            self._move(key, found.value, found.valid_from, timestamp)
            versions.versions[found.place] = (timestamp, value)
        else:
            versions.versions.insert(found.place, (timestamp, value))
        self._segments.of_id(segment).put(key, versions.data())
        return found.valid_to

    def _put_first(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Put a record that no version follows, where the key has no latest value."""
        if value is not None:
            self._latest.put(key, pack_long(timestamp) + value)
            return IS_LATEST
        rows = self._live(timestamp)
        if rows is None:
            return NOT_PUT
        data = rows.get(key)
        if data is None:
            rows.put(key, VersionSegment(None, timestamp, timestamp).data())
        else:
            next_timestamp = times_of(data)[0]
            if next_timestamp != timestamp:
                self._add_latest(rows, key, None, next_timestamp, timestamp)
        return IS_LATEST

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        """The latest value and its timestamp."""
        latest = self._latest.get(key)
        return None if latest is None else (latest[8:], unpack_long(latest)[0])

    def get_as_of(self, key: bytes, timestamp: int) -> tuple[bytes, int, int | None] | None:
        """The value at a time, its timestamp, and the time until which it is valid; None: it is the latest one."""
        latest = self._latest.get(key)
        if latest is not None:
            latest_timestamp = unpack_long(latest)[0]
            if latest_timestamp <= timestamp:
                return latest[8:], latest_timestamp, None
        if self.is_late(timestamp):
            return None
        for rows in self._segments.between(timestamp, MAX_LONG, True):
            data = rows.get(key)
            if data is None:
                continue
            next_timestamp, earliest = times_of(data)
            if next_timestamp <= timestamp:
                return None
            if earliest <= timestamp:
                found = VersionSegment.of(data).find(timestamp)
                return None if found.value is None else (found.value, found.valid_from, found.valid_to)
        return None

    def get_range(self, key: bytes, from_ms: int, to_ms: int) -> list[tuple[bytes, int, int | None]]:
        """All values that are valid within these times, the latest first."""
        shown: list[tuple[bytes, int, int | None]] = []
        latest = self._latest.get(key)
        if latest is not None and unpack_long(latest)[0] <= to_ms:
            shown.append((latest[8:], unpack_long(latest)[0], None))
        if self.is_late(to_ms):
            return shown
        for rows in reversed(self._segments.all()):
            data = rows.get(key)
            if data is not None:
                for found in VersionSegment.of(data).between(from_ms, to_ms):
                    assert found.value is not None
                    shown.append((found.value, found.valid_from, found.valid_to))
        return shown

    def latest_keys(self) -> Iterator[bytes]:
        """The keys that have a latest value."""
        return (key for key, _ in self._latest.items())

    def count_latest(self) -> int:
        return self._latest.estimate()

    def rows(self) -> Rows:
        """Latest values, then the segments in the order of time."""
        yield from self._latest.items()
        for rows in self._segments.all():
            yield from rows.items()


class VersionedStore:
    """A versioned store as processors and users see it. Its changelog has each record as it was put."""

    def __init__(self, bound: Bound, versions: Versions, task: TaskState, changed: Changed | None) -> None:
        self.name = bound.store
        self._bound = bound
        self._versions = versions
        self._task = task
        self._changed = changed

    def _log(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        if self._changed is not None:
            self._changed(self.name, key, value, timestamp, NO_HEADERS)

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Put a record; None is a tombstone. Returns the time until which it is valid, or one of two answers:
        IS_LATEST, or NOT_PUT, because the record is older than the history. Such a record is in the changelog too.
        """
        data, serialized = self._bound.key(key), self._bound.value(value)
        if self._versions.is_late(timestamp):
            self._task.dropped_records += 1
        valid_to = self._versions.put(data, serialized, timestamp)
        self._log(data, serialized, timestamp)
        return valid_to

    def delete(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """Put a tombstone. Returns the record that was valid at that time."""
        data = self._bound.key(key)
        previous = None
        if self._versions.is_late(timestamp):
            self._task.dropped_records += 1
        else:
            previous = self.get_as_of(key, timestamp)
            self._versions.put(data, None, timestamp)
        self._log(data, None, timestamp)
        return previous

    def get(self, key: Any) -> VersionedRecord | None:
        """The latest record, or None."""
        found = self._versions.get(self._bound.key(key))
        return None if found is None else VersionedRecord(self._bound.value_of(found[0]), found[1])

    def get_as_of(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """The record that was valid at a time, or None; also None where the history does not reach that far."""
        found = self._versions.get_as_of(self._bound.key(key), timestamp)
        return None if found is None else VersionedRecord(self._bound.value_of(found[0]), found[1], found[2])

    def get_range(self, key: Any, from_ms: int, to_ms: int, ascending: bool = False) -> Iterator[VersionedRecord]:
        """The records that were valid within these times, the latest first, or last if `ascending`."""
        found = self._versions.get_range(self._bound.key(key), from_ms, to_ms)
        if ascending:
            found.reverse()
        value_of = self._bound.value_of
        return (VersionedRecord(value_of(value), valid_from, valid_to) for value, valid_from, valid_to in found)

    def latest_keys(self) -> Iterator[Any]:
        """The keys that have a value now, in the order of their bytes."""
        return (self._bound.key_of(key) for key in self._versions.latest_keys())

    def set_flush_listener(self, listener: Any, send_old_values: bool) -> bool:
        """False: versioned stores have no cache."""
        return False

    def flush(self) -> None:
        """Nothing waits: the store has no cache."""

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        """Take a record of the changelog."""
        self._versions.put(key, value, timestamp)

    def approximate_num_entries(self) -> int:
        """Keys with a latest value."""
        return self._versions.count_latest()

    def entries(self) -> Rows:
        """The rows as bytes: latest values, then the segments in the order of time."""
        return self._versions.rows()
