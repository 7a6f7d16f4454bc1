"""The lag of groups over a range of time, read from the events of their commits, for the charts that show it.

Reading a week takes seconds, so the charts of one group and range share a reading. It begins with its first user and is
cancelled with its last. A range up to now is read again when the reading is older than REREAD_MS and than REST_FACTOR
times its duration; meanwhile the charts show the previous reading.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from broker_cy.client.errors import ClientError
from broker_cy.console.listeners import Listener, Listeners, call
from broker_cy.console.session import now_ms
from dashboard.collector.history import History
from dashboard.collector.history_ranges import GroupLagRange
from dashboard.collector.time_range import POINTS_MAX, Range

_LOG = logging.getLogger(__name__)

REREAD_MS: Final = 60_000
REST_FACTOR: Final = 20
# After a failure.
RETRY_S: Final = 5.0


class GroupReading:
    """The lag of one group over one range. It is a Source (broker_cy.console.listeners).

    `found` is the last complete reading, and `bounds` its range; both are None before the first. `progress_ms`: the
    current reading is complete from this time on; None without one.
    """

    def __init__(self, history: History, group_id: str, over: Range) -> None:
        self._history = history
        self.group_id = group_id
        self._over = over
        self.found: GroupLagRange | None = None
        self.bounds: tuple[int, int] | None = None
        self.progress_ms: int | None = None
        self.error: str | None = None
        self.users = 0
        self._listeners = Listeners()
        self._read_at_s: float | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def age_s(self) -> float | None:
        """Return the time since the last reading ended; None before the first."""
        return None if self._read_at_s is None else asyncio.get_running_loop().time() - self._read_at_s

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` when there is a new reading, and on progress and failure."""
        self._listeners.add(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        if self.found is not None or self.error:
            call(listener)

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                await self._read()
            except ClientError as error:
                self.error = str(error)
            except Exception as bug:
                # The charts of this group report it; everything else continues.
                _LOG.exception("reading the commits of group %r failed", self.group_id)
                self.error = f"{type(bug).__name__}: {bug}"
            self.progress_ms = None
            self._listeners.call()
            if self.error is not None:
                await asyncio.sleep(RETRY_S)
            elif self._over.to_ms is not None and self._over.to_ms < now_ms():
                return
            else:
                await asyncio.sleep(max(REREAD_MS / 1000, (loop.time() - began_s) * REST_FACTOR))

    async def _read(self) -> None:
        from_ms, to_ms = self._over.bounds(now_ms())
        self.progress_ms = to_ms
        self.found = await self._history.group_lag(self.group_id, from_ms, to_ms, POINTS_MAX, self._tell)
        self.bounds = from_ms, to_ms
        self.error = None
        self._read_at_s = asyncio.get_running_loop().time()

    def _tell(self, done_ms: int) -> None:
        self.progress_ms = done_ms
        self._listeners.call()


class GroupReadings:
    """The readings of one cluster that are in use, by group and range."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._readings: dict[tuple[str, Range], GroupReading] = {}

    def __len__(self) -> int:
        return len(self._readings)

    def use(self, group_id: str, over: Range) -> GroupReading:
        """Return the reading of a group and range, and count one more user."""
        reading = self._readings.get((group_id, over))
        if reading is None:
            reading = self._readings[group_id, over] = GroupReading(self._history, group_id, over)
        reading.users += 1
        return reading

    async def release(self, group_id: str, over: Range) -> None:
        """Remove one user; the last one ends the reading."""
        reading = self._readings[group_id, over]
        reading.users -= 1
        if not reading.users:
            del self._readings[group_id, over]
            await reading.close()
