"""Work that all runtimes of a coordinator do at intervals, such as the search for expired offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime

S = TypeVar("S", bound=CoordinatorRuntime[Any, Any])


class Sweeper(Generic[S]):
    """Calls `work(runtime)` for every runtime each `interval_ms`, one runtime per turn of the loop, so that clients do
    not wait for all of them.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_ms: int,
        runtimes: Callable[[], list[S]],
        work: Callable[[S], None],
    ) -> None:
        self._loop = loop
        self._interval_s = interval_ms / 1000
        self._runtimes = runtimes
        self._work = work
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, unless it is already started."""
        if self._timer is None:
            self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = self._loop.call_later(self._interval_s, self._sweep, None)

    def _sweep(self, left: list[S] | None) -> None:
        if left is None:
            left = self._runtimes()
        if left:
            runtime = left.pop()
            # Before the work: an exception in it must not end the sweeps.
            self._timer = self._loop.call_later(0, self._sweep, left)
            self._work(runtime)
        else:
            self._wait()
