"""Queries without Spark: the calls that Spark makes, in its order, with workers of this process in place of its own.

A crash forgets the queries and workers. `crash_at` chooses the step: see STEPS.
"""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_streams.hosts.settings import HostSettings
from broker_streams.hosts.spark import progress, shipped
from broker_streams.hosts.spark.query import Query
from broker_streams.hosts.spark.topics import prepared
from broker_streams.hosts.spark.work import Done, Work
from broker_streams.hosts.spark.worker import Worker
from broker_streams.plan.topology import Topology

PLANNED = "the work is planned"
PART_WRITTEN = "a part of the tasks has written"
WRITTEN = "all tasks have written"
DECIDED = "the batch is decided"
PART_COMMITTED = "the batch is decided, and a part of the tasks is committed"
COMMITTED = "the batch is committed"
STEPS = (PLANNED, PART_WRITTEN, WRITTEN, DECIDED, PART_COMMITTED, COMMITTED)
ROWS_MAX = 1_000


class Crash(Exception):
    """The driver and its workers are gone."""


class Driver:
    """A driver, from its start to its end or crash. `zombies` are work that a former driver had planned."""

    def __init__(
        self,
        client: AdminClient,
        topology: Topology,
        config: dict[str, Any],
        chance: random.Random | None = None,
        queries: list[Query] | None = None,
    ) -> None:
        self.client, self.topology, self.config = client, topology, config
        self.settings = HostSettings.of(config)
        self.chance = chance or random.Random(0)
        made = [Query(client, topology, part, self.settings) for part in topology.subtopologies()]
        self.queries = made if queries is None else queries
        self._ends: dict[str, dict[str, Any]] = {}
        self._batch = 0
        data = shipped.packed(shipped.Shipped(topology, config))
        # The task of a batch may be in another process than before.
        self.workers = [Worker(shipped.unpacked(data)) for _ in range(2)]

    async def begin(self) -> None:
        await progress.ensure_topic(self.client)
        topics = await prepared(self.client, self.topology, self.settings)
        for query in self.queries:
            await query.begin(topics)
            self._ends[query.name] = await query.first()

    async def close(self) -> None:
        for worker in self.workers:
            await asyncio.to_thread(worker.close)

    async def batch(self, query: Query, crash_at: str | None = None, rows_max: int = ROWS_MAX) -> bool:
        """Run one batch of a query; returns whether it had work. Raises Crash at the step."""
        start = self._ends[query.name]
        end = await query.latest(start, rows_max)
        if end == start:
            return False
        works = [pickle.loads(each) for each in await query.plan(start, end)]
        self._reach(PLANNED, crash_at)
        results: list[list[bytes]] = []
        for count, work in enumerate(works):
            if count == len(works) // 2:
                self._reach(PART_WRITTEN, crash_at)
            results.append([pickle.dumps(await self.carry_out(work))])
        self._reach(WRITTEN, crash_at)
        if crash_at in (DECIDED, PART_COMMITTED):
            self._crash_in_commit(query, 0 if crash_at == DECIDED else 1)
        await query.commit(self._batch, results)
        self._reach(COMMITTED, crash_at)
        self._batch += 1
        self._ends[query.name] = end
        return True

    async def carry_out(self, work: Work) -> Done:
        return await asyncio.to_thread(self.chance.choice(self.workers).run, work)

    def _reach(self, step: str, crash_at: str | None) -> None:
        if step == crash_at:
            raise Crash(step)

    def _crash_in_commit(self, query: Query, tasks: int) -> None:
        """Crash after the decision, and after so many tasks are committed."""
        right, turns = query._commit_task, iter(range(1_000))

        async def commit_task(done: Done) -> None:
            if next(turns) >= tasks:
                raise Crash(DECIDED)
            await right(done)

        query._commit_task = commit_task  # type: ignore[method-assign]

    async def drain(self) -> int:
        """Run batches until no query has work; returns how many ran."""
        count = 0
        while True:
            moved = [await self.batch(query) for query in self.queries]
            count += sum(moved)
            if not any(moved):
                return count


@asynccontextmanager
async def driver(
    client: AdminClient, topology: Topology, config: dict[str, Any], chance: random.Random | None = None
) -> AsyncIterator[Driver]:
    made = Driver(client, topology, config, chance)
    try:
        await made.begin()
        yield made
    finally:
        await made.close()


async def committed(client: AdminClient, topic: str, partitions: int, decode: Callable[[Any], Any]) -> list[list[Any]]:
    """The committed records of each partition."""
    keys = [TopicPartition(topic, number) for number in range(partitions)]
    ends = (await client.offsets.latest(keys, isolation=Isolation.READ_COMMITTED)).whole()
    found: list[list[Any]] = [[] for _ in keys]
    starts = {key: 0 for key in keys if ends[key] > 0}
    if starts:
        ends = {key: ends[key] for key in starts}
        async with client.records.reader(starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
            async for chunk in reader:
                found[chunk.partition.partition] += [decode(each) for each in chunk.records]
    return found
