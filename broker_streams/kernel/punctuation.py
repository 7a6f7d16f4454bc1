"""Scheduled calls of processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_streams.kernel.forward import Due
from broker_streams.kernel.heap import TimeHeap

NEVER_MS: Final = 1 << 62


class Schedule:
    """One punctuation. The object lives as long as the punctuation, so `cancel` works at any time."""

    __slots__ = ("callback", "interval_ms", "is_cancelled", "node", "time_ms")

    def __init__(self, node: str, time_ms: int, interval_ms: int, callback: Callable[[int], None]) -> None:
        self.node = node
        self.time_ms = time_ms
        self.interval_ms = interval_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def move_beyond(self, now_ms: int) -> None:
        """The next time on the grid of the interval: times that were missed are called once."""
        following = self.time_ms + self.interval_ms
        if now_ms >= following:
            following = self.time_ms + ((now_ms - self.time_ms) // self.interval_ms + 1) * self.interval_ms
        self.time_ms = following


class PunctuationQueue(Due):
    """The punctuations of one clock. `due_ms` is the time from which on `run` has something to do."""

    def __init__(self) -> None:
        self._heap: TimeHeap[Schedule] = TimeHeap()
        self.due_ms = NEVER_MS

    def add(self, schedule: Schedule) -> Schedule:
        self._heap.push(schedule)
        self._look()
        return schedule

    def run(self, now_ms: int, punctuate: Callable[[Schedule, int], None]) -> bool:
        """Call all that are due; return whether one was called."""
        called = False
        heap = self._heap
        while (first := heap.first()) is not None and first.time_ms <= now_ms:
            heap.pop()
            if first.is_cancelled:
                continue
            try:
                punctuate(first, now_ms)
            finally:
                # The callback may have cancelled it.
                if not first.is_cancelled:
                    first.move_beyond(now_ms)
                    heap.push(first)
                self._look()
            called = True
        self._look()
        return called

    def _look(self) -> None:
        first = self._heap.first()
        self.due_ms = NEVER_MS if first is None else first.time_ms
