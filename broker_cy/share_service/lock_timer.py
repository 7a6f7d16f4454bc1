"""The ends of the locks of all share partitions: one timer of the loop, for the earliest."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker_cy.share.share_partitions import ShareKey


class LockTimer:
    """Calls `expire(key)` once the deadline of a share partition is over.

    The heap has one entry for each share partition that has locks, and one more each time that a deadline became
    earlier.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int], expire: Callable[[ShareKey], None]
    ) -> None:
        self._loop = loop
        self._now_ms = now_ms
        self._expire = expire
        self._deadlines: dict[ShareKey, int] = {}
        self._heap: list[tuple[int, ShareKey]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._fires_ms = 0

    def arm(self, key: ShareKey, deadline_ms: int) -> None:
        """The first lock of a share partition ends at `deadline_ms`; 0: it has none."""
        known = self._deadlines.get(key)
        if deadline_ms and (known is None or deadline_ms < known):
            self._deadlines[key] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, key))
            self._schedule()

    def forget(self, key: ShareKey) -> None:
        """The share partition was dropped."""
        self._deadlines.pop(key, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()
        self._deadlines.clear()

    def _schedule(self) -> None:
        if not self._heap:
            return
        first_ms = self._heap[0][0]
        if self._timer is not None:
            if self._fires_ms <= first_ms:
                return
            self._timer.cancel()
        self._fires_ms = first_ms
        self._timer = self._loop.call_later(max(1, first_ms - self._now_ms()) / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, key = heapq.heappop(self._heap)
            if self._deadlines.get(key) == deadline_ms:
                del self._deadlines[key]
                self._expire(key)
        self._schedule()
