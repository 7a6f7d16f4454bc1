"""Keeps KnownSchemas up to date in a task, and says whether it is: a Produce request whose schema is not known waits.

The task reads the topic to its end, in rounds. A round begins immediately if a request waits, else PAUSE_S after the
last one. A schema that a producer has just registered is therefore known after one read, and a deleted one is refused
after PAUSE_S at the latest.

A request waits for a round that began after it: at most for the round that is under way and the next one, each of at
most ROUND_S. If the end is not reached in that time, because no leader answers, or because the first round after the
start is still loading, the request fails with an error after which producers send it again: a record that names a
registered schema must not be refused for good. Schemas that are known are accepted without any wait, so that producers
with known schemas go on while the topic has no leader.

A leader that was replaced, and does not know it, may answer with its own end. If this broker knows the successor, the
leader epoch of the read prevents it; a broker that is cut off as well may refuse a schema that was registered since.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from broker_cy.core.errors import WireError
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.record_schemas.entries import Part, read_part
from broker_cy.record_schemas.known import KnownSchemas
from broker_cy.record_schemas.sources import NotReadable, OffsetGone, Source, TopicPart
from broker_cy.wire.compression import CorruptPayload, PayloadTooLarge

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from uuid import UUID

LOGGER = logging.getLogger("broker_cy.server.record_schemas")

ROUND_S: Final = 2.0
"""The longest round; two of them are far below the request.timeout.ms of producers (30 s)."""
PAUSE_S: Final = 1.0
"""Between rounds while no request waits: one small Fetch each second from each broker that checks records."""
RETRY_S: Final = 0.05
"""Until a read that failed is tried again within a round."""


class Follower:
    """`worker` parses; None: the loop's default executor. `start` and `stop` may be called again and again."""

    def __init__(self, source: Source, loop: asyncio.AbstractEventLoop, worker: Executor | None) -> None:
        self.known = KnownSchemas()
        self._source = source
        self._loop = loop
        self._worker = worker
        self._topic_id: UUID | None = None
        self._position = 0
        self._reason = ""
        self._task: asyncio.Task[None] | None = None
        # Those that the round under way answers, and those that the next one does.
        self._now: asyncio.Future[bool] | None = None
        self._next: asyncio.Future[bool] | None = None
        self._asked = asyncio.Event()

    def start(self) -> None:
        if self._task is None:
            self._task = keep_running(self._loop, self._run, "following the schemas of records")

    def stop(self) -> None:
        """Forget everything; requests that wait are not answered as known."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        for future in (self._now, self._next):
            _settle(future, is_current=False)
        self._now = self._next = None
        self._begin(None)

    def up_to_date(self) -> asyncio.Future[bool]:
        """Return a future of whether `known` has all that was in the topic when this was called. It is done within two
        rounds. Requests that ask at the same time share it.
        """
        if self._task is None:
            stopped: asyncio.Future[bool] = self._loop.create_future()
            stopped.set_result(False)
            return stopped
        if self._next is None:
            self._next = self._loop.create_future()
            self._asked.set()
        return self._next

    # ---- the task

    async def _run(self) -> None:
        while True:
            # keep_running may have begun again after a defect.
            _settle(self._now, is_current=False)
            self._now, self._next = self._next, None
            self._asked.clear()
            is_current = await self._round()
            _settle(self._now, is_current=is_current)
            self._now = None
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(PAUSE_S):
                await self._asked.wait()
        except TimeoutError:
            pass

    async def _round(self) -> bool:
        """Read to the end; False if that was not reached in time."""
        try:
            async with asyncio.timeout(ROUND_S):
                while not await self._read_next():
                    pass
        except TimeoutError:
            return False
        if self._reason:
            LOGGER.info("the topic of the schema registry is read again")
            self._reason = ""
        return True

    async def _read_next(self) -> bool:
        """Read and apply the next part; returns whether it was the last one."""
        topic_id = self._source.topic_id()
        if topic_id != self._topic_id:
            self._begin(topic_id)
        if topic_id is None:
            return True
        try:
            found = await self._source.read(topic_id, self._position)
            part = await self._parsed(found)
        except OffsetGone as gone:
            if self._position > gone.log_start:
                # The log was cut: what follows may differ from what was read.
                self._begin(topic_id)
            self._position = gone.log_start
            await asyncio.sleep(RETRY_S)
            return False
        except NotReadable as error:
            self._note(str(error))
            await asyncio.sleep(RETRY_S)
            return False
        for entry in part.entries:
            self.known.apply(entry)
        self._position = part.next_offset
        return not found.data or part.next_offset >= found.stable_end

    async def _parsed(self, found: TopicPart) -> Part:
        if not found.data:
            return Part([], self._position)
        try:
            return await self._loop.run_in_executor(
                self._worker, read_part, found.data, found.aborted, self._position, found.stable_end
            )
        except (WireError, CorruptPayload, PayloadTooLarge) as error:
            raise NotReadable(f"at offset {self._position}: {error}") from error

    def _begin(self, topic_id: UUID | None) -> None:
        """Begin at the start of a topic."""
        self.known = KnownSchemas()
        self._topic_id = topic_id
        self._position = 0

    def _note(self, reason: str) -> None:
        if reason != self._reason:
            self._reason = reason
            LOGGER.warning(
                "the topic of the schema registry cannot be read: records with schemas that are not known are refused",
                extra=facts(reason=reason),
            )


def _settle(future: asyncio.Future[bool] | None, *, is_current: bool) -> None:
    if future is not None and not future.done():
        future.set_result(is_current)
