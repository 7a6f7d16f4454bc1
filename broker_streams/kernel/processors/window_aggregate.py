"""Aggregations in tumbling, hopping and unlimited windows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import ProcessorContext
from broker_streams.kernel.processors.window_fold import WindowFold
from broker_streams.kernel.processors.window_results import WindowResults
from broker_streams.kernel.stores.window import WindowStore
from broker_streams.plan.steps import windows as steps
from broker_streams.plan.steps.aggregates import Count
from broker_streams.plan.windows import TimeWindows
from broker_streams.records import Windowed


@operator(steps.WindowAggregate)
def window_aggregate(step: steps.WindowAggregate) -> WindowFold:
    return WindowFold(WindowAggregate(step))


class WindowAggregate(WindowResults):
    """The parts of a step and, after `init`, of its store that WindowFold needs."""

    def __init__(self, step: steps.WindowAggregate) -> None:
        super().__init__(step)
        self.windows = step.windows
        # Whether each time has one window.
        self.tumbles = isinstance(step.windows, TimeWindows) and step.windows.advance_ms == step.windows.size_ms
        self.initial, self.add, self.counts = self._initial, self._add, isinstance(step.fold, Count)
        self.send_old, self.emits_closed = self._send_old, self._emits_closed
        self.emit_closed = self._emit_closed

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        store = self._store
        self.fetch, self.put, self.forward, self.updates = store.fetch, store.put, self._forward, self._updates
        # The parts of a store whose rows are updated without a call of the store for each record, or None.
        self.direct = store.direct() if isinstance(store, WindowStore) else None

    def _closed(self, close_ms: int) -> Iterable[tuple[Windowed, Any, int]] | None:
        """The end of a window is no part of it, so a window is closed if it ends at `close_ms`."""
        windows, size_ms = self.windows, self.windows.size_ms
        last_ms, first_ms = close_ms - size_ms, 0
        if last_ms < 0:
            return None
        if self._emitted_ms != -1:
            seen_ms = max(0, self._emitted_ms - size_ms)
            if windows.starts_of(last_ms) == windows.starts_of(seen_ms):
                return None
            first_ms = seen_ms + 1
        return [(windowed, value, at) for windowed, (value, at) in self._store.fetch_all(first_ms, last_ms)]
