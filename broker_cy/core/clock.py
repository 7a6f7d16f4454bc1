"""Time as an argument: code that needs the time receives a Clock, so that tests control it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks in one: record timestamps come from the wall, intervals from the monotonic one."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 (UTC), as in Kafka's timestamps; may jump when the machine's clock is set."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back. The same scale as the event loop's `time()`."""


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """Stands still until it is advanced."""

    __slots__ = ("_monotonic_ms", "_wall_ms")

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = 0

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic(self) -> float:
        return self._monotonic_ms / 1000

    def advance_ms(self, ms: int) -> None:
        """Move both clocks forward by `ms` milliseconds. Raises ValueError if negative."""
        if ms < 0:
            raise ValueError(f"a clock cannot be advanced by {ms} ms; use set_wall_ms for a jump back")
        self._wall_ms += ms
        self._monotonic_ms += ms

    def set_wall_ms(self, wall_ms: int) -> None:
        """Set the wall clock alone, forwards or back, as an operator would."""
        self._wall_ms = wall_ms
