"""Push queries: a client gets rows as they arise, until it goes, the query is closed, or LIMIT is reached.

Bounds: ROWS_AHEAD rows wait for the client; while they do, no more records are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_sql.server.queries.transient import TransientTopology, input_topics
from broker_sql.types import Column
from broker_streams.plan.topology import Topology

ROWS_AHEAD: Final = 1_000
PUNCTUATE_S: Final = 0.1
LIMIT_REACHED: Final = "Limit Reached"
COMPLETED: Final = "Query Completed"


class Row(NamedTuple):
    """A row of a result; `is_deleted`: the row of a table with this key is gone."""

    values: Sequence[Any]
    is_deleted: bool = False


class Result(Protocol):
    """The rows of a query, and their columns."""

    @property
    def id(self) -> str: ...

    @property
    def columns(self) -> Sequence[Column]: ...

    @property
    def is_pull(self) -> bool:
        """Whether the rows are those that exist now, so that the answer ends."""

    def batches(self) -> AsyncIterator[list[Row]]:
        """Yield the rows as they come, as many as there are. Raises what ends the query."""

    @property
    def end(self) -> str | None:
        """Why the rows have ended; None for a pull query."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The records that a query reads. `ends`: those that exist at its begin; otherwise also those that come. `last`: of
    each partition, the last ones of these; None: where auto.offset.reset says.
    """

    ends: bool = False
    last: int | None = None


@dataclass(frozen=True)
class PushPlan:
    """`topology` calls `on_row` for each row; `make` is called once with that call, in the loop of the server."""

    id: str
    columns: tuple[Column, ...]
    make: Callable[[Callable[[tuple[Any, ...], bool], object]], Topology]
    config: Mapping[str, Any]
    limit: int | None = None
    text: str = ""
    is_table: bool = False
    bounds: Bounds = Bounds()


class PushQuery:
    """One push query. It begins with `open`, and ends with `close`."""

    is_pull = False

    def __init__(self, plan: PushPlan, client: AdminClient) -> None:
        self._plan = plan
        self._client = client
        self.id = plan.id
        self.text = plan.text
        self.columns = plan.columns
        self.began_ms = _now_ms()
        self.rows_sent = 0
        self.end: str | None = None
        self._rows: list[Row] = []
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        self._failure: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._left = plan.limit
        self._running: TransientTopology

    async def open(self) -> None:
        """Find the places where reading begins. Raises ClientError, StatementError, StreamsError."""
        topology = self._plan.make(self._on_row)
        topics = input_topics(topology)
        partitions = {topic: await self._client.records.partitions(topic) for topic in topics}
        keys = [key for each in partitions.values() for key in each]
        bounds = self._plan.bounds
        ends = (await self._client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
        if bounds.last is not None:
            first = (await self._client.offsets.earliest(keys)).whole()
            starts = {key: max(first[key], end - bounds.last) for key, end in ends.items()}
        elif self._plan.config.get("auto.offset.reset", "latest") == "earliest":
            starts = (await self._client.offsets.earliest(keys)).whole()
        else:
            starts = ends
        counts = {topic: len(each) for topic, each in partitions.items()}
        self._running = TransientTopology(topology, self._plan.config, counts, lambda output: None, _now_ms())
        if self._left == 0:
            self._finish(LIMIT_REACHED)
            return
        self._task = asyncio.create_task(self._read(starts, ends if bounds.ends else None))

    def _on_row(self, values: tuple[Any, ...], is_deleted: bool) -> None:
        if self._left is not None:
            if self._left <= 0:
                return
            self._left -= 1
        self._rows.append(Row(values, is_deleted))
        self._news.set()

    async def _read(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None) -> None:
        running = self._running
        try:
            async with Reader(self._client.caller, starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
                chunks = aiter(reader)
                following = asyncio.ensure_future(anext(chunks))
                try:
                    while self._left != 0:
                        done, _ = await asyncio.wait((following,), timeout=PUNCTUATE_S)
                        if done:
                            try:
                                chunk = following.result()
                            except StopAsyncIteration:
                                break
                            following = asyncio.ensure_future(anext(chunks))
                            running.add(chunk.partition.topic, chunk.partition.partition, chunk.records, _now_ms())
                        await self._process()
                finally:
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
            self._finish(LIMIT_REACHED if self._left == 0 else COMPLETED)
        except Exception as error:
            self._failure = error
            self._news.set()

    async def _process(self) -> None:
        """Process what was read, as far as the client takes its rows."""
        while True:
            self._running.run(_now_ms())
            if self._left == 0 or not self._running.waiting():
                return
            await asyncio.sleep(0)
            while len(self._rows) >= ROWS_AHEAD:
                self._taken.clear()
                await self._taken.wait()

    def _finish(self, end: str) -> None:
        self.end = self.end or end
        self._news.set()

    async def batches(self) -> AsyncIterator[list[Row]]:
        while True:
            if self._rows:
                rows, self._rows = self._rows, []
                self._taken.set()
                self.rows_sent += len(rows)
                yield rows
            elif self._failure is not None:
                raise self._failure
            elif self.end is not None:
                return
            else:
                self._news.clear()
                await self._news.wait()

    async def close(self) -> None:
        """End the query: its client has gone, or another one closed it."""
        self._finish(COMPLETED)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            with contextlib.suppress(Exception):
                self._running.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
