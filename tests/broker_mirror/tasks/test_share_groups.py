"""The start offsets of share groups in the target, with brokers of ours and Apache Kafka's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record
from broker_mirror.formats.offset_syncs import OffsetSync
from broker_mirror.tasks.host import FlowTasks
from tests.broker_mirror.copy.clusters import flow_of
from tests.broker_mirror.copy.conftest import PAIRS, both

HERE, THERE = TopicPartition("work", 0), TopicPartition("A.work", 0)


@pytest.fixture(scope="module", params=PAIRS)
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of two clusters of one broker."""
    with both(request.param, tmp_path_factory.mktemp("brokers"), {}) as addresses:
        yield addresses


async def start_of(client: AdminClient) -> int | None:
    return (await client.share_offsets.describe(["workers"])).whole()["workers"][THERE].start


def test_start_offsets_are_translated(brokers: tuple[str, str]) -> None:
    """If this fails, a share group delivers all records again after a failover."""

    async def job() -> None:
        flow = flow_of(*brokers, topics="work", replication_factor="1", checkpoints_topic_replication_factor="1")
        source, target = (AdminClient(each, timeout_s=60) for each in brokers)
        async with source, target, FlowTasks(flow, source, target) as tasks:
            (await source.topics.create([NewTopic("work", 1, 1)])).whole()
            now_ms = int(time.time() * 1000)
            records = [Record(timestamp=now_ms, value=b"%d" % step) for step in range(20)]
            await source.records.producer().send("work", records)
            await tasks.refresh_topics(changes=True)
            await target.records.producer().send("A.work", records)
            (await source.share_offsets.alter("workers", {HERE: 7})).whole()
            sync = OffsetSync("work", 0, 9, 4, 5)
            record = Record(timestamp=1, key=sync.key(), value=sync.value(), headers=sync.headers())
            await tasks.refresh_groups()
            await tasks.sync_group_offsets()
            await source.records.producer().send_batch(TopicPartition("mm2-offset-syncs.B.internal", 0), [record])
            await tasks.refresh_groups()
            await tasks.sync_group_offsets()
            assert await start_of(target) == 2
            (await source.share_offsets.alter("workers", {HERE: 10})).whole()
            await tasks.sync_group_offsets()
            assert await start_of(target) == 5
            # Records that are acknowledged are not delivered again.
            (await source.share_offsets.alter("workers", {HERE: 6})).whole()
            await tasks.sync_group_offsets()
            assert await start_of(target) == 5
            assert not any(tasks.problems.values())

    asyncio.run(job())
