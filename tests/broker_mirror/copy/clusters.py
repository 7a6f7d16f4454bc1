"""Two brokers with a copy flow between them, and the records on both sides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record
from broker_mirror.config import parse_config
from broker_mirror.copy.host import CopyFlow
from broker_mirror.copy.status import PartitionStatus
from broker_mirror.flows import Flow, flows_of

WAIT_S = 120.0


def flow_of(source: str, target: str, **settings: str) -> Flow:
    """The flow A->B of two addresses; `settings` have _ for dots and __ for hyphens."""
    given = {
        "clusters": "A,B",
        "A.bootstrap.servers": source,
        "B.bootstrap.servers": target,
        "A->B.enabled": "true",
        "B->A.emit.heartbeats.enabled": "false",
        "offset.storage.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        **{name.replace("__", "-").replace("_", "."): text for name, text in settings.items()},
    }
    (flow,) = [each for each in flows_of(parse_config(given, "test")) if each.copies]
    return flow


class Clusters:
    """Clients of both clusters."""

    def __init__(self, flow: Flow, source: AdminClient, target: AdminClient) -> None:
        self.flow, self.source, self.target = flow, source, target

    def copy(self, owner: int = 0) -> CopyFlow:
        return CopyFlow(self.flow, self.source, self.target, owner=owner)

    async def copied(self, copy: CopyFlow, *topics: str) -> None:
        """Wait until the copies of these topics have all that the source has."""

        async def is_behind() -> str | None:
            for topic in topics:
                # Not the last stable offset: the markers of the last transactions may be on their way.
                ends = await ends_of(self.source, topic, Isolation.READ_UNCOMMITTED)
                status = {(each.topic, each.partition): each for each in copy.status().partitions}
                for key, end in ends.items():
                    each = status.get((key.topic, key.partition))
                    if each is None or (each.source_position or 0) < end:
                        return f"{key} to {end}: {each}"
            return None

        await until(is_behind, copy)


Job = Callable[[Clusters], Awaitable[None]]


async def until(is_behind: Callable[[], object], copy: CopyFlow) -> None:
    """Wait until `is_behind` returns, or its coroutine, None."""
    behind: object = "not asked"
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                behind = is_behind()
                if asyncio.iscoroutine(behind):
                    behind = await behind
                if behind is None:
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{behind}; {copy.status()}") from None


@asynccontextmanager
async def clusters(flow: Flow, source: str, target: str) -> AsyncIterator[Clusters]:
    async with AdminClient(source, timeout_s=60) as first, AdminClient(target, timeout_s=60) as second:
        yield Clusters(flow, first, second)


async def ends_of(
    client: AdminClient, topic: str, isolation: Isolation = Isolation.READ_COMMITTED
) -> dict[TopicPartition, int]:
    found, _ = await client.caller.metadata.refresh([topic], client.caller.deadline())
    keys = [TopicPartition(topic, part.partition) for part in found[topic].partitions]
    return (await client.offsets.latest(keys, isolation=isolation)).whole()


async def records_of(client: AdminClient, topic: str) -> dict[int, list[Record]]:
    """The committed records of each partition, to its present end."""
    ends = await ends_of(client, topic)
    starts = (await client.offsets.earliest(ends)).whole()
    found: dict[int, list[Record]] = {key.partition: [] for key in ends}
    async with Reader(client.caller, starts, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            assert not chunk.damage, chunk.damage
            found[chunk.partition.partition] += chunk.records
    return found


def plain(records: Sequence[Record]) -> list[tuple[object, ...]]:
    """The records without their offsets."""
    return [(each.timestamp, each.key, each.value, each.headers) for each in records]


def run(brokers: tuple[str, str], job: Job, **settings: str) -> None:
    async def inside() -> None:
        async with clusters(flow_of(*brokers, **settings), *brokers) as pair:
            await job(pair)

    asyncio.run(inside())


async def create(pair: Clusters, topic: str, partitions: int = 2, remote: int | None = None) -> list[TopicPartition]:
    """Create a topic and its remote topic; return the partitions of the source."""
    (await pair.source.topics.create([NewTopic(topic, partitions, 1)])).whole()
    name = pair.flow.remote_topic(topic)
    if name != topic and remote != 0:
        (await pair.target.topics.create([NewTopic(name, remote or partitions, 1)])).whole()
    return [TopicPartition(topic, index) for index in range(partitions)]


async def fill(pair: Clusters, topic: str, first: int = 0, count: int = 200) -> None:
    """Produce with each codec, in transactions too; some are aborted."""
    for step, codec in enumerate(Codec):
        producer = pair.source.transactional_producer(f"{topic}-{step}", codec=codec)
        for part in range(2):
            records = [
                Record(
                    timestamp=1_000 + at, key=b"k%d" % at, value=b"%d-%d-%d" % (step, part, at), headers=(("h", b"v"),)
                )
                for at in range(first, first + count // 5)
            ]
            await producer.begin()
            await producer.send(topic, records)
            if part and step % 2:
                await producer.abort()
            else:
                await producer.commit()
            await pair.source.records.producer(codec=codec).send(topic, records[:7])


def partition_of(status: tuple[PartitionStatus, ...], key: TopicPartition) -> PartitionStatus:
    """The status of a partition; without any facts before the flow has it."""
    unknown = PartitionStatus(key.topic, key.partition, "")
    return next((each for each in status if (each.topic, each.partition) == key), unknown)
