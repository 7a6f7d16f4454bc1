"""The base of aggregations in windows: late records, and results at each update or when windows close.

A window closes when the largest timestamp that the processor saw passes its end and the grace period. A task that
starts again begins this time with its first record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.kernel.processors.folds import calls
from broker_streams.plan.steps.windows import WindowedFold
from broker_streams.plan.windows import EmitStrategy
from broker_streams.records import Change, Record, Windowed


class WindowResults(Processor):
    """Subclasses keep `_stream_time_ms`, update rows, and call `_emit_closed` after each record."""

    def __init__(self, step: WindowedFold) -> None:
        self._name = step.store
        self._initial, self._add, self._merge = calls(step.fold)
        self._send_old = step.send_old_values
        self._emits_closed = step.emit is EmitStrategy.ON_WINDOW_CLOSE

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._task = context.task
        self._forward = context.forward_stamped
        self._store: Any = context.state_store(self._name)
        self._stream_time_ms = -1
        # The close time of the last results that were passed on; -1: none. It outlives the task.
        self._emitted_ms = self._task.emitted_ms.get(self._name, -1)
        self._next_emit_ms = 0
        # Updates are passed on at once, or by the cache of the store when they leave it.
        self._updates = not self._emits_closed and not self._store.set_flush_listener(self._forward, self._send_old)

    def _emit_closed(self, record: Record, close_ms: int) -> None:
        """Pass on the results of windows that closed since the last time. Headers are those of this record."""
        task = self._task
        now_ms = task.system_time_ms
        if now_ms < self._next_emit_ms:
            return
        self._next_emit_ms = now_ms + task.window_emit_interval_ms
        if self._emitted_ms != -1 and self._emitted_ms >= close_ms:
            return
        found = self._closed(close_ms)
        if found is None:
            return
        forward, headers = self._forward, record.headers
        for windowed, value, timestamp in found:
            forward(Record(windowed, Change(value, None), timestamp, headers))
        self._emitted_ms = task.emitted_ms[self._name] = close_ms

    def _closed(self, close_ms: int) -> Iterable[tuple[Windowed, Any, int]] | None:
        """Key and window, value and timestamp of the windows that closed since `_emitted_ms`, in the order of the
        store. None: no window can have closed, and `_emitted_ms` stays.
        """
        raise NotImplementedError
