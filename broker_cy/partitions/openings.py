"""Requests that wait for partitions whose logs are not open yet (storage.log_opener)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker_cy.replica.partition import Partition
    from broker_cy.storage.log_opener import LogOpener


class _Wait:
    """One request, until `left` partitions are open."""

    __slots__ = ("done", "left")

    def __init__(self, done: Callable[[], None]) -> None:
        self.done = done
        self.left = 0


class Openings:
    """Has the logs opened that requests ask for, and calls back when they are open, offline or deleted. A request waits
    as it would for a broker that is still starting; requested logs are opened first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, opener: LogOpener) -> None:
        self._loop = loop
        self._opener = opener
        self._waits: dict[tuple[str, int], list[_Wait]] = {}

    def when_open(self, partitions: Iterable[Partition], done: Callable[[], None]) -> None:
        """Call `done()` on the loop once none of `partitions` is unopened, but never before this returns."""
        wait = _Wait(done)
        keys = {(each.topic, each.index): None for each in partitions if each.unopened}
        for key in keys:
            wait.left += 1
            self._waits.setdefault(key, []).append(wait)
        if not keys:
            self._loop.call_soon(done)
        for key in keys:
            self._opener.ask(key)

    async def opened(self, partitions: Iterable[Partition | None]) -> None:
        """Return once none of `partitions` is unopened; they may be deleted by then."""
        unopened = [each for each in partitions if each is not None and each.unopened]
        if not unopened:
            return
        future: asyncio.Future[None] = self._loop.create_future()

        def done() -> None:
            if not future.done():
                future.set_result(None)

        self.when_open(unopened, done)
        await future

    def settled(self, topic: str, index: int) -> None:
        """A partition is open, offline or deleted."""
        for wait in self._waits.pop((topic, index), ()):
            wait.left -= 1
            if wait.left == 0:
                self._loop.call_soon(wait.done)
