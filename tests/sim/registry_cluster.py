"""A cluster with one topic, as the registry's writers see it: transactions of one transactional id, readers up to the
last stable offset, and a network that loses requests and answers. Its loop has no clock but the waits of its tasks.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from broker_cy.admin import ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import Failure
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record

TOPIC = "_schemas"
ANSWER_S = 0.02
LOST_S = 1.0
"""The longest way of a request or its answer, and how long a client waits for one that was lost."""


class _NoFiles(selectors.BaseSelector):
    """Moves the time of its loop on in place of waiting."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "every task waits for another one"
        self.now_s += max(0.0, timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> Any:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_map(self) -> Any:
        return {}


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes when all tasks wait."""

    def __init__(self) -> None:
        self._no_files = _NoFiles()
        super().__init__(self._no_files)

    def time(self) -> float:
        return self._no_files.now_s


class Entry(NamedTuple):
    """A record of the log, or the marker that ends the transaction of an epoch (key None)."""

    epoch: int
    key: bytes | None
    value: bytes | None
    commits: bool = False


@dataclass(frozen=True)
class Appended:
    base_offset: int
    records: int


@dataclass(frozen=True)
class Chunk:
    """The parts of broker_cy.admin.fetched.Chunk that the registry reads."""

    records: list[Record]


class Cluster:
    """The log and the coordinator of the transactional id."""

    def __init__(self, draw: Random, losses: float) -> None:
        """`losses` is the share of requests and answers that are lost."""
        self.draw, self.losses = draw, losses
        self.log: list[Entry] = []
        self.epoch = 0
        # The epoch of the transaction that is open, and where it begins.
        self.open: tuple[int, int] | None = None
        self.moved = asyncio.Condition()
        self.lost = 0

    async def call(self, act: Callable[[], Any]) -> Any:
        """Do something on the broker's side. Raises ClientError if the request or its answer is lost."""
        await asyncio.sleep(self.draw.random() * ANSWER_S)
        if self.draw.random() < self.losses:
            await self._lose()
        result = act()
        async with self.moved:
            self.moved.notify_all()
        await asyncio.sleep(self.draw.random() * ANSWER_S)
        if self.draw.random() < self.losses:
            await self._lose()
        return result

    async def _lose(self) -> None:
        self.lost += 1
        await asyncio.sleep(LOST_S)
        raise ClientError(Failure.TIMED_OUT, "the answer was lost")

    # ------------------------------------------------------------------------------------------------ the broker

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return len(self.log) if self.open is None else self.open[1]

    def take_id(self) -> int:
        """InitProducerId: ends the open transaction of an earlier producer."""
        self.epoch += 1
        if self.open is not None:
            self._mark(commits=False)
        return self.epoch

    def append(self, epoch: int, records: Sequence[Record]) -> Appended:
        if epoch != self.epoch:
            raise ClientError(Failure.REFUSED, "fenced", code=ErrorCode.INVALID_PRODUCER_EPOCH)
        base = len(self.log)
        if self.open is None:
            self.open = (epoch, base)
        self.log += [Entry(epoch, each.key or b"", each.value) for each in records]
        return Appended(base, len(records))

    def end(self, epoch: int, *, commits: bool) -> None:
        if epoch != self.epoch:
            raise ClientError(Failure.REFUSED, "fenced", code=ErrorCode.PRODUCER_FENCED)
        if self.open is not None:
            self._mark(commits=commits)

    def _mark(self, *, commits: bool) -> None:
        assert self.open is not None
        self.log.append(Entry(self.open[0], None, None, commits))
        self.open = None

    def committed(self, start: int, end: int) -> list[tuple[int, Entry]]:
        """Return the records of committed transactions between two offsets, with theirs."""
        found: list[tuple[int, Entry]] = []
        outcome: dict[int, bool] = {}
        for offset in reversed(range(start, len(self.log))):
            entry = self.log[offset]
            if entry.key is None:
                outcome[entry.epoch] = entry.commits
            elif offset < end and outcome.get(entry.epoch, False):
                found.append((offset, entry))
        return found[::-1]


class Producer:
    """The parts of TransactionalProducer that a writer uses. An epoch has one transaction at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._epoch: int | None = None

    async def begin(self) -> None:
        if self._epoch is None:
            self._epoch = await self._cluster.call(self._cluster.take_id)

    async def send_batch(self, partition: TopicPartition, records: Sequence[Record]) -> Appended:
        found: Appended = await self._cluster.call(lambda: self._cluster.append(self._epoch or 0, records))
        return found

    async def commit(self) -> None:
        await self._cluster.call(lambda: self._cluster.end(self._epoch or 0, commits=True))

    async def abort(self) -> None:
        await self._cluster.call(lambda: self._cluster.end(self._epoch or 0, commits=False))


class Log:
    """The parts of TopicLog that a writer uses."""

    topic = TOPIC

    def __init__(self, cluster: Cluster, take: Callable[[Any], None]) -> None:
        self._cluster, self._take = cluster, take
        self.position = 0

    async def follow(self) -> None:
        """Read what is stable, in parts, with pauses."""
        cluster = self._cluster
        while True:
            async with cluster.moved:
                await cluster.moved.wait_for(lambda: cluster.stable > self.position)
            await asyncio.sleep(cluster.draw.random() * ANSWER_S)
            end = cluster.draw.randint(self.position + 1, cluster.stable)
            pairs = cluster.committed(self.position, end)
            records = [Record(offset=offset, timestamp=1, key=entry.key, value=entry.value) for offset, entry in pairs]
            self._take(Chunk(records))
            self.position = end
            async with cluster.moved:
                cluster.moved.notify_all()

    async def read_to_end(self) -> None:
        await self.read_to(await self._cluster.call(lambda: self._cluster.stable))

    async def read_to(self, end: int, partition: int = 0) -> None:
        async with self._cluster.moved:
            await self._cluster.moved.wait_for(lambda: self.position >= end)


class Client:
    """The part of AdminClient that a writer uses."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def transactional_producer(self, transactional_id: str, *, timeout_ms: int) -> Producer:
        return Producer(self._cluster)
