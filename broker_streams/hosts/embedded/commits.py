"""Commits of an instance: one at a time, while its tasks process the records behind it.

The results of a commit are complete when it begins, and nothing is added to them. A commit that fails loses the tasks,
with all that they did since it began; so stores need no way back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from broker_cy.client.transaction import GroupMetadata
from broker_streams.hosts.embedded.writer import Offsets, Writer
from broker_streams.hosts.results import Results


class Ended(NamedTuple):
    """A commit that has ended well."""

    results: Results
    offsets: Offsets
    lasted_ns: int


class Commits:
    """`ended` is called when a commit has ended, well or not; then `check` tells how."""

    def __init__(self, writer: Writer, ended: Callable[[], None]) -> None:
        self._writer, self._ended = writer, ended
        self._running: asyncio.Task[Ended] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a commit goes on, or has ended and was not looked at."""
        return self._running is not None

    def begin(self, results: Results, offsets: Offsets, group: GroupMetadata) -> None:
        assert self._running is None
        self._running = asyncio.create_task(self._commit(results, offsets, group))
        self._running.add_done_callback(lambda _: self._ended())

    async def _commit(self, results: Results, offsets: Offsets, group: GroupMetadata) -> Ended:
        begin_ns = time.perf_counter_ns()
        await self._writer.commit(results, offsets, group)
        return Ended(results, offsets, time.perf_counter_ns() - begin_ns)

    def check(self) -> Ended | None:
        """A commit that has ended well; None: none has ended since the last look. Raises Lost, ClientError,
        StreamsError: it failed.
        """
        running = self._running
        if running is None or not running.done():
            return None
        self._running = None
        return running.result()

    async def wait(self) -> Ended | None:
        """The same, after the commit that goes on has ended."""
        if self._running is not None:
            # A caller that is cancelled leaves the commit alone.
            await asyncio.wait([self._running])
        return self.check()

    async def break_off(self) -> None:
        """Abort a commit that goes on."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
