"""Session stores of bytes: segments of the ends of sessions, and sessions in memory.

All of them give rows under their key in the changelog (keys.session_key). Their orders are Kafka's: by segments and
keys, or in memory by ends, keys, and starts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Changed
from broker_streams.kernel.stores.cache import Cache, Entry, StoreCache
from broker_streams.kernel.stores.grouping import by_segment
from broker_streams.kernel.stores.keys import (
    MAX_LONG,
    SEGMENT_BYTES,
    SESSION_SUFFIX_BYTES,
    START_BYTES,
    divide,
    highest_session_key,
    lowest_session_key,
    pack_long,
    session_key,
    session_parts,
    time_first_session_key,
    unpack_long,
)
from broker_streams.kernel.stores.maps import MEMORY, Maps
from broker_streams.kernel.stores.merge import merged
from broker_streams.kernel.stores.ordered import OrderedKeys
from broker_streams.kernel.stores.segment_cache import cached_rows
from broker_streams.kernel.stores.segments import Rows, Segments, TimedMap, segment_interval
from broker_streams.kernel.stores.windows import time_bounds
from broker_streams.records import NO_HEADERS

V = TypeVar("V", bytes, bytes | None)


class SessionBytes(Protocol):
    """A session store of bytes. `find` gives sessions that end at `earliest_end_ms` or later and start at
    `latest_start_ms` or earlier, under keys from `low` to `high`; a key of None: no bound."""

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> None: ...

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> None: ...

    def fetch(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None: ...

    def find_of(self, key: bytes, earliest_end_ms: int, latest_start_ms: int, reverse: bool) -> Rows: ...

    def find(
        self, low: bytes | None, high: bytes | None, earliest_end_ms: int, latest_start_ms: int, reverse: bool
    ) -> Rows: ...

    def find_ended(self, earliest_end_ms: int, latest_end_ms: int) -> Rows: ...


class SessionRoot(SessionBytes, Protocol):
    """The lowest layer. `cache_interval_ms` is the segment of rows in a cache above it."""

    cache_interval_ms: int

    def count_rows(self) -> int: ...

    def restore(self, key: bytes, value: bytes | None) -> None: ...

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> None:
        """Take rows of the changelog; there must be one."""


def _within(
    rows: Iterable[tuple[bytes, V]], low: bytes | None, high: bytes | None, earliest_end_ms: int, latest_start_ms: int
) -> Iterator[tuple[bytes, V]]:
    for row in rows:
        key, start_ms, end_ms = session_parts(row[0])
        if end_ms < earliest_end_ms or start_ms > latest_start_ms:
            continue
        if (low is None or low <= key) and (high is None or key <= high):
            yield row


class SegmentedSessions:
    """Sessions in segments, in the order of keys."""

    # The second order of rows.
    time_key: Callable[[bytes], bytes] | None = None

    def __init__(self, task: TaskState, retention_ms: int, maps: Maps = MEMORY) -> None:
        self._task = task
        self._retention_ms = retention_ms
        self._stream_time_ms = -1
        self.cache_interval_ms = segment_interval(retention_ms)
        self._segments = Segments(retention_ms, self.cache_interval_ms, maps, type(self).time_key)
        found = maps.numbers("sessions", lambda: (self._stream_time_ms,))
        if found is not None:
            self._stream_time_ms = found[0]
            self._segments.expire(self._stream_time_ms)

    def count_rows(self) -> int:
        """Rows in memory: some of them may be too old to be shown."""
        return sum(each.estimate() for each in self._segments.all())

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> None:
        """A late session is counted and dropped; None deletes a row."""
        if not self._put(session_key(key, start_ms, end_ms), value, end_ms):
            self._task.dropped_records += 1

    def _put(self, data: bytes, value: bytes | None, end_ms: int) -> bool:
        if end_ms > self._stream_time_ms:
            self._stream_time_ms = end_ms
        rows = self._segments.live(divide(end_ms, self.cache_interval_ms), self._stream_time_ms)
        if rows is None:
            return False
        rows.put(data, value)
        return True

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> None:
        """A late session is not counted."""
        self._put(session_key(key, start_ms, end_ms), None, end_ms)

    def restore(self, key: bytes, value: bytes | None) -> None:
        self._put(key, value, session_parts(key)[2])

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> None:
        found, latest_ms, _ = by_segment(rows, self.cache_interval_ms, SESSION_SUFFIX_BYTES)
        self._stream_time_ms = max(self._stream_time_ms, latest_ms)
        self._segments.put_all(found, self._stream_time_ms)

    def fetch(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        if end_ms < self._stream_time_ms - self._retention_ms + 1:
            return None
        rows = self._segments.of_time(end_ms)
        return None if rows is None else rows.get(session_key(key, start_ms, end_ms))

    def find_of(self, key: bytes, earliest_end_ms: int, latest_start_ms: int, reverse: bool) -> Rows:
        first_ms = max(earliest_end_ms, self._stream_time_ms - self._retention_ms + 1, 0)
        low, high = session_key(key, 0, first_ms), session_key(key, latest_start_ms, MAX_LONG)
        # Between these two, only keys of other lengths are other keys.
        size = len(low)
        found: list[tuple[bytes, bytes]] = []
        for rows in self._segments.between(first_ms, MAX_LONG, reverse):
            for row in rows.items(low, high, True, reverse):
                data = row[0]
                if len(data) == size and unpack_long(data, size - START_BYTES)[0] <= latest_start_ms:
                    found.append(row)
        return iter(found)

    def find(
        self, low: bytes | None, high: bytes | None, earliest_end_ms: int, latest_start_ms: int, reverse: bool
    ) -> Rows:
        first_ms = max(earliest_end_ms, self._stream_time_ms - self._retention_ms + 1)
        first = None if low is None else lowest_session_key(low)
        last = None if high is None else highest_session_key(high, latest_start_ms)
        return _within(self._in_segments(first, last, first_ms, reverse), low, high, first_ms, latest_start_ms)

    def _in_segments(self, low: bytes | None, high: bytes | None, from_ms: int, reverse: bool) -> Rows:
        for rows in self._segments.between(from_ms, MAX_LONG, reverse):
            yield from rows.items(low, high, True, reverse)

    def find_ended(self, earliest_end_ms: int, latest_end_ms: int) -> Rows:
        """Raises NotImplementedError, as in Kafka: this order knows no times of all keys."""
        raise NotImplementedError("only session stores that emit when windows close find sessions by their ends")


def _time_key(data: bytes) -> bytes:
    return time_first_session_key(*session_parts(data))


class TimeOrderedSessions(SegmentedSessions):
    """Sessions that are found by their ends too: in the order of ends, starts, and keys."""

    time_key = staticmethod(_time_key)

    def find_ended(self, earliest_end_ms: int, latest_end_ms: int) -> Rows:
        low, high = time_bounds(max(0, earliest_end_ms), latest_end_ms)
        for rows in self._segments.between(earliest_end_ms, latest_end_ms):
            assert isinstance(rows, TimedMap)
            yield from rows.items_by_time(low, high, False)


class _Ended:
    """Sessions that end at one time."""

    __slots__ = ("keys", "starts")

    def __init__(self) -> None:
        self.keys = OrderedKeys()
        self.starts: dict[bytes, dict[int, bytes]] = {}


class MemorySessions:
    """Sessions by ends; an end is forgotten when it is over (InMemorySessionStore).

    Of one key and end, the latest start comes first forwards, and last backwards. A cache has the other order, so it
    hides sessions of one key and end as badly as Kafka's does; sessions of a session window never share an end.
    """

    def __init__(self, task: TaskState, retention_ms: int) -> None:
        self._task = task
        self._retention_ms = retention_ms
        self._stream_time_ms = -1
        self.cache_interval_ms = 1
        self._ends: list[int] = []
        self._ended: dict[int, _Ended] = {}

    def count_rows(self) -> int:
        return sum(len(starts) for ended in self._ended.values() for starts in ended.starts.values())

    def _expire(self) -> None:
        oldest_ms = self._stream_time_ms - self._retention_ms + 1
        ends = self._ends
        if ends and ends[0] < oldest_ms:
            over = bisect_left(ends, oldest_ms)
            for end in ends[:over]:
                del self._ended[end]
            del ends[:over]

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> None:
        self._expire()
        if end_ms > self._stream_time_ms:
            self._stream_time_ms = end_ms
        if end_ms <= self._stream_time_ms - self._retention_ms:
            self._task.dropped_records += 1
            return
        ended = self._ended.get(end_ms)
        if value is None:
            self.remove(key, start_ms, end_ms)
            return
        if ended is None:
            ended = self._ended[end_ms] = _Ended()
            insort(self._ends, end_ms)
        starts = ended.starts.get(key)
        if starts is None:
            starts = ended.starts[key] = {}
            ended.keys.add(key)
        starts[start_ms] = value

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> None:
        """Stream time stays where it is."""
        ended = self._ended.get(end_ms)
        starts = None if ended is None else ended.starts.get(key)
        if ended is None or starts is None or starts.pop(start_ms, None) is None or starts:
            return
        del ended.starts[key]
        ended.keys.remove(key)
        if not ended.starts:
            del self._ended[end_ms]
            del self._ends[bisect_left(self._ends, end_ms)]

    def restore(self, key: bytes, value: bytes | None) -> None:
        self.put(*session_parts(key), value)

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> None:
        for key, value in rows.items():
            self.restore(key, value)

    def fetch(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        if end_ms <= self._stream_time_ms - self._retention_ms:
            return None
        ended = self._ended.get(end_ms)
        return None if ended is None else ended.starts.get(key, {}).get(start_ms)

    def find_of(self, key: bytes, earliest_end_ms: int, latest_start_ms: int, reverse: bool) -> Rows:
        return self.find(key, key, earliest_end_ms, latest_start_ms, reverse)

    def find(
        self, low: bytes | None, high: bytes | None, earliest_end_ms: int, latest_start_ms: int, reverse: bool
    ) -> Rows:
        self._expire()
        return iter(self._rows(low, high, earliest_end_ms, MAX_LONG, latest_start_ms, reverse))

    def find_ended(self, earliest_end_ms: int, latest_end_ms: int) -> Rows:
        self._expire()
        return iter(self._rows(None, None, earliest_end_ms, latest_end_ms, MAX_LONG, False))

    def _rows(
        self,
        low: bytes | None,
        high: bytes | None,
        earliest_end_ms: int,
        latest_end_ms: int,
        latest_start_ms: int,
        reverse: bool,
    ) -> list[tuple[bytes, bytes]]:
        ends = self._ends[bisect_left(self._ends, earliest_end_ms) : bisect_right(self._ends, latest_end_ms)]
        if reverse:
            ends.reverse()
        rows = []
        for end in ends:
            ended = self._ended[end]
            for key in ended.keys.between(low, high, True, reverse):
                starts = ended.starts[key]
                for start in sorted(starts, reverse=not reverse):
                    if start <= latest_start_ms:
                        rows.append((session_key(key, start, end), starts[start]))
        return rows


class LoggedSessions:
    """Writes each change to the changelog."""

    def __init__(self, name: str, below: SessionBytes, task: TaskState, changed: Changed) -> None:
        self._name = name
        self._below = below
        self._task = task
        self._changed = changed
        self.fetch = below.fetch
        self.find_of = below.find_of
        self.find = below.find
        self.find_ended = below.find_ended

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> None:
        self._below.put(key, start_ms, end_ms, value)
        self._changed(self._name, session_key(key, start_ms, end_ms), value, self._task.timestamp, NO_HEADERS)

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> None:
        self._below.remove(key, start_ms, end_ms)
        self._changed(self._name, session_key(key, start_ms, end_ms), None, self._task.timestamp, NO_HEADERS)


class CachingSessions:
    """Keeps changes back. `listener` gets the row's key in the changelog, new value, old value, and its Entry."""

    def __init__(self, below: SessionBytes, cache: Cache, task: TaskState, interval_ms: int) -> None:
        self._below = below
        self._cache = StoreCache(cache, task, self._flush_entry)
        self._interval_ms = interval_ms
        self._latest_end_ms = -1
        self.find_ended = below.find_ended
        self.listener: Any = None
        self.send_old_values = False

    def _cache_key(self, key: bytes, start_ms: int, end_ms: int) -> bytes:
        return pack_long(divide(end_ms, self._interval_ms)) + session_key(key, start_ms, end_ms)

    def put(self, key: bytes, start_ms: int, end_ms: int, value: bytes | None) -> None:
        self._cache.put(self._cache_key(key, start_ms, end_ms), value)
        if end_ms > self._latest_end_ms:
            self._latest_end_ms = end_ms

    def remove(self, key: bytes, start_ms: int, end_ms: int) -> None:
        self.put(key, start_ms, end_ms, None)

    def fetch(self, key: bytes, start_ms: int, end_ms: int) -> bytes | None:
        entry = self._cache.get(self._cache_key(key, start_ms, end_ms))
        return self._below.fetch(key, start_ms, end_ms) if entry is None else entry.value

    def _place(self, data: bytes) -> tuple[int, bytes]:
        return divide(session_parts(data)[2], self._interval_ms), data

    def find_of(self, key: bytes, earliest_end_ms: int, latest_start_ms: int, reverse: bool) -> Rows:
        interval_ms = self._interval_ms

        def of_key(segment: int) -> tuple[bytes, bytes]:
            begin_ms, last_ms = segment * interval_ms, (segment + 1) * interval_ms - 1
            low = session_key(key, 0, max(0, earliest_end_ms, begin_ms))
            return low, session_key(key, min(latest_start_ms, last_ms), last_ms)

        segments = divide(earliest_end_ms, interval_ms), divide(self._latest_end_ms, interval_ms)
        rows = cached_rows(self._cache, *segments, of_key, reverse)
        cached = _within(rows, key, key, earliest_end_ms, latest_start_ms)
        stored = self._below.find_of(key, earliest_end_ms, latest_start_ms, reverse)
        return merged(cached, stored, self._place, reverse)

    def find(
        self, low: bytes | None, high: bytes | None, earliest_end_ms: int, latest_start_ms: int, reverse: bool
    ) -> Rows:
        # Kafka looks at the whole cache here, so all of its rows count as used.
        first = None if low is None else pack_long(0) + lowest_session_key(low)
        rows = [(key[SEGMENT_BYTES:], value) for key, value in self._cache.items(first, None, True, reverse)]
        cached = _within(rows, low, high, earliest_end_ms, latest_start_ms)
        stored = self._below.find(low, high, earliest_end_ms, latest_start_ms, reverse)
        return merged(cached, stored, self._place, reverse)

    def _flush_entry(self, cache_key: bytes, entry: Entry) -> None:
        data = cache_key[SEGMENT_BYTES:]
        session = session_parts(data)
        new = entry.value
        listener = self.listener
        if listener is None:
            self._below.put(*session, new)
            return
        old = self._below.fetch(*session) if new is None or self.send_old_values else None
        if new is not None or old is not None:
            self._below.put(*session, new)
            listener(data, new, old if self.send_old_values else None, entry)

    def flush(self) -> None:
        self._cache.flush()
