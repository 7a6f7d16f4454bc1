"""Virtual time: microseconds of the world, and the clocks of its machines, which drift and can be set."""

from __future__ import annotations

from broker_cy.core.clock import ManualClock

EPOCH_MS = 1_700_000_000_000
US = 1_000_000


class WorldTime:
    """The time that everything in the world shares, and that no program in it can read."""

    def __init__(self) -> None:
        self.now_us = 0


class MachineClock:
    """The clocks of one machine. The monotonic clock runs at `rate` of the world's time, and the wall clock follows it
    until it is set.
    """

    def __init__(self, time: WorldTime, rate: float = 1.0) -> None:
        self._time = time
        self._rate = rate
        # The clock that the broker reads; `sync` updates it.
        self.given = ManualClock(EPOCH_MS)
        # How far the wall clock is ahead of a clock that was never set, and the most that it has been ahead.
        self._ahead_ms = self.ahead_most_ms = 0

    def _ns(self) -> int:
        return int(self._time.now_us * self._rate * 1000)

    def monotonic(self) -> float:
        return self._ns() / 1e9

    def sync(self) -> None:
        """Give the broker the time of the world."""
        self.given.advance_ns(max(0, self._ns() - self.given.monotonic_ns()))

    def set_ahead(self, ms: int) -> None:
        """Set only the wall clock, forwards or back."""
        self.sync()
        self.given.set_wall_ms(self.given.wall_ms() + ms)
        self._ahead_ms += ms
        self.ahead_most_ms = max(self.ahead_most_ms, self._ahead_ms)

    def catch_up(self, ahead_ms: int) -> None:
        """Set the wall clock that far ahead of a clock that was never set."""
        self.set_ahead(ahead_ms - self._ahead_ms)

    def world_us(self, monotonic_s: float) -> int:
        """The first microsecond of the world at which this machine's monotonic clock has reached `monotonic_s`."""
        at = int(monotonic_s * US / self._rate)
        while int(at * self._rate * 1000) / 1e9 < monotonic_s:
            at += 1
        return at
