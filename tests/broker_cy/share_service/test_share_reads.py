"""The reads of share fetches: committed records, data that left the page cache, and partitions with another leader."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.replica.partition import Partition
from broker_cy.share_service.inspection import most_in_flight, views
from broker_cy.storage import page_cache
from broker_cy.telemetry.metrics_page import render
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.coordinator_services.group_broker import run, until
from tests.broker_cy.share_service.share_broker import ACCEPT, NONE, RELEASE, Range, ShareBroker

WAIT_MS = 20_000


def partition_of(broker: ShareBroker) -> Partition:
    partition = broker.server.broker.partitions.get("t", 0)
    assert partition is not None
    return partition


async def transact(partition: Partition, producer_id: int, count: int) -> None:
    batch = encode_batch(
        [Record(timestamp=0, value=b"v")] * count,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    await partition.append_transactional(batch, 0, None)


async def end(partition: Partition, producer_id: int, *, commit: bool) -> None:
    await partition.append_marker(producer_id, 1, 0, commit, 0)


@pytest.mark.parametrize("is_committed", [False, True])
def test_aborted_records_are_not_delivered_to_a_group_that_reads_committed_ones(
    tmp_path: Path, is_committed: bool
) -> None:
    """If this fails, a share group processes records of aborted transactions, or of open ones."""

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            topic = await broker.topic()
            if is_committed:
                await broker.configure_group("g", "share.isolation.level", "read_committed")
            broker.server._core.verifies = False
            partition = partition_of(broker)
            await transact(partition, 7, 2)  # 0 and 1, aborted by 4
            await transact(partition, 8, 2)  # 2 and 3, committed by 5
            await end(partition, 7, commit=False)
            await end(partition, 8, commit=True)
            await transact(partition, 9, 3)  # 6 to 8, open
            a = await broker.consumer("a")
            found = await a.fetch(topic, wait_ms=WAIT_MS, batch_size=1)
            if not is_committed:
                assert (found[0].first, found[-1].last) == (0, 8)
                return
            offsets = [offset for each in found for offset in range(each.first, each.last + 1)]
            assert offsets == [2, 3, 4, 5]
            assert a.offsets() == [2, 3, 4, 5], "records of aborted transactions are not sent"
            assert await a.acknowledge(topic, (2, 5, [ACCEPT])) == NONE
            (share,) = broker.shares()
            assert (share.start_offset, share.archived_aborted) == (6, 2)
            waiting = asyncio.create_task(a.fetch(wait_ms=WAIT_MS, batch_size=1))
            await until(lambda: broker.is_waiting("g"))
            await broker.produce(1)
            assert not waiting.done()
            await end(partition, 9, commit=False)
            assert [(each.first, each.last) for each in await waiting][-1] == (10, 10)

    run(work)


class CountingExecutor(ThreadPoolExecutor):
    """One worker; counts its jobs by the function's name."""

    def __init__(self) -> None:
        super().__init__(1)
        self.calls: list[str] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        self.calls.append(function.__name__)
        return super().submit(function, *arguments, **named)


def evict(directory: Path) -> None:
    """Evict the files of a log from memory. Skips the test where files stay in memory, as on a tmpfs."""
    for path in directory.glob("*.log"):
        fd = os.open(path, os.O_RDONLY)
        try:
            for _ in range(1000):
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                if not any(page_cache.cached(fd, at, 1) for at in range(0, os.fstat(fd).st_size, 4096)):
                    break
            else:
                pytest.skip(f"{path} stays in memory")
        finally:
            os.close(fd)


def test_records_that_left_memory_are_read_by_a_worker(tmp_path: Path) -> None:
    """If this fails, a share consumer with old records stalls all other clients, or gets nothing."""

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            topic = await broker.topic()
            await broker.produce(1, batches=50, size=20_000)
            worker = broker.share.cold_reader = CountingExecutor()
            evict(tmp_path / "t-0")
            a = await broker.consumer("a")
            found = await a.fetch(topic, wait_ms=WAIT_MS, batch_size=100)
            assert (found[0].first, found[-1].last) == (0, 49)
            assert a.offsets() == list(range(50))
            assert "warm_path" in worker.calls, "headers of batches"
            assert "warm" in worker.calls, "records"
            worker.shutdown()

    run(work)


def test_segments_are_checked_before_their_first_use(tmp_path: Path) -> None:
    """If this fails, a share consumer gets records that were damaged while the broker was stopped."""

    async def before() -> None:
        async with ShareBroker(tmp_path) as broker:
            await broker.topic()
            await broker.produce(1, batches=40, size=200_000)

    run(before)
    (segment,) = tmp_path.glob("t-0/*.log")
    with segment.open("r+b") as file:
        file.seek(100_000)
        file.write(b"w")

    async def after() -> None:
        async with ShareBroker(tmp_path) as broker:
            found = broker.server.broker.image.topics.by_name("t")
            assert found is not None
            a = await broker.consumer("a")
            await a.fetch(found.topic_id, wait_ms=WAIT_MS)
            assert a.part(0).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run(after)


def test_a_partition_with_another_leader_is_refused(tmp_path: Path) -> None:
    """If this fails, a share consumer stays at a broker that no longer leads, and two brokers give out one record."""

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            topic = await broker.topic()
            a = await broker.consumer("a")
            waiting = asyncio.create_task(a.fetch(topic, wait_ms=WAIT_MS))
            await until(lambda: broker.is_waiting("g") and all(share.is_active for share in broker.shares()))
            (share,) = broker.shares()
            # As for a partition that moved: the metadata know it, and this broker has it no longer.
            broker.server.broker.partitions.remove("t", 0)
            broker.share.lost_directory()
            await waiting
            part = a.part(0)
            assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, 0)
            (node,) = a.last.node_endpoints
            assert (node.node_id, node.port) == (1, broker.server.listeners[0].port)
            assert share.status_name == "FENCED"
            assert await a.acknowledge(topic, (0, 0, [ACCEPT])) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(work)


def test_a_deleted_topic_ends_its_share_partitions(tmp_path: Path) -> None:
    """If this fails, a fetch waits for a topic that is gone."""

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            topic = await broker.topic()
            a = await broker.consumer("a")
            waiting = asyncio.create_task(a.fetch(topic, wait_ms=WAIT_MS))
            await until(lambda: broker.is_waiting("g"))
            await broker.delete("t")
            await waiting
            assert a.part(0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert list(broker.share.table) == []

    run(work)


def test_deleted_records_are_skipped(tmp_path: Path) -> None:
    """If this fails, a group that is behind the start of the log gets an error, or waits for ever."""

    async def work() -> None:
        async with ShareBroker(tmp_path) as broker:
            topic = await broker.topic()
            await broker.produce(2, batches=5)
            a = await broker.consumer("a")
            assert await a.fetch(topic, wait_ms=WAIT_MS, max_records=2) == [Range(0, 1, 1)]
            partition = partition_of(broker)
            broker.server._delete_before(partition, 6)
            assert await a.fetch(batch_size=1) == [Range(6, 7, 1), Range(8, 9, 1)]
            assert await a.acknowledge(topic, (0, 1, [RELEASE]), (6, 9, [ACCEPT])) == NONE
            (share,) = broker.shares()
            assert (share.archived_missing, share.archived_aborted) == (0, 0), "they were locked, or not in flight"
            # As in Kafka, the deleted records are locked until their locks end.
            await until(lambda: share.start_offset == 10)

    run(work)


def test_records_in_flight_can_be_seen(tmp_path: Path) -> None:
    """If this fails, operators do not see who holds the records that a group does not finish."""

    async def work() -> None:
        async with ShareBroker(tmp_path, {"group.share.record.lock.duration.ms": "60000"}) as broker:
            topic = await broker.topic()
            await broker.produce(4)
            a = await broker.consumer("a")
            await a.fetch(topic, wait_ms=WAIT_MS)
            assert await a.acknowledge(topic, (1, 1, [RELEASE])) == NONE
            (view,) = views(broker.share, "g")
            assert (view.key.group_id, view.status, view.start_offset, view.end_offset) == ("g", "ACTIVE", 0, 3)
            held = [(each[:2], each.state, each.deliveries, each.member_id) for each in view.in_flight]
            assert held == [((0, 0), "acquired", 1, "a"), ((1, 1), "available", 1, None), ((2, 3), "acquired", 1, "a")]
            left_ms = [run.lock_left_ms for run in view.in_flight]
            assert left_ms[1] is None
            assert left_ms[0] is not None
            assert 50_000 < left_ms[0] <= 60_000
            assert most_in_flight(broker.share, 10) == [(view.key, "t", 4)]
            page = (await render(broker.server.broker, broker.server._core, broker.server._watch)).decode()
            assert 'broker_cy_share_in_flight_records{group="g",topic="t",partition="0"} 4' in page
            # They were acquired together.
            assert 'broker_cy_share_in_flight_batches{group="g",topic="t",partition="0"} 1' in page
            assert 'broker_cy_share_acknowledged_records_total{type="release"} 1' in page
            assert "broker_cy_share_delivered_records_total 4" in page
            # The share coordinator of this broker wrote the release.
            assert "broker_cy_share_state_write_seconds_count 1" in page
            assert "broker_cy_share_partition_load_seconds_count 1" in page
            assert "broker_cy_share_partition_load_seconds_sum 0.0\n" not in page

    run(work)
