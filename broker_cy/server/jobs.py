"""Worker threads and timers for work that must not run on the loop (storage.jobs.Jobs)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeVar

T = TypeVar("T")


class LoopJobs:
    """Runs work in `executor` and hands the results back on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor
        self._timers: dict[asyncio.TimerHandle, None] = {}
        self._stopped = False

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Call `work` in a worker thread, then `done(result, None)` or `done(None, error)` on the loop.

        Once the broker has stopped, no work is started and no result is delivered: the stop waits for the workers and
        does the rest itself.
        """
        if self._stopped:
            return
        self._executor.submit(work).add_done_callback(lambda future: self._hand_over(future, done))

    def _hand_over(self, future: Future[T], done: Callable[[T | None, BaseException | None], None]) -> None:
        error: BaseException | None
        if future.cancelled():
            result, error = None, asyncio.CancelledError()
        else:
            error = future.exception()
            result = future.result() if error is None else None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, done, result, error)

    def _deliver(
        self, done: Callable[[T | None, BaseException | None], None], result: T | None, error: BaseException | None
    ) -> None:
        if not self._stopped:
            done(result, error)

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call `callback` on the loop after a delay; not at all once the broker has stopped."""
        if self._stopped:
            return

        def fire() -> None:
            self._timers.pop(timer, None)
            callback()

        timer = self._loop.call_later(delay_ms / 1000, fire)
        self._timers[timer] = None

    def stop(self) -> None:
        """Cancel the timers, and drop the results of running work. The next start removes the files that an unfinished
        deletion left.
        """
        self._stopped = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
