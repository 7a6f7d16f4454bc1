"""Aggregations in tumbling, hopping and unlimited windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import ProcessorContext
from broker_streams.kernel.processors.window_results import WindowResults
from broker_streams.plan.steps import windows as steps
from broker_streams.plan.windows import FixedWindows, TimeWindows
from broker_streams.records import Change, Record, Window, Windowed


def _starts(windows: FixedWindows) -> Callable[[int], Iterable[int]]:
    """`windows.starts_of`, without its cost where there is one window for each time."""
    if not isinstance(windows, TimeWindows) or windows.advance_ms != windows.size_ms:
        return windows.starts_of
    size_ms = windows.size_ms

    def tumbling(timestamp: int) -> tuple[int]:
        return (timestamp - timestamp % size_ms,)

    return tumbling


@operator(steps.WindowAggregate)
class WindowAggregate(WindowResults):
    def __init__(self, step: steps.WindowAggregate) -> None:
        super().__init__(step)
        self._windows = step.windows
        self._grace_ms = step.windows.grace_ms
        self._starts_of = _starts(step.windows)
        self._end_of = step.windows.end_of

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._fetch, self._put = self._store.fetch, self._store.put

    def process(self, record: Record) -> None:
        key = record.key
        if key is None:
            self.context.drop()
            return
        time_ms = record.timestamp
        if time_ms > self._stream_time_ms:
            self._stream_time_ms = time_ms
        close_ms = self._stream_time_ms - self._grace_ms
        for start_ms in self._starts_of(time_ms):
            end_ms = self._end_of(start_ms)
            if end_ms <= close_ms:
                self.context.drop()
                continue
            row = self._fetch(key, start_ms)
            timestamp = time_ms
            if row is None:
                old = self._initial()
            else:
                old = row[0]
                if row[1] > timestamp:
                    timestamp = row[1]
            new = self._add(key, record.value, old)
            self._put(key, (new, timestamp), start_ms)
            if self._updates:
                change = Change(new, old if self._send_old else None)
                windowed = Windowed(key, Window(start_ms, end_ms))
                self._forward(Record(windowed, change, timestamp, record.headers))
        if self._emits_closed:
            self._emit_closed(record, close_ms)

    def _closed(self, close_ms: int) -> Iterable[tuple[Windowed, Any, int]] | None:
        """The end of a window is no part of it, so a window is closed if it ends at `close_ms`."""
        windows, size_ms = self._windows, self._windows.size_ms
        last_ms, first_ms = close_ms - size_ms, 0
        if last_ms < 0:
            return None
        if self._emitted_ms != -1:
            seen_ms = max(0, self._emitted_ms - size_ms)
            if windows.starts_of(last_ms) == windows.starts_of(seen_ms):
                return None
            first_ms = seen_ms + 1
        return [(windowed, value, at) for windowed, (value, at) in self._store.fetch_all(first_ms, last_ms)]
