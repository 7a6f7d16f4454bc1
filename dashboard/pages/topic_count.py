"""Counting the records of partitions by reading them: offsets do not say how many remain after compaction and
transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Final

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Listener, Listeners, Source
from broker_cy.console.record_count import RecordCount
from broker_cy.console.values import parse_partitions
from broker_cy.reporting.numbers import count, percent, plural, size
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import FactsChannel, Params, channel

# Concurrent counts, over all viewers.
COUNTS_MAX: Final = 4
# Viewers receive the progress at this interval.
TICK_S: Final = 0.3
ALL: Final = "all"


class _Counting:
    """A source that counts the records of partitions while it has listeners."""

    running: ClassVar[set[_Counting]] = set()

    def __init__(self, make: Callable[[], Awaitable[RecordCount]]) -> None:
        self._make = make
        self.count: RecordCount | None = None
        self.error: str | None = None
        self.age_s: float | None = 0.0
        self._listeners = Listeners()
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, listener: Listener) -> None:
        self._listeners.add(listener)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def unsubscribe(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        if len(self.running) >= COUNTS_MAX:
            self.error = f"{COUNTS_MAX} countings are running, which is the limit: try again later"
            self._listeners.call()
            return
        self.running.add(self)
        reading: asyncio.Task[None] | None = None
        try:
            self.count = await self._make()
            reading = asyncio.create_task(self.count.run())
            while not reading.done():
                self._listeners.call()
                await asyncio.wait({reading}, timeout=TICK_S)
            self.error = self.count.error or None
        except ClientError as error:
            self.error = str(error)
        finally:
            self.running.discard(self)
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        self._listeners.call()


@channel("record-count")
class Count(FactsChannel):
    """Counts the records of `partitions` (a list, or `all`) by reading them, while it has viewers."""

    PARAMS = frozenset({"topic", "partitions"})
    REQUIRED = PARAMS

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        _numbers(found["partitions"])
        return found

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._counting = _Counting(self._begin)

    async def _begin(self) -> RecordCount:
        client = self.session.client
        wanted = _numbers(self.params["partitions"])
        keys = [
            key
            for key in await client.records.partitions(self.params["topic"])
            if wanted is None or key.partition in wanted
        ]
        starts, ends = await asyncio.gather(client.offsets.earliest(keys), client.offsets.latest(keys))
        return RecordCount(client, {key: (starts.whole()[key], ends.whole()[key]) for key in keys})

    def sources(self) -> Sequence[Source]:
        return [self._counting]

    async def close(self) -> None:
        await self._counting.close()

    def facts(self) -> Sequence[Fact] | None:
        found = self._counting.count
        if found is None:
            return None
        is_done = found.is_done
        progress = "complete" if is_done else f"{percent(found.offsets_done, found.offsets_total)} so far"
        return [
            Fact("records", count(found.records), Tone.GOOD if is_done else Tone.PLAIN),
            Fact("offsets", f"{count(found.offsets_total)} in {plural(found.partitions, 'partition')}"),
            Fact("read", size(found.bytes_read)),
            Fact("state", progress),
        ]


def _numbers(text: str) -> tuple[int, ...] | None:
    """Parse a list of partitions, None for all. Raises ClientError."""
    try:
        return None if text == ALL else parse_partitions(text)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error)) from None
