"""Window stores of bytes: segments in the order of keys or of times, and windows in memory.

All of them give rows under their key in the changelog (keys.window_key). Their orders are Kafka's:
- by keys (the default): segments, and keys within a segment;
- by times (stores that emit when windows close): times, then keys; with an index, `rows` come in the order by keys;
- in memory: times, then keys.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import Protocol

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Changed
from broker_streams.kernel.stores.grouping import by_segment
from broker_streams.kernel.stores.keys import (
    MAX_INT,
    MAX_LONG,
    WINDOW_SUFFIX_BYTES,
    divide,
    highest_window_key,
    lowest_window_key,
    pack_int,
    pack_long,
    time_first_window_key,
    unpack_long,
    window_key,
    window_parts,
)
from broker_streams.kernel.stores.maps import MEMORY, Maps, RowMap
from broker_streams.kernel.stores.ordered import OrderedMap
from broker_streams.kernel.stores.segments import Rows, Segments, TimedMap, segment_interval
from broker_streams.records import NO_HEADERS


class WindowBytes(Protocol):
    """A window store of bytes. Times are starts of windows in ms, both bounds included; a key of None: no bound.

    `ordered_by_key` is the order of `rows`: by segments and keys, and not by times and keys.
    """

    ordered_by_key: bool

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> None: ...

    def fetch(self, key: bytes, start_ms: int) -> bytes | None: ...

    def rows_of(self, key: bytes, from_ms: int, to_ms: int, reverse: bool) -> Rows: ...

    def rows(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int, reverse: bool) -> Rows: ...

    def rows_by_time(self, from_ms: int, to_ms: int, reverse: bool) -> Rows: ...


class WindowRoot(WindowBytes, Protocol):
    """The lowest layer. `cache_interval_ms` is the segment of rows in a cache above it."""

    cache_interval_ms: int

    def count_rows(self) -> int: ...

    def restore(self, key: bytes, value: bytes | None) -> None: ...

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> int:
        """Take rows of the changelog; there must be one. Returns the largest sequence number of a key."""


def within(rows: Rows, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int) -> Rows:
    """Rows whose key and time lie in the bounds: keys of other lengths lie between the rows of a range."""
    for row in rows:
        data = row[0]
        at = len(data) - WINDOW_SUFFIX_BYTES
        if from_ms <= unpack_long(data, at)[0] <= to_ms:
            key = data[:at]
            if (low is None or low <= key) and (high is None or key <= high):
                yield row


def time_bounds(from_ms: int, to_ms: int) -> tuple[bytes, bytes]:
    """The first time-first key of these times, and the end of them."""
    return b"\x00" + pack_long(from_ms), b"\x00" + pack_long(to_ms + 1) if to_ms < MAX_LONG else b"\x01"


class SegmentedWindows:
    """Windows in segments, in the order of keys."""

    # The second order of rows.
    time_key: Callable[[bytes], bytes] | None = None

    def __init__(self, task: TaskState, retention_ms: int, duplicates: bool, maps: Maps = MEMORY) -> None:
        self._task = task
        self._retention_ms = retention_ms
        self._duplicates = duplicates
        self._sequence = 0
        self._stream_time_ms = -1
        self.ordered_by_key = True
        self.cache_interval_ms = segment_interval(retention_ms)
        self._segments = Segments(retention_ms, self.cache_interval_ms, maps, type(self).time_key)
        found = maps.numbers("windows", lambda: (self._stream_time_ms, self._sequence))
        if found is not None:
            self._stream_time_ms, self._sequence = found
            self._segments.expire(self._stream_time_ms)

    def count_rows(self) -> int:
        """Rows in memory: some of them may be too old to be shown."""
        return sum(each.estimate() for each in self._segments.all())

    def _oldest_ms(self) -> int:
        """The time of the oldest row that is shown; segments may hold older ones."""
        return self._stream_time_ms - self._retention_ms + 1

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> None:
        """A late row is counted and dropped; None deletes a row, and does nothing where rows have duplicates."""
        if self._duplicates:
            if value is None:
                return
            self._sequence = (self._sequence + 1) & MAX_INT
        rows = self._live(start_ms)
        if rows is None:
            self._task.dropped_records += 1
        else:
            rows.put(window_key(key, start_ms, self._sequence), value)

    def _live(self, start_ms: int) -> RowMap | None:
        """The rows of the segment of a row that is put; None: it is too late."""
        if start_ms > self._stream_time_ms:
            self._stream_time_ms = start_ms
        return self._segments.live(divide(start_ms, self.cache_interval_ms), self._stream_time_ms)

    def restore(self, key: bytes, value: bytes | None) -> None:
        _, start_ms, sequence = window_parts(key)
        # Kafka begins to count duplicates at 0 again, and overwrites restored rows of the same key and time.
        self._sequence = max(self._sequence, sequence)
        rows = self._live(start_ms)
        if rows is not None:
            rows.put(key, value)

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> int:
        found, latest_ms, last = by_segment(rows, self.cache_interval_ms, WINDOW_SUFFIX_BYTES)
        self._sequence = max(self._sequence, last)
        self._stream_time_ms = max(self._stream_time_ms, latest_ms)
        self._segments.put_all(found, self._stream_time_ms)
        return last

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        if start_ms < self._oldest_ms():
            return None
        rows = self._segments.of_time(start_ms)
        return None if rows is None else rows.get(window_key(key, start_ms, self._sequence))

    def rows_of(self, key: bytes, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        from_ms = max(from_ms, self._oldest_ms(), 0)
        if to_ms < from_ms:
            return iter(())
        low, high = window_key(key, from_ms), window_key(key, to_ms, MAX_INT)
        # Between these two, only keys of other lengths are other keys.
        size = len(low)
        found: list[tuple[bytes, bytes]] = []
        for rows in self._segments.between(from_ms, to_ms, reverse):
            found += [row for row in rows.items(low, high, True, reverse) if len(row[0]) == size]
        return iter(found)

    def rows(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        from_ms = max(from_ms, self._oldest_ms())
        if to_ms < from_ms:
            return iter(())
        first = None if low is None else lowest_window_key(low)
        last = None if high is None else highest_window_key(high, to_ms)
        return within(self._in_segments(first, last, from_ms, to_ms, reverse), low, high, from_ms, to_ms)

    def _in_segments(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        for rows in self._segments.between(from_ms, to_ms, reverse):
            yield from rows.items(low, high, True, reverse)

    def rows_by_time(self, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        return self.rows(None, None, from_ms, to_ms, reverse)


def _time_key(data: bytes) -> bytes:
    key, start_ms, sequence = window_parts(data)
    return time_first_window_key(key, start_ms, sequence)


class TimeOrderedWindows(SegmentedWindows):
    """Windows in segments, in the order of times. Such a store shows rows of one ms more than others do."""

    time_key = staticmethod(_time_key)

    def __init__(
        self, task: TaskState, retention_ms: int, duplicates: bool, indexed: bool, maps: Maps = MEMORY
    ) -> None:
        super().__init__(task, retention_ms, duplicates, maps)
        self.ordered_by_key = indexed

    def _oldest_ms(self) -> int:
        return self._stream_time_ms - self._retention_ms

    def rows(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        if self.ordered_by_key:
            return super().rows(low, high, from_ms, to_ms, reverse)
        return within(self.rows_by_time(from_ms, to_ms, reverse), low, high, from_ms, to_ms)

    def rows_by_time(self, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        from_ms = max(from_ms, self._oldest_ms(), 0)
        if to_ms < from_ms:
            return
        low, high = time_bounds(from_ms, to_ms)
        for rows in self._segments.between(from_ms, to_ms, reverse):
            assert isinstance(rows, TimedMap)
            yield from rows.items_by_time(low, high, reverse)


class MemoryWindows:
    """Windows by times; a time is forgotten when it is over (InMemoryWindowStore).

    A key in the map of a time is the key, with a sequence number where rows have duplicates.
    """

    def __init__(self, task: TaskState, retention_ms: int, duplicates: bool) -> None:
        self._task = task
        self._retention_ms = retention_ms
        self._duplicates = duplicates
        self._sequence = 0
        self._stream_time_ms = -1
        self.ordered_by_key = False
        self.cache_interval_ms = 1
        self._times: list[int] = []
        self._maps: dict[int, OrderedMap] = {}

    def count_rows(self) -> int:
        return sum(map(len, self._maps.values()))

    def _expire(self) -> None:
        oldest_ms = self._stream_time_ms - self._retention_ms + 1
        times = self._times
        if times and times[0] < oldest_ms:
            over = bisect_left(times, oldest_ms)
            for time in times[:over]:
                del self._maps[time]
            del times[:over]

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> None:
        """A late row is counted and dropped; None deletes a row, and does nothing where rows have duplicates."""
        self._expire()
        if start_ms > self._stream_time_ms:
            self._stream_time_ms = start_ms
        if start_ms <= self._stream_time_ms - self._retention_ms:
            self._task.dropped_records += 1
        elif not self._duplicates:
            self._put(key, value, start_ms)
        elif value is not None:
            self._sequence = (self._sequence + 1) & MAX_INT
            self._put(key + pack_int(self._sequence), value, start_ms)

    def _put(self, key: bytes, value: bytes | None, start_ms: int) -> None:
        rows = self._maps.get(start_ms)
        if rows is None:
            if value is None:
                return
            rows = self._maps[start_ms] = OrderedMap()
            insort(self._times, start_ms)
        rows.put(key, value)
        if not rows:
            del self._maps[start_ms]
            del self._times[bisect_left(self._times, start_ms)]

    def restore(self, key: bytes, value: bytes | None) -> None:
        data, start_ms, sequence = window_parts(key)
        self._sequence = max(self._sequence, sequence)
        self._stream_time_ms = max(self._stream_time_ms, start_ms)
        self._expire()
        if start_ms > self._stream_time_ms - self._retention_ms:
            self._put(data + pack_int(sequence) if self._duplicates else data, value, start_ms)

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> int:
        for key, value in rows.items():
            self.restore(key, value)
        return max(window_parts(key)[2] for key in rows)

    def fetch(self, key: bytes, start_ms: int) -> bytes | None:
        """None where rows have duplicates, as in Kafka."""
        if start_ms <= self._stream_time_ms - self._retention_ms:
            return None
        rows = self._maps.get(start_ms)
        return None if rows is None else rows.get(key)

    def rows_of(self, key: bytes, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        return self.rows(key, key, from_ms, to_ms, reverse)

    def rows(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        from_ms = max(from_ms, self._stream_time_ms - self._retention_ms + 1)
        times = self._times[bisect_left(self._times, from_ms) : bisect_right(self._times, to_ms)]
        if reverse:
            times.reverse()
        if self._duplicates:
            rows = self._rows(times, low, None if high is None else high + pack_int(MAX_INT), reverse)
            return within(rows, low, high, from_ms, to_ms)
        return self._rows(times, low, high, reverse)

    def _rows(self, times: list[int], low: bytes | None, high: bytes | None, reverse: bool) -> Rows:
        for time in times:
            rows = self._maps.get(time)
            # A time may have expired since the iteration began.
            if rows is not None:
                for key, value in rows.items(low, high, True, reverse):
                    if self._duplicates:
                        yield key[:-4] + pack_long(time) + key[-4:], value
                    else:
                        yield window_key(key, time), value

    def rows_by_time(self, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        return self.rows(None, None, from_ms, to_ms, reverse)


class LoggedWindows:
    """Writes each change to the changelog; with `with_headers`, with the headers of the record."""

    def __init__(
        self,
        name: str,
        below: WindowBytes,
        task: TaskState,
        changed: Changed,
        timestamped: bool,
        duplicates: bool,
        with_headers: bool = False,
        maps: Maps = MEMORY,
    ) -> None:
        self._name = name
        self._below = below
        self._task = task
        self._changed = changed
        self._timestamped = timestamped
        self._duplicates = duplicates
        self._with_headers = with_headers
        # The number of the last duplicate in the changelog. The store below does not count the ones without a value.
        self.sequence = (maps.numbers("changelog", lambda: (self.sequence,)) or (0,))[0]
        self.ordered_by_key = below.ordered_by_key
        self.fetch = below.fetch
        self.rows_of = below.rows_of
        self.rows = below.rows
        self.rows_by_time = below.rows_by_time

    def put(self, key: bytes, value: bytes | None, start_ms: int) -> None:
        self._below.put(key, value, start_ms)
        if self._duplicates:
            self.sequence = (self.sequence + 1) & MAX_INT
        data = window_key(key, start_ms, self.sequence)
        headers = self._task.headers if self._with_headers else NO_HEADERS
        if value is not None and self._timestamped:
            self._changed(self._name, data, value[8:], unpack_long(value)[0], headers)
        else:
            self._changed(self._name, data, value, self._task.timestamp, headers)
