"""Requests that wait for a change of something, each for a limited time, and a limited number of them."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

# A request that waits takes about 2 KB. More of them are answered as if their time were over.
WAITERS_MAX: Final = 10_000


class Waiters:
    """Requests that wait, by the key of the change that they wait for. A woken request checks whether to wait again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, waiters_max: int = WAITERS_MAX) -> None:
        self._loop = loop
        self._max = waiters_max
        self._count = 0
        # In the order of their arrival; no entry is empty.
        self._waiting: dict[Hashable, dict[asyncio.Future[None], None]] = {}

    def __len__(self) -> int:
        return self._count

    def keys(self) -> list[Hashable]:
        """The keys that requests wait for."""
        return list(self._waiting)

    async def wait(self, key: Hashable, limit_s: float) -> bool:
        """Wait until `wake(key)`. False if that takes longer than `limit_s`, or if too many wait."""
        if self._count >= self._max or limit_s <= 0:
            return False
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.setdefault(key, {})[future] = None
        self._count += 1
        try:
            async with asyncio.timeout(limit_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._forget(key, future)
        return True

    def _forget(self, key: Hashable, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.pop(future, self) is None:
            self._count -= 1
            if not waiting:
                del self._waiting[key]

    def wake(self, key: Hashable) -> None:
        """Wake those that wait for this key."""
        waiting = self._waiting.pop(key, {})
        self._count -= len(waiting)
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def wake_all(self) -> None:
        for key in self.keys():
            self.wake(key)
