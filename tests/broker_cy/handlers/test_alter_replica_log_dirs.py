"""Moves of replicas between the data directories of a whole broker, as clients ask for them and see them."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from broker_cy.controller.rules import directory_of
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics.events import DirectoryFailed, Event, ReplicaMoved
from broker_cy.storage import rooms
from broker_cy.storage.placement import SAMPLE_MS
from broker_cy.wire import messages
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run, until

LONG = "x" * 230
# Only a test that fails waits so long.
PATIENCE_S = 60.0


class TwoDisks(GroupBroker):
    """A broker with the data directories `a` and `b`."""

    def __init__(self, path: Path, **settings: str) -> None:
        self.a, self.b = str(path / "a"), str(path / "b")
        super().__init__(path, {"log.dirs": f"{self.a},{self.b}", **settings})

    async def alter(self, topic: str, path: str, index: int = 0, version: int = 2) -> ErrorCode:
        kind = messages.AlterReplicaLogDirsRequest
        topics = [kind.AlterReplicaLogDirTopic(name=topic, partitions=[index])]
        answer = await self.call(kind(dirs=[kind.AlterReplicaLogDir(path=path, topics=topics)]), version)
        (found,) = answer.results
        assert (found.topic_name, found.partitions[0].partition_index) == (topic, index)
        return ErrorCode(found.partitions[0].error_code)

    async def places(self, topic: str) -> dict[str, list[Any]]:
        """The partitions of a topic by directory, as DescribeLogDirs has them."""
        answer = await self.call(messages.DescribeLogDirsRequest(topics=None), 5)
        return {
            each.log_dir: [part for found in each.topics if found.name == topic for part in found.partitions]
            for each in answer.results
        }

    def other(self, path: str) -> str:
        return self.b if path == self.a else self.a

    def log(self, topic: str, index: int = 0) -> Any:
        return self.server.broker.log_manager.get(topic, index)

    def root(self, topic: str, index: int = 0) -> str:
        return os.path.dirname(str(self.log(topic, index).directory))

    def recorded(self, topic: str, index: int = 0) -> Any:
        found = self.server.broker.image.topics.by_name(topic)
        assert found is not None
        return directory_of(found.partitions[index], 1)

    async def produce(self, topic: str, count: int, index: int = 0) -> None:
        """Batches of one record."""
        partition = self.server.broker.partitions.get(topic, index)
        assert partition is not None
        for _ in range(count):
            await partition.append_records(encode_batch([Record(0, 1_000, b"k", b"v" * 900, [])]), 1)


def test_replica_is_moved_while_it_is_written(tmp_path: Path) -> None:
    """If this fails, a full disk cannot be relieved without stopping its broker; or records are lost on the way."""

    async def work() -> None:
        async with TwoDisks(tmp_path) as broker:
            await broker.prepare("t")
            await broker.produce("t", 50)
            before = broker.root("t")
            target = broker.other(before)
            assert await broker.alter("t", target) == ErrorCode.NONE
            while broker.root("t") != target:
                await broker.produce("t", 3)
            await broker.produce("t", 5)
            end = broker.log("t").log_end_offset
            ids = {each.path: each.directory_id for each in broker.server.broker.log_manager.data_directories}
            assert broker.recorded("t") == ids[target]
            await until(lambda: not os.path.exists(f"{before}/t-0"))
            places = await broker.places("t")
            assert [each.is_future_key for each in places[target] if each.partition_index == 0] == [False]
            assert 0 not in [part.partition_index for part in places[before]]
        async with TwoDisks(tmp_path) as broker:
            await until(lambda: broker.log("t") is not None)
            assert (broker.root("t"), broker.log("t").log_end_offset) == (target, end)

    run(work)


def test_copy_is_described_until_it_is_the_replica(tmp_path: Path) -> None:
    """If this fails, an operator cannot tell how far a move is; kafka-reassign-partitions --verify waits for ever."""

    async def work() -> None:
        async with TwoDisks(tmp_path) as broker:
            await broker.prepare("t")
            await broker.produce("t", 5)
            manager = broker.server.broker.log_manager
            manager.moves.copying_max = 0
            before = broker.root("t")
            target = broker.other(before)
            assert await broker.alter("t", target, version=1) == ErrorCode.NONE
            (copy,) = [part for part in (await broker.places("t"))[target] if part.is_future_key]
            assert (copy.partition_index, copy.partition_size, copy.offset_lag) == (0, 0, 5)
            # Cancelled by a move to the place where it is.
            assert await broker.alter("t", before) == ErrorCode.NONE
            assert not [part for part in (await broker.places("t"))[target] if part.is_future_key]
            assert manager.moves.moves == {}

    run(work)


class NoPartitions:
    """The partitions of a broker without replicas."""

    def get(self, topic: str, index: int) -> None:
        return None


def test_refused_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, kafka-reassign-partitions waits for moves that never begin."""

    async def work() -> None:
        async with TwoDisks(tmp_path) as broker:
            await broker.prepare("t", LONG)
            before = broker.root("t")
            target = broker.other(before)
            # Kafka compares the texts.
            for path in ("/nowhere", "", ".", f"{target}/", f"{target}/../{os.path.basename(target)}"):
                assert await broker.alter("t", path) == ErrorCode.LOG_DIR_NOT_FOUND
            assert await broker.alter(LONG, target) == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert await broker.alter("unknown", target) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert await broker.alter("t", target, 7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            # Another broker has the partition.
            with monkeypatch.context() as patch:
                patch.setattr(broker.server.broker.directory_moves, "_table", NoPartitions())
                assert await broker.alter("t", target) == ErrorCode.REPLICA_NOT_AVAILABLE
            (dead,) = (each for each in broker.server.broker.log_manager.data_directories if each.path == target)
            dead.failure = "it died"
            assert await broker.alter("t", target) == ErrorCode.KAFKA_STORAGE_ERROR
            dead.failure = None
        async with TwoDisks(tmp_path, **{"cordoned.log.dirs": target}) as broker:
            await until(lambda: broker.log("t") is not None)
            assert await broker.alter("t", target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert await broker.alter("unknown", target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    run(work)


@pytest.mark.parametrize("name", ["a", "b"])
def test_new_replica_is_created_where_it_was_asked_for(tmp_path: Path, name: str) -> None:
    """If this fails, a reassignment to a directory of another broker ends on the wrong disk of it."""

    async def work() -> None:
        async with TwoDisks(tmp_path) as broker:
            path = str(tmp_path / name)
            for index in range(2):
                assert await broker.alter("new", path, index) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await broker.prepare("new")
            assert [broker.root("new", index) for index in range(2)] == [path, path]

    run(work)


def test_interrupted_move_goes_on_after_a_restart(tmp_path: Path) -> None:
    """If this fails, a restart ends the moves of a reassignment, which then never completes."""

    async def work() -> None:
        async with TwoDisks(tmp_path) as broker:
            await broker.prepare("t")
            await broker.produce("t", 5)
            before = broker.root("t")
            target = broker.other(before)
            moves = broker.server.broker.log_manager.moves
            moves.bytes_per_s = 0
            assert await broker.alter("t", target) == ErrorCode.NONE
            await until(lambda: any(name.endswith("-future") for name in os.listdir(target)))
            assert broker.root("t") == before
        async with TwoDisks(tmp_path) as broker:
            await until(lambda: broker.log("t") is not None and broker.root("t") == target)
            assert broker.log("t").log_end_offset == 5
            assert not [name for name in os.listdir(target) if name.endswith("-future")]

    run(work)


def test_moves_and_failed_disks_are_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an operator cannot tell afterwards when a disk died, or why a replica is where it is."""

    async def work() -> None:
        async with TwoDisks(tmp_path) as broker:
            await broker.prepare("t")
            await broker.produce("t", 5)
            noted: list[Event] = []
            monkeypatch.setattr(broker.server.broker.events, "note", noted.append)
            before = broker.root("t")
            target = broker.other(before)
            manager = broker.server.broker.log_manager
            manager.moves.copying_max = 0
            await broker.alter("t", target)
            await broker.alter("t", before)
            manager.moves.copying_max = 1
            await broker.alter("t", target)
            await until(lambda: broker.root("t") == target)
            assert noted == [
                ReplicaMoved("t", 0, before, target, state) for state in ("began", "cancelled", "began", "completed")
            ]
            (other,) = (each for each in manager.data_directories if each.path == broker.b)
            manager.failures.fail(other, OSError(errno.EIO, "Input/output error"))
            (failed,) = noted[4:]
            assert isinstance(failed, DirectoryFailed)
            assert (failed.path, "Input/output error" in failed.reason) == (broker.b, True)

    run(work)


def test_the_page_of_metrics_has_a_line_for_each_disk(tmp_path: Path) -> None:
    """If this fails, an alert for a dead disk never fires."""

    async def work() -> None:
        async with TwoDisks(tmp_path, **{"cordoned.log.dirs": str(tmp_path / "a")}) as broker:
            (other,) = (each for each in broker.server.broker.log_manager.data_directories if each.path == broker.b)
            other.failure = "it died"
            lines = (await broker.server.page(None)).decode().splitlines()
            for metric, a, b in (
                ("offline", 0, 1),
                ("cordoned", 1, 0),
                ("arriving_replicas", 0, 0),
                ("unopened_logs", 0, 0),
                ("unchecked_segments", 0, 0),
            ):
                name = f"broker_cy_log_directory_{metric}"
                assert [line for line in lines if line.startswith(name)] == [
                    f'{name}{{directory="{broker.a}"}} {a}',
                    f'{name}{{directory="{broker.b}"}} {b}',
                ]
            other.failure = None

    run(work)


def test_a_disk_that_hangs_is_described_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a disk of the network that does not answer holds the whole broker at the next DescribeLogDirs or
    scrape, or these wait for it, or a stop does.
    """
    answers = threading.Event()
    right = os.statvfs
    hung: list[str] = []

    def statvfs(path: str) -> os.statvfs_result:
        if path in hung:
            answers.wait(PATIENCE_S)
        return right(path)

    async def work() -> None:
        async with TwoDisks(tmp_path) as broker:
            await broker.prepare("t")
            await broker.produce("t", 5)
            request = messages.DescribeLogDirsRequest(topics=None)
            monkeypatch.setattr(os, "statvfs", statvfs)
            before = await broker.call(request, 5)
            (there,) = (each for each in before.results if each.log_dir == broker.root("t"))
            assert there.total_bytes > 0
            assert any(part.partition_size > 0 for each in there.topics for part in each.partitions)
            hung.append(there.log_dir)
            monkeypatch.setattr(rooms, "WAIT_MS", 20)
            for _ in range(5):
                after = await broker.call(request, 5)
                assert [each.error_code for each in after.results] == [0, 0]
                (found,) = (each for each in after.results if each.log_dir == there.log_dir)
                assert (found.topics, found.total_bytes) == (there.topics, there.total_bytes)
                page = (await broker.server.page(None)).decode()
                for each in after.results:
                    line = f'broker_cy_log_directory_total_bytes{{directory="{each.log_dir}"}} {each.total_bytes}'
                    assert line in page.splitlines()
            # The broker serves meanwhile.
            await broker.produce("t", 5)
            assert not answers.is_set()
        answers.set()

    try:
        run(work)
    finally:
        answers.set()


def test_a_removed_directory_of_the_metadata_log_ends_the_node(tmp_path: Path) -> None:
    """If this fails, a broker whose metadata.log.dir was unmounted stays a voter until its next vote or snapshot: it
    acknowledges metadata that no start finds.
    """

    async def work() -> None:
        async with TwoDisks(tmp_path, **{"metadata.log.dir": str(tmp_path / "m")}) as broker:
            inner = broker.server.broker
            shutil.rmtree(tmp_path / "m")
            inner.log_manager.rooms.tick(inner.clock.wall_ms() + SAMPLE_MS)
            async with asyncio.timeout(PATIENCE_S):
                reason = await inner.controller.halted
            assert f"the data directory {tmp_path / 'm'} failed" in reason
            assert [each.failure for each in inner.log_manager.data_directories] == [None, None]

    run(work)
