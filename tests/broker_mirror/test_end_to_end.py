"""The whole mirror between two brokers, as a process: MirrorConnectorsIntegrationBaseTest of Kafka in small."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.produce import Producer
from broker_cy.admin.reader import Reader
from broker_cy.admin.topics import NewTopic
from broker_cy.client.mirror_status import FlowStatus
from broker_cy.launch.processes import run
from broker_cy.wire.records import Record
from tests.broker_mirror.conftest import Clusters
from tests.broker_mirror.mirror_process import STATE_S, MirrorProcess, running_mirror
from tests.support.wait import until

T = TypeVar("T")
TIMEOUT_S = 60.0
# Short intervals, so that a test sees the next turn of each task.
QUICK = {
    "refresh__topics__interval__seconds": "1",
    "refresh__groups__interval__seconds": "1",
    "emit__checkpoints__interval__seconds": "1",
    "sync__group__offsets__enabled": "true",
    "sync__group__offsets__interval__seconds": "1",
}


def both(clusters: Clusters, job: Callable[[AdminClient, AdminClient], Awaitable[T]]) -> T:
    """Run a job with a client of A and one of B."""

    async def inner() -> T:
        a, b = (AdminClient(each.bootstrap, timeout_s=TIMEOUT_S) for each in clusters)
        async with a, b:
            return await job(a, b)

    return asyncio.run(inner())


async def send(client: AdminClient, topic: str, values: range) -> None:
    # Records of 1970 would be deleted by retention.
    now_ms = int(time.time() * 1000)
    records = [Record(timestamp=now_ms, key=b"%d" % each, value=b"value-%d" % each) for each in values]
    await Producer(client.caller).send(topic, records, partition=0)


async def read(client: AdminClient, topic: str) -> list[bytes]:
    """Return the committed values of partition 0 in their order."""
    key = TopicPartition(topic, 0)
    ends = (await client.offsets.latest([key])).whole()
    found: list[bytes] = []
    async with Reader(client.caller, {key: 0}, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
        async for chunk in reader:
            found += [each.value or b"" for each in chunk.records]
    return found


def values(numbers: range) -> list[bytes]:
    return [b"value-%d" % each for each in numbers]


def has_copied(records: int) -> Callable[[FlowStatus], bool]:
    def condition(flow: FlowStatus) -> bool:
        # Not the counts, which begin again if this process loses its share for a moment on a busy machine.
        return sum(each.source_position or 0 for each in flow.partitions) >= records and flow.lag_records == 0

    return condition


def test_records_groups_and_topics_are_copied(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, the mirror does not do what it is for."""
    properties = clusters.properties(topics="orders", **QUICK)

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("orders", 2, 1)])).whole()
        await send(a, "orders", range(100))
        (await a.group_offsets.alter("billing", {TopicPartition("orders", 0): 70})).whole()

    both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror:
        mirror.until("A->B", has_copied(100), "the records to be copied")
        mirror.until("A->B", lambda flow: flow.groups == {"billing": 1}, "the group to have a checkpoint")

        async def grow(a: AdminClient, b: AdminClient) -> None:
            assert await read(b, "A.orders") == values(range(100))
            (await a.topics.add_partitions({"orders": 3})).whole()
            await send(a, "orders", range(100, 120))

        both(clusters, grow)
        mirror.until("A->B", has_copied(120), "the new records to be copied")
        mirror.until("A->B", lambda flow: len(flow.partitions) == 3, "the new partition to be copied")

        async def committed(_: AdminClient, b: AdminClient) -> bool:
            found = (await b.group_offsets.fetch(["billing"])).whole()["billing"]
            return bool(found)

        until(lambda: both(clusters, committed), "the group to have an offset in the target", STATE_S)

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert await read(b, "A.orders") == values(range(120))
        (topic,) = (await b.topics.describe(["A.orders"])).whole().values()
        assert len(topic.partitions) == 3
        # The record at the committed offset is the same on both sides.
        (offset,) = (await b.group_offsets.fetch(["billing"])).whole()["billing"].values()
        after: list[bytes] = []
        key = TopicPartition("A.orders", 0)
        ends = (await b.offsets.latest([key])).whole()
        async with Reader(b.caller, {key: offset.offset}, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
            async for chunk in reader:
                after += [each.value or b"" for each in chunk.records]
        assert after == values(range(70, 120))

    both(clusters, check)

    async def write_after(a: AdminClient, _: AdminClient) -> None:
        await send(a, "orders", range(1))
        producer = a.transactional_producer("aborted")
        await producer.begin()
        await producer.send("orders", [Record(timestamp=int(time.time() * 1000), value=b"aborted")], partition=1)
        await producer.abort()

    async def has_marker(a: AdminClient, _: AdminClient) -> bool:
        key = TopicPartition("orders", 1)
        stable = (await a.offsets.latest([key], isolation=Isolation.READ_COMMITTED)).whole()
        return stable[key] == 2

    both(clusters, write_after)
    until(lambda: both(clusters, has_marker), "the marker of the aborted transaction")
    found = run([sys.executable, "-m", "broker_mirror", "lag", str(tmp_path / "mirror.properties"), "--json"])
    rows = json.loads(found.stdout)
    # Nothing is left to copy of an aborted record and its marker.
    assert [(each["partition"], each["lag"]) for each in rows] == [(0, 1), (1, 0), (2, 0)]


@pytest.mark.full
def test_two_clusters_that_copy_from_each_other_have_no_loop(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, records go round in a circle until both clusters are full."""
    properties = clusters.properties(B_to_A__enabled="true", topics=r"(.*\\.)?both", **QUICK)

    async def begin(a: AdminClient, b: AdminClient) -> None:
        for client, numbers in ((a, range(10)), (b, range(10, 20))):
            (await client.topics.create([NewTopic("both", 1, 1)])).whole()
            await send(client, "both", numbers)

    both(clusters, begin)
    with running_mirror(properties, tmp_path) as mirror:
        for name in ("A->B", "B->A"):
            mirror.until(name, has_copied(10), f"{name} to copy")
        mirror.until("A->B", lambda flow: "B.both" in flow.loops, "A->B to see the copy of its own topic")
        mirror.until("B->A", lambda flow: "A.both" in flow.loops, "B->A to see the copy of its own topic")

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert await read(b, "A.both") == values(range(10))
        assert await read(a, "B.both") == values(range(10, 20))
        assert not [name for name in (*await a.topics.names(), *await b.topics.names()) if name.count(".both") > 1]
        assert "A.B.both" not in await b.topics.names()

    both(clusters, check)


@pytest.mark.full
def test_a_killed_process_copies_no_record_twice(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, a restart of the mirror copies records again."""
    properties = clusters.properties(topics="kills", **QUICK)

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("kills", 1, 1)])).whole()
        await send(a, "kills", range(1000))

    both(clusters, begin)
    killed = MirrorProcess(properties, tmp_path, "killed")
    try:
        killed.wait().until("A->B", has_copied(1000), "the records to be copied")

        async def more(a: AdminClient, b: AdminClient) -> None:
            await send(a, "kills", range(1000, 3000))

        both(clusters, more)
    finally:
        killed.kill()
    with running_mirror(properties, tmp_path, "next") as other:
        other.until("A->B", lambda flow: bool(flow.partitions) and flow.lag_records == 0, "the rest to be copied")

    async def check(a: AdminClient, b: AdminClient) -> None:
        assert await read(b, "A.kills") == values(range(3000))

    both(clusters, check)


@pytest.mark.full
def test_partitions_of_a_killed_process_go_to_the_others(clusters: Clusters, tmp_path: Path) -> None:
    """If this fails, the partitions of a failed process stand still, or its records are copied twice."""
    properties = clusters.properties(topics="shared", **QUICK)

    async def begin(a: AdminClient, b: AdminClient) -> None:
        (await a.topics.create([NewTopic("shared", 4, 1)])).whole()

    async def more(a: AdminClient, b: AdminClient) -> None:
        producer = Producer(a.caller)
        for partition in range(4):
            now_ms = int(time.time() * 1000)
            records = [Record(timestamp=now_ms, key=None, value=b"%d" % each) for each in range(500)]
            await producer.send("shared", records, partition=partition)

    both(clusters, begin)
    both(clusters, more)
    killed = MirrorProcess(properties, tmp_path, "killed")
    try:
        killed.wait().until("A->B", lambda flow: len(flow.partitions) == 4, "the first process to have all partitions")
        with running_mirror(properties, tmp_path, "other") as other:
            for each in (killed, other):
                each.until("A->B", lambda flow: len(flow.partitions) == 2, "both processes to have two partitions")
            both(clusters, more)
            killed.kill()
            other.until("A->B", lambda flow: flow.share == "1 of 1" and has_copied(4000)(flow), "all to be copied")
    finally:
        killed.kill()

    async def check(a: AdminClient, b: AdminClient) -> None:
        for partition in range(4):
            key = TopicPartition("A.shared", partition)
            ends = (await b.offsets.latest([key])).whole()
            found: list[bytes] = []
            async with Reader(b.caller, {key: 0}, ends=ends, isolation=Isolation.READ_COMMITTED) as reader:
                async for chunk in reader:
                    found += [each.value or b"" for each in chunk.records]
            assert found == [b"%d" % each for each in range(500)] * 2

    both(clusters, check)
