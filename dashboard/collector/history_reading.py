"""Reads one of the broker's own topics completely: new records as they are written, and older ones in the background,
the newest first.

Each record is taken exactly once, by its offset: after a failure or a restart, only unread records are read. Records
are taken in slices of SLICE_S, and the offsets of a slice are noted in the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.own_topics import OwnTopic
from broker_cy.admin.records import Start
from broker_cy.client.errors import Failure
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from dashboard.collector.history_coverage import Coverage, TopicState
from dashboard.collector.history_pace import SHARE, SHARE_FIRST, Pace

_LOG = logging.getLogger(__name__)

# The longest time for which taking records may block the loop.
SLICE_S: Final = 0.0025
# Bytes of one answer, which is decompressed in one turn of the loop: about 40 samples, 2 ms.
ANSWER_BYTES: Final = 32 << 10
# Offsets that are read backward at once: an hour of samples; ten minutes within FIRST_MS.
STEP: Final = 3_600
STEP_FIRST: Final = 600
# The range that charts show first is read with a larger share of a core.
FIRST_MS: Final = 3_600_000
# After an outage, up to this many records are read in order; if there are more, the newest are read first.
CATCH_UP_MAX: Final = 1_000
RETRY_S: Final = 2.0
# How often the start of the log is determined again, as retention deletes records.
EARLIEST_S: Final = 300.0
# Listeners are called at this interval while older records are read.
PROGRESS_S: Final = 1.0


class Sink(Protocol):
    """Takes the records, in the order of their offsets within a slice."""

    def take(self, record: Record) -> None: ...

    def flush(self) -> None:
        """Complete a slice: no record of it may be held back."""


class Reading:
    """One topic of one cluster; `state` has the ranges that were read, and reading continues from there.

    `error` says why reading has stopped; `is_absent`: the cluster does not have this topic. `earliest_ms` is the time
    of the oldest record within `window_ms`, None if it is not known. `news` is called when records arrived, after a
    failure, and from time to time while older records are read.
    """

    def __init__(
        self,
        client: AdminClient,
        topic: OwnTopic[Any],
        sink: Sink,
        state: TopicState,
        pace: Pace,
        *,
        window_ms: int,
        gate: asyncio.Lock,
        turn: asyncio.Lock,
        now_ms: Callable[[], int],
        news: Callable[[], None],
    ) -> None:
        self._client = client
        self._topic = topic
        self._sink = sink
        self._pace = pace
        self._window_ms = window_ms
        # Held while a slice is taken: another holder sees only complete slices.
        self._gate = gate
        # Held while older records are read, so that one topic at a time is read.
        self._turn = turn
        self._now_ms = now_ms
        self._news = news
        self.state = state
        self.error: str | None = None
        self.is_absent = False
        self.earliest_ms: int | None = None
        self.records = 0
        self.heard_at_s: float | None = None
        self._stop = 0
        self._found = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._retried(self._follow)),
            asyncio.create_task(self._retried(self._read_back)),
            asyncio.create_task(self._retried(self._watch_start)),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_complete(self) -> bool:
        """Return whether all records of the topic within the window were read."""
        return (
            not self._found.is_set()
            and self.state.coverage.end is not None
            and self.state.coverage.gap(self._stop) is None
        )

    @property
    def covered_from_ms(self) -> int | None:
        """Return the time from which on everything was read; None if nothing was."""
        if self.is_complete and self.earliest_ms is not None:
            return self.earliest_ms
        return self.state.coverage.from_ms

    async def _retried(self, job: Callable[[], Any]) -> None:
        while True:
            try:
                await job()
            except ClientError as error:
                self.error = str(error)
                self.is_absent = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                self._news()
            except Exception as error:
                # A bug in reading: it is reported and retried, and everything else continues.
                _LOG.exception("reading %s failed", self._topic.topic)
                self.error = f"{type(error).__name__}: {error}"
                self._news()
            await asyncio.sleep(RETRY_S)

    async def _find(self) -> None:
        """Determine where to read: from the end of the last range, or from the end of the topic."""
        span = await self._topic.span(Start.time(max(0, self._now_ms() - self._window_ms)))
        metadata = self._client.caller.metadata
        topic_id = str(metadata.topic_id(self._topic.topic))
        async with self._gate:
            if self.state.topic_id not in (None, topic_id):
                # The topic was deleted and created again: its offsets now belong to other records.
                self.state.coverage = Coverage()
            self.state.topic_id = topic_id
            self.state.coverage.cut(span.end)
            if self.state.coverage.end is None or span.end - self.state.coverage.end > CATCH_UP_MAX:
                self.state.coverage.begin_at(span.end)
            self._stop = span.start
        self.error, self.is_absent = None, False
        self._found.set()
        await self._find_earliest(span.start)

    async def _find_earliest(self, start: int) -> None:
        key = self._topic.partition
        found = (await self._client.records.timestamps({key: start})).whole()
        self.earliest_ms = found.get(key)
        self._news()

    async def _watch_start(self) -> None:
        while True:
            await asyncio.sleep(EARLIEST_S)
            span = await self._topic.span(Start.time(max(0, self._now_ms() - self._window_ms)))
            self._stop = max(self._stop, span.start)
            await self._find_earliest(span.start)

    async def _follow(self) -> None:
        await self._find()
        coverage, position = self.state.coverage, self.state.coverage.end
        assert position is not None
        async with self._client.records.reader(
            {self._topic.partition: position}, fetch_bytes_max=ANSWER_BYTES, partition_bytes_max=ANSWER_BYTES
        ) as reader:
            async for chunk in reader:
                await self._take(chunk, position, coverage)
                position = chunk.next_offset
                self.error, self.is_absent = None, False
                self.heard_at_s = asyncio.get_running_loop().time()
                self._news()

    async def _read_back(self) -> None:
        while True:
            await self._found.wait()
            gap = self.state.coverage.gap(self._stop)
            if gap is None:
                self._found.clear()
                self._news()
                continue
            async with self._turn:
                from_ms = self.state.coverage.from_ms
                is_first = from_ms is None or from_ms > self._now_ms() - FIRST_MS
                self._pace.share = SHARE_FIRST if is_first else SHARE
                step = STEP_FIRST if is_first else STEP
                await self._read(max(gap[0], gap[1] - step), gap[1], self.state.coverage)

    async def _read(self, start: int, end: int, coverage: Coverage) -> None:
        key = self._topic.partition
        self._pace.begin()
        loop = asyncio.get_running_loop()
        told_at_s = loop.time()
        async with self._client.records.reader(
            {key: start}, ends={key: end}, fetch_bytes_max=ANSWER_BYTES, partition_bytes_max=ANSWER_BYTES
        ) as reader:
            async for chunk in reader:
                await self._take(chunk, start, coverage)
                start = chunk.next_offset
                await self._pace.pause()
                if loop.time() - told_at_s > PROGRESS_S:
                    told_at_s = loop.time()
                    self._news()
        async with self._gate:
            coverage.add(start, max(start, end), None)
        self._news()

    async def _take(self, chunk: Chunk, position: int, coverage: Coverage) -> None:
        """Take the records of a chunk that was read from `position` on, unless the topic was created again."""
        records = chunk.records
        at = 0
        while True:
            async with self._gate:
                if coverage is not self.state.coverage:
                    raise ClientError(Failure.REFUSED, "it was deleted and created again", what=self._topic.topic)
                until_s = time.perf_counter() + SLICE_S
                from_ms = records[at].timestamp if at < len(records) else None
                while at < len(records):
                    self._sink.take(records[at])
                    at += 1
                    if time.perf_counter() >= until_s:
                        break
                self._sink.flush()
                after = records[at].offset if at < len(records) else chunk.next_offset
                coverage.add(position, max(position, after), from_ms)
                position = after
            if at >= len(records):
                break
            await asyncio.sleep(0)
        self.records += len(records)
