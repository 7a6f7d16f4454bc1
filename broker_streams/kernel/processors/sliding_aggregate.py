"""Aggregations in sliding windows (KIP-450).

For each record there is the window that ends at its time, its left window, and if later records follow soon enough the
window that begins 1 ms after it, its right window. A new record changes all windows that hold its time, and adds up to
three: its own two, and the right window of the record before it. The timestamp of a window is that of its last record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processors.window_results import WindowResults
from broker_streams.plan.steps import windows as steps
from broker_streams.records import Change, Record, Window, Windowed

# The aggregate of a window, and the timestamp of its last record.
Row = tuple[Any, int]


@operator(steps.SlidingAggregate)
class SlidingAggregate(WindowResults):
    def __init__(self, step: steps.SlidingAggregate) -> None:
        super().__init__(step)
        self._difference_ms = step.windows.difference_ms
        self._grace_ms = step.windows.grace_ms

    def process(self, record: Record) -> None:
        timestamp = record.timestamp
        if record.key is None or record.value is None:
            self.context.drop()
            return
        if timestamp > self._stream_time_ms:
            self._stream_time_ms = timestamp
        close_ms = self._stream_time_ms - self._grace_ms
        if timestamp + self._difference_ms < close_ms:
            self.context.drop()
        elif timestamp < self._difference_ms:
            # As in Kafka, such a record passes no results on.
            self._take_early(record, close_ms)
        else:
            self._take(record, close_ms)
            if self._emits_closed:
                self._emit_closed(record, close_ms)

    def _take(self, record: Record, close_ms: int) -> None:
        key, timestamp, difference_ms = record.key, record.timestamp, self._difference_ms
        starts = set()
        left: Row | None = None
        right: Row | None = None
        has_left = has_right = False
        previous_ms: int | None = None
        # The latest windows come first. The list holds rows as they were before this record.
        rows = self._store.backward_fetch_range(key, max(0, timestamp - 2 * difference_ms), timestamp + 1)
        for start_ms, row in list(rows):
            starts.add(start_ms)
            end_ms = start_ms + difference_ms
            if start_ms == timestamp + 1:
                has_right = True
            elif end_ms > timestamp:
                right = right or row
                self._update(record, start_ms, row, close_ms)
            elif end_ms == timestamp:
                has_left = True
                self._update(record, start_ms, row, close_ms)
                if row[1] >= timestamp:
                    # An earlier record had the same time: all windows exist.
                    return
                previous_ms = row[1]
            else:
                left, previous_ms = row, row[1]
                break
        if previous_ms is not None:
            start_ms = previous_ms + 1
            if start_ms not in starts and start_ms + difference_ms >= timestamp:
                self._begin(record, start_ms, close_ms)
        if not has_left:
            start_ms = timestamp - difference_ms
            if left is not None and start_ms <= left[1]:
                self._update(record, start_ms, (left[0], timestamp), close_ms)
            else:
                self._begin(record, start_ms, close_ms)
        if not has_right:
            self._add_right(record, right)

    def _take_early(self, record: Record, close_ms: int) -> None:
        """Take a record whose left window would begin before 0. The window from 0 on stands for all of these."""
        timestamp = record.timestamp
        starts = set()
        combined: Row | None = None
        right: Row | None = None
        has_right = False
        previous_ms: int | None = None
        for start_ms, row in list(self._store.fetch_range(record.key, 0, timestamp + 1)):
            starts.add(start_ms)
            if start_ms == 0:
                combined = row
                if row[1] < timestamp:
                    previous_ms = row[1]
            elif start_ms <= timestamp:
                right = row
                self._update(record, start_ms, row, close_ms)
            else:
                has_right = True
        # Without a window between them, the combined window holds later records only, if it holds any.
        if right is None and combined is not None and combined[1] > timestamp:
            right = combined
        if not has_right:
            self._add_right(record, right)
        if previous_ms is not None and previous_ms + 1 not in starts:
            self._begin(record, previous_ms + 1, close_ms)
        if combined is None:
            self._begin(record, 0, close_ms)
        else:
            self._update(record, 0, combined, close_ms)

    def _begin(self, record: Record, start_ms: int, close_ms: int) -> None:
        self._update(record, start_ms, (self._initial(), record.timestamp), close_ms)

    def _update(self, record: Record, start_ms: int, row: Row, close_ms: int) -> None:
        """Add the record to the row of a window, unless the window is closed."""
        if start_ms + self._difference_ms < close_ms:
            self.context.drop()
            return
        old, timestamp = row
        if old is None or record.timestamp > timestamp:
            timestamp = record.timestamp
        self._set(record, start_ms, (self._add(record.key, record.value, old), timestamp), old)

    def _add_right(self, record: Record, row: Row | None) -> None:
        """Add the right window of the record if `row` has a later record."""
        if row is not None and row[1] > record.timestamp:
            self._set(record, record.timestamp + 1, row, None)

    def _set(self, record: Record, start_ms: int, row: Row, old: Any) -> None:
        key = record.key
        self._store.put(key, row, start_ms)
        if self._updates:
            windowed = Windowed(key, Window(start_ms, start_ms + self._difference_ms))
            change = Change(row[0], old if self._send_old else None)
            self._forward(Record(windowed, change, row[1], record.headers))

    def _closed(self, close_ms: int) -> Iterable[tuple[Windowed, Any, int]] | None:
        """The end of a window is part of it, so a window is closed if it ends before `close_ms`."""
        last_ms = close_ms - self._difference_ms - 1
        if last_ms < 0:
            return None
        first_ms = 0 if self._emitted_ms == -1 else max(0, self._emitted_ms - self._difference_ms)
        return [(windowed, value, at) for windowed, (value, at) in self._store.fetch_all(first_ms, last_ms)]
