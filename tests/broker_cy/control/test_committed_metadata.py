"""A node that does not lead the metadata quorum applies committed records from its own log."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.outgoing import MACHINE
from broker_cy.control.controller_service import ControllerService
from broker_cy.control.image import committed_metadata
from broker_cy.control.image.committed_metadata import CommittedMetadata
from broker_cy.control.image.metadata_snapshots import SnapshotKeeper
from broker_cy.core.clock import ManualClock
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.metadata import framing
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.snapshot import KRaftState, SnapshotId
from broker_cy.quorum.election_state import QuorumError
from broker_cy.storage import disk
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories
from broker_cy.storage.settings import StorageSettings
from broker_cy.wire import messages
from tests.broker_cy.control.test_controller_service import create
from tests.broker_cy.handlers.metadata_broker import LISTENERS, MetadataBroker, run, until


def test_an_image_that_follows_is_that_of_the_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker that does not lead the quorum serves other topics than the cluster has, or does not pass
    changes on to its partitions.
    """
    monkeypatch.setattr(committed_metadata, "REPLAY_BYTES", 300)

    async def work() -> None:
        async with MetadataBroker(tmp_path / "leader") as broker:
            for name in ("a", "b", "c"):
                await broker.controller.submit(create(name, partitions=3))
            wanted = broker.image.copy()
        shutil.copytree(tmp_path / "leader", tmp_path / "follower")
        ids = MACHINE_RANDOMNESS.kafka_uuid
        directories = open_directories([str(tmp_path / "follower")], 1, lambda: "", ids)
        logs = LogManager(directories, StorageSettings(), InlineJobs())
        files = MetadataBroker(tmp_path / "follower")
        files.directories = directories
        opened = ControllerService.open(
            files.config, files.clock, asyncio.get_running_loop(), logs, MACHINE_RANDOMNESS, MACHINE
        )._files
        heard: list[str] = []
        pieces: list[int] = []
        damage: list[str] = []
        follower = CommittedMetadata(
            Loader(),
            opened,
            asyncio.get_running_loop(),
            [lambda delta, image: heard.extend(topic.after.name for topic in delta.topics if topic.after is not None)],
            lambda image, size: pieces.append(size),
            damage.append,
        )
        follower.publish()
        follower.advance(wanted.offset + 1)
        await until(lambda: follower.end_offset > wanted.offset or bool(damage))
        assert not damage
        assert {topic.name: topic.partitions for topic in follower.image.topics} == {
            topic.name: topic.partitions for topic in wanted.topics
        }
        assert dict(follower.image.brokers) == dict(wanted.brokers)
        assert (follower.image.offset, follower.image.epoch) == (wanted.offset, wanted.epoch)
        assert sorted(set(heard)) == ["a", "b", "c"]
        assert len(pieces) > 1
        files.close()

    run(work)


def test_a_transaction_takes_effect_when_it_ends() -> None:
    """If this fails, a broker would serve half of what a controller wrote as a whole (KIP-868)."""
    records = [
        messages.BeginTransactionRecord(name="t"),
        messages.FeatureLevelRecord(name="metadata.version", feature_level=20),
        messages.EndTransactionRecord(),
        messages.BeginTransactionRecord(name="u"),
        messages.FeatureLevelRecord(name="metadata.version", feature_level=21),
        messages.AbortTransactionRecord(reason="no"),
    ]
    loader = Loader()
    levels = []
    for offset, record in enumerate(records):
        delta = loader.follow(framing.data_batch([VersionedRecord(record)], offset, 1, 0))
        levels.append((loader.image.features.metadata_version, delta.features, loader.in_transaction))
    assert levels == [
        (0, [], True),
        (0, [], True),
        (20, ["metadata.version"], False),
        (20, [], True),
        (20, [], True),
        (20, [], False),
    ]


EACH_RECORD = {"metadata.log.max.record.bytes.between.snapshots": "1"}


class Kept:
    """Files of a metadata log that are lists."""

    def __init__(self) -> None:
        self.snapshots_written: dict[SnapshotId, bytes] = {}

    def write_snapshot(self, snapshot_id: SnapshotId, parts: list[bytes]) -> None:
        self.snapshots_written[snapshot_id] = b"".join(parts)

    def snapshots(self) -> list[SnapshotId]:
        """Nothing is superfluous."""
        return []


def test_a_snapshot_and_the_log_behind_it_are_the_whole_log() -> None:
    """If this fails, a snapshot that ends within a metadata transaction lacks its records, and the node that starts
    from it does not understand the end of the transaction (KAFKA-17713).
    """
    names = iter(f"f{number}" for number in range(100))

    def feature() -> Any:
        return messages.FeatureLevelRecord(name=next(names), feature_level=1)

    def begin() -> Any:
        return messages.BeginTransactionRecord(name="t")

    ended = [[feature(), begin(), feature()], [feature()], [messages.EndTransactionRecord(), feature()]]
    aborted = [[begin(), feature()], [messages.AbortTransactionRecord(reason="no")], [feature()]]
    log: list[bytes] = []
    offset = 0
    for records in [[feature()], *ended, *aborted, [begin()], [feature(), messages.EndTransactionRecord()]]:
        log.append(framing.data_batch([VersionedRecord(record) for record in records], offset, 1, 0))
        offset += len(records)

    async def work() -> None:
        loop, loader, files = asyncio.get_running_loop(), Loader(), Kept()
        written: list[SnapshotId] = []
        keeper = SnapshotKeeper(
            config=MetadataBroker(Path("/nowhere"), EACH_RECORD).config,
            clock=ManualClock(),
            loop=loop,
            executor=None,
            files=files,  # type: ignore[arg-type]
            kraft=lambda end_offset: KRaftState(),
            in_transaction=lambda: loader.in_transaction,
            on_written=written.append,
            bytes_since_snapshot=0,
        )
        for batch in log:
            loader.follow(batch)
            keeper.committed(loader.image, len(batch))
            await until(lambda: keeper._task is None)
        await keeper.stop()
        assert len(written) > 4
        for snapshot_id, content in files.snapshots_written.items():
            again = Loader()
            again.load_snapshot(content, snapshot_id)
            for batch in log:
                again.load_log(batch)
            assert again.image.features.levels() == loader.image.features.levels(), snapshot_id
        assert "f1" in loader.image.features.levels()

    run(work)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_leader_that_does_not_stay_reads_how_a_transaction_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """If this fails, a node that led for a moment cannot apply the record with which the next leader aborts the
    transaction of an earlier one, and ends.
    """

    def fail() -> None:
        raise OSError(5, "Input/output error")

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            end = broker.image.offset + 1
            files = broker.controller._files
            begun = [VersionedRecord(messages.BeginTransactionRecord(name="of an earlier leader"))]
            # The heartbeat of the stop would follow.
            broker.controller._leadership.stop("test")
            files.append(framing.data_batch(begun, end, 1, 0), 0)
            files.begin_sync()()
        broker = MetadataBroker(tmp_path).open()
        broker.controller.load()
        with monkeypatch.context() as patch:
            if not is_committed:
                patch.setattr(broker.controller._files, "begin_sync", lambda: fail)
            with suppress(QuorumError):
                await broker.controller.start(LISTENERS)
        committed = broker.controller._committed
        assert committed.in_transaction is not is_committed
        await broker.controller.stop()
        broker.close()
        async with MetadataBroker(tmp_path) as broker:
            assert not broker.controller._committed.in_transaction

    run(work)


def test_records_that_cannot_be_applied_are_reported(tmp_path: Path) -> None:
    """If this fails, a broker with a damaged log continues with metadata that no other node has."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            loader = Loader()
            damage: list[str] = []

            class Damaged:
                directory = "log"

                def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
                    return b"\0" * 90

            files: Any = Damaged()
            loop = asyncio.get_running_loop()
            follower = CommittedMetadata(loader, files, loop, [], lambda *_: None, damage.append)
            follower.advance(broker.image.offset + 1)
            assert len(damage) == 1
            assert damage[0].startswith("log: the records from offset 0 on: batch at byte 0")
            assert loader.image.offset == -1

    run(work)


def test_committed_records_that_are_not_in_memory_are_read_by_a_worker(tmp_path: Path) -> None:
    """If this fails, the event loop of a broker that starts again waits for the disk while it applies the metadata log,
    or never applies it.
    """

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            loop, damage = asyncio.get_running_loop(), list[str]()
            files: Any = broker.controller._files
            follower = CommittedMetadata(Loader(), files, loop, [], lambda *_: None, damage.append)
            disk.set_read_refusals(1)
            try:
                follower.advance(broker.image.offset + 1)
                assert follower.image.offset == -1
                follower.advance(broker.image.offset + 1)
                await until(lambda: follower.image.offset == broker.image.offset)
                # If the node stops in the meantime, nothing more is applied.
                stopped = CommittedMetadata(Loader(), files, loop, [], lambda *_: None, damage.append)
                disk.set_read_refusals(1)
                stopped.advance(broker.image.offset + 1)
                reading = stopped._replaying
                assert reading is not None
                stopped.stop()
                await until(lambda: reading.cancelled())
                assert stopped.image.offset == -1
            finally:
                disk.set_read_refusals(0)
            assert not damage

    run(work)
