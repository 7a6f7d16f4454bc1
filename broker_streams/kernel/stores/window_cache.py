"""The cache of a window store."""

from __future__ import annotations

from typing import Any

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.cache import Cache
from broker_streams.kernel.stores.keys import (
    MAX_INT,
    SEGMENT_BYTES,
    divide,
    highest_window_key,
    lowest_window_key,
    time_first_window_parts,
    window_key,
    window_parts,
)
from broker_streams.kernel.stores.merge import merged
from broker_streams.kernel.stores.segment_cache import Bounds, CachedRow, cached_rows
from broker_streams.kernel.stores.segments import Rows
from broker_streams.kernel.stores.window_rows import WindowRows
from broker_streams.kernel.stores.windows import WindowBytes, time_bounds


class CachingWindows(WindowRows):
    """Keeps changes back. `listener` gets key and start of the window, new value, old value, and its Entry.

    `interval_ms` is the segment of the store below; `by_time` says that the rows of a segment are ordered by time.
    """

    def __init__(self, below: WindowBytes, cache: Cache, task: TaskState, interval_ms: int, by_time: bool) -> None:
        super().__init__(below, cache, task, interval_ms, by_time)
        self._interval_ms = interval_ms
        self._by_time = by_time
        self.ordered_by_key = below.ordered_by_key

    def _place(self, data: bytes) -> Any:
        """The order in which cached and stored rows are merged."""
        key, start_ms, _ = window_parts(data)
        return (start_ms, key) if self._by_time else (divide(start_ms, self._interval_ms), data)

    def _place_by_key(self, data: bytes) -> Any:
        return divide(window_parts(data)[1], self._interval_ms), data

    def _cached(
        self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int, reverse: bool, single: bool = False
    ) -> list[CachedRow]:
        """Cached rows in the order of the cache, under their keys in the changelog."""
        bounds = self._bounds(low, high, from_ms, to_ms, single)
        segments = divide(from_ms, self._interval_ms), divide(min(to_ms, self.latest_ms), self._interval_ms)
        shown = []
        for data, value in cached_rows(self._cache, *segments, bounds, reverse):
            key, start_ms, _ = time_first_window_parts(data) if self._by_time else window_parts(data)
            if from_ms <= start_ms <= to_ms and (low is None or low <= key) and (high is None or key <= high):
                shown.append((window_key(key, start_ms) if self._by_time else data, value))
        return shown

    def _bounds(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int, single: bool) -> Bounds:
        if single and low is not None and not self._by_time:
            key, interval_ms = low, self._interval_ms

            def of_key(segment: int) -> tuple[bytes, bytes]:
                begin_ms, last_ms = segment * interval_ms, (segment + 1) * interval_ms - 1
                return window_key(key, max(0, from_ms, begin_ms)), window_key(key, min(to_ms, last_ms), MAX_INT)

            return of_key
        first: bytes
        last: bytes | None
        if self._by_time:
            first, last = time_bounds(max(0, from_ms), to_ms)
        else:
            first = b"" if low is None else lowest_window_key(low)
            last = None if high is None else highest_window_key(high, to_ms)
        return lambda segment: (first, last)

    def rows_of(self, key: bytes, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        cached = self._cached(key, key, from_ms, to_ms, reverse, True)
        return merged(iter(cached), self._below.rows_of(key, from_ms, to_ms, reverse), self._place, reverse)

    def rows(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        cached = self._cached(low, high, from_ms, to_ms, reverse, low == high)
        stored = self._below.rows(low, high, from_ms, to_ms, reverse)
        if not self._by_time:
            return merged(iter(cached), stored, self._place, reverse)
        # The store below orders these rows by keys if it has an index, and by times if not.
        place = self._place_by_key if self._below.ordered_by_key else self._place
        cached.sort(key=lambda row: place(row[0]), reverse=reverse)
        return merged(iter(cached), stored, place, reverse)

    def rows_by_time(self, from_ms: int, to_ms: int, reverse: bool) -> Rows:
        if self._by_time:
            cached = self._cached(None, None, from_ms, to_ms, reverse)
        else:
            # Kafka looks at the whole cache here, so all of its rows count as used.
            rows = [(key[SEGMENT_BYTES:], value) for key, value in self._cache.items(reverse=reverse)]
            cached = [row for row in rows if from_ms <= window_parts(row[0])[1] <= to_ms]
        return merged(iter(cached), self._below.rows_by_time(from_ms, to_ms, reverse), self._place, reverse)

    def flush(self) -> None:
        self._cache.flush()
