"""A limit of the CPU time that reading history may take, so that viewers are still served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

# Shares of one core; the second one applies for the few seconds until the last hour is read.
SHARE: Final = 0.2
SHARE_FIRST: Final = 0.5
# The longest pause, and the most CPU time for which pauses may be owed.
PAUSE_S_MAX: Final = 0.5


class Pace:
    """Call `begin` before a piece of work and `pause` in the course of it: pauses are as long as needed for the share.

    The CPU time is that of the whole thread: records that a reader decodes ahead count, and so do viewers. Reading
    yields to them, but never stops, because a pause is PAUSE_S_MAX at most. `share` may change at any time.
    """

    def __init__(
        self,
        share: float = SHARE,
        cpu_s: Callable[[], float] = time.thread_time,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.share = share
        self._cpu_s = cpu_s
        self._clock_s = clock_s
        self._sleep = sleep
        self._owed_s = 0.0
        self._mark = (0.0, 0.0)

    def begin(self) -> None:
        """Start measuring; owed pauses remain."""
        self._mark = (self._cpu_s(), self._clock_s())

    async def pause(self) -> None:
        """Wait until the CPU time since `begin` is at most the share of the time."""
        cpu_s, clock_s = self._cpu_s(), self._clock_s()
        owed_s = self._owed_s + (cpu_s - self._mark[0]) / self.share - (clock_s - self._mark[1])
        self._owed_s = min(max(owed_s, 0.0), PAUSE_S_MAX)
        self._mark = (cpu_s, clock_s)
        await self._sleep(self._owed_s)
