"""Measures how late the loop is: every client waits as long as a timer is late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.metrics.histogram import Histogram

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker_cy.core.clock import Clock

PERIOD_S = 0.1
# The loop's timers are exact to a millisecond; a shorter delay does not count as lag.
TIMER_GRAIN_NS = 1_000_000


class LoopWatch:
    """Measures while it is started, each PERIOD_S; `on_tick` is called as often."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.lag = Histogram()
        self.on_tick: Callable[[], None] | None = None
        self._loop = loop
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0

    def start(self) -> None:
        self._due_ns = self._clock.monotonic_ns() + int(PERIOD_S * 1e9)
        self._timer = self._loop.call_later(PERIOD_S, self._fire)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        late_ns = self._clock.monotonic_ns() - self._due_ns - TIMER_GRAIN_NS
        self.lag.observe_ns(max(0, late_ns))
        # Before the call: an exception in it must not end the watch.
        self.start()
        if self.on_tick is not None:
            self.on_tick()
