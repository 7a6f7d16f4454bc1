"""The controller service: durable before it answers, the same after a restart, and its reaction to a failing disk.

The file is long because all its tests start, stop and damage the same node.
"""

from __future__ import annotations

import asyncio
import errno
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.launch.nodes import free_ports
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.controller.topic_ops import DeleteTopics, TopicChoice
from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata import snapshot
from broker_cy.metadata.image import ImageDelta, MetadataImage
from broker_cy.metadata.records import MetadataLogError
from broker_cy.metadata.snapshot import SnapshotId
from broker_cy.quorum.election_state import QuorumError
from broker_cy.storage import disk, log_deletion
from broker_cy.wire import messages
from tests.broker_cy.coordinator_services.group_broker import GroupBroker
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, run, until
from tests.sim.world.directories import format_directory
from tests.support.images import topic_in

FIXTURE = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1" / "logdir"


def create(*names: str, partitions: int = 1) -> CreateTopics:
    topic = messages.CreateTopicsRequest.CreatableTopic
    topics = [topic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopics(messages.CreateTopicsRequest(topics=topics))


def metadata(path: Path, name: str = "") -> Path:
    return path / "__cluster_metadata-0" / name


def begin(path: Path) -> None:
    """A formatted data directory whose metadata log was never written."""
    broker = MetadataBroker(path)

    async def work() -> None:
        broker.open().close()

    run(work)


def snapshots(path: Path) -> list[SnapshotId]:
    return sorted(filter(None, (SnapshotId.of_file(file.name) for file in metadata(path).iterdir())))


def test_a_new_directory(tmp_path: Path) -> None:
    """If this fails, a new directory would lack a file that Kafka's tools and Kafka itself need."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            assert broker.controller.epoch == 1
            assert broker.controller.high_watermark == broker.image.offset + 1
            assert broker.controller.broker_epoch == broker.image.brokers[1].epoch
            assert not broker.image.brokers[1].fenced
            assert broker.image.brokers[1].rack == "r1"
        assert (tmp_path / "bootstrap.checkpoint").exists()
        state = json.loads(metadata(tmp_path, "quorum-state").read_text())
        assert (state["leaderId"], state["leaderEpoch"], state["currentVoters"]) == (1, 1, [{"voterId": 1}])

    run(work)


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    """If this fails, a topic whose creation was acknowledged would be lost."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            replies = await asyncio.gather(*(broker.controller.submit(create(f"t{i}")) for i in range(20)))
            assert all(reply.topics[0].error_code == 0 for reply in replies)
            ids = [await broker.controller.next_producer_id() for _ in range(3)]
            names = sorted(topic.name for topic in broker.image.topics)
        async with MetadataBroker(tmp_path) as broker:
            assert sorted(topic.name for topic in broker.image.topics) == names
            assert broker.controller.epoch == 2
            # Subscribers get everything at the start, and then the leaders of the unfenced broker.
            assert [len(change.topics) for change in broker.changes] == [20, 20]
            assert await broker.controller.next_producer_id() not in ids

    run(work)


def test_kafkas_directory_is_continued(tmp_path: Path) -> None:
    """If this fails, a user who migrates from Apache Kafka would lose topics, settings or producer ids."""
    path = tmp_path / "data"
    shutil.copytree(FIXTURE, path)
    for file in [path, *path.rglob("*")]:
        file.chmod(0o755)

    async def work() -> None:
        for epoch in (2, 3):
            async with MetadataBroker(path) as broker:
                assert broker.cluster_id == "fixturefixturefixture0"
                assert broker.controller.epoch == epoch
                sample = broker.image.topics.by_name("sample")
                assert sample is not None
                assert sample.partitions[0].leader == 1
                assert broker.image.configs.topic("compacted") == {"cleanup.policy": "compact"}
                assert await broker.controller.next_producer_id() >= 1000

    run(work)


def test_operations_of_one_turn_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, concurrent creations of many topics take one disk sync each."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            synced, before = [], len(broker.changes)
            monkeypatch.setattr(disk, "sync_file", lambda path: synced.append(path))
            await asyncio.gather(*(broker.controller.submit(create(f"t{i}")) for i in range(50)))
            assert len(synced) == 1
            assert len(broker.changes) == before + 1

    run(work)


def test_nothing_is_visible_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a power loss could undo a topic that clients have seen."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            seen: list[int] = []
            monkeypatch.setattr(disk, "sync_file", lambda path: seen.append(len(broker.image.topics)))
            await broker.controller.submit(create("a"))
            assert seen == [0]
            assert len(broker.image.topics) == 1

    run(work)


def test_full_disk(tmp_path: Path) -> None:
    """If this fails, after the disk was full for a moment the broker would refuse changes forever, or keep a topic
    it never wrote.
    """

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            disk.set_write_budget(0, 28)
            try:
                with pytest.raises(KafkaError) as error:
                    await broker.controller.submit(create("a"))
            finally:
                disk.set_write_budget(-1, 0)
            assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert broker.image.topics.by_name("a") is None
            reply = await broker.controller.submit(create("a"))
            assert reply.topics[0].error_code == 0
        async with MetadataBroker(tmp_path) as broker:
            assert [topic.name for topic in broker.image.topics] == ["a"]

    run(work)


def test_failed_sync_ends_the_leadership(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, changes would be acknowledged although they may not be on disk."""

    def fail(path: str) -> None:
        raise OSError(5, "Input/output error")

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            with monkeypatch.context() as patch:
                patch.setattr(disk, "sync_file", fail)
                with pytest.raises(KafkaError, match="cannot be synced") as error:
                    await broker.controller.submit(create("a"))
                assert error.value.code is ErrorCode.NOT_CONTROLLER
            with pytest.raises(KafkaError, match="restart the broker"):
                await broker.controller.submit(create("b"))
            assert len(broker.image.topics) == 0

    run(work)


@pytest.mark.parametrize("failure", [errno.EIO, errno.EROFS])
def test_failed_write_ends_the_leadership(tmp_path: Path, failure: int) -> None:
    """If this fails, a node whose disk takes no more writes keeps its vote, and the others count on it."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            disk.set_write_budget(0, failure)
            try:
                with pytest.raises(KafkaError) as error:
                    await broker.controller.submit(create("a"))
            finally:
                disk.set_write_budget(-1, 0)
            assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            with pytest.raises(KafkaError, match="cannot be written"):
                await broker.controller.submit(create("b"))
            assert len(broker.image.topics) == 0

    run(work)


def test_a_failing_listener_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, a defect in one part of the broker would leave clients without an answer to a committed change."""

    def fail(delta: ImageDelta, image: MetadataImage) -> None:
        raise ZeroDivisionError

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            broker.controller._listeners.insert(0, fail)
            before = len(broker.changes)
            await broker.controller.submit(create("a"))
            assert len(broker.changes) == before + 1
        assert "a listener failed on a metadata change" in caplog.text

    run(work)


def test_a_refused_operation_does_not_write(tmp_path: Path) -> None:
    """If this fails, requests that fail would fill the metadata log."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            await broker.controller.submit(create("a"))
            size = metadata(tmp_path, "00000000000000000000.log").stat().st_size
            reply = await broker.controller.submit(create("a"))
            assert reply.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            assert metadata(tmp_path, "00000000000000000000.log").stat().st_size == size

    run(work)


SMALL_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "4000"}


def test_snapshots_and_what_they_make_superfluous(tmp_path: Path) -> None:
    """If this fails, the metadata log would grow forever, or be deleted beyond what the snapshot covers."""
    settings = {**SMALL_SNAPSHOTS, "metadata.max.retention.bytes": "10000", "metadata.log.segment.bytes": "8388608"}

    async def work() -> None:
        async with MetadataBroker(tmp_path, settings) as broker:
            for i in range(60):
                await broker.controller.submit(create(f"t{i}", partitions=5))
                if i % 2:
                    await broker.controller.submit(DeleteTopics([TopicChoice(f"t{i}", uuids.ZERO)]))
            await until(lambda: len(snapshots(tmp_path)) > 0)
            keeper = broker.controller._snapshots
            assert keeper is not None
            await keeper.stop()
            # No later snapshot has this topic, which the log must keep.
            keeper._bytes = -(1 << 30)
            await broker.controller.submit(create("last"))
            await keeper._remove_superfluous()
            names = sorted(topic.name for topic in broker.image.topics)
        kept = snapshots(tmp_path)
        # Above the limit all but the newest are removed.
        assert 1 <= len(kept) <= 2
        for _ in range(2):
            async with MetadataBroker(tmp_path, settings) as broker:
                assert sorted(topic.name for topic in broker.image.topics) == names

    run(work)


def test_start_from_snapshot_without_the_log_before_it(tmp_path: Path) -> None:
    """If this fails, once the log's prefix is deleted, everything that a snapshot lacks is lost."""

    async def work() -> None:
        async with MetadataBroker(tmp_path, SMALL_SNAPSHOTS) as broker:
            await asyncio.gather(*(broker.controller.submit(create(f"t{i}", partitions=8)) for i in range(10)))
            await until(lambda: len(snapshots(tmp_path)) == 1)
            (newest,) = snapshots(tmp_path)
            delete = broker.controller._files.delete_log_before(newest.end_offset, 0)
            await asyncio.to_thread(delete)
            content = broker.image.copy()
        assert not metadata(tmp_path, "00000000000000000000.log").exists()
        async with MetadataBroker(tmp_path) as broker:
            assert {t.name: len(t.partitions) for t in broker.image.topics} == {
                t.name: len(t.partitions) for t in content.topics
            }

    run(work)


def test_old_metadata_that_a_disk_does_not_rename_are_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, one failed rename leaves a segment of the metadata log for good. Or later segments are removed
    before it, and the next start finds a gap in the log.
    """

    def fail(directory: str, base_offset: int) -> list[str]:
        raise OSError(errno.EIO, "Input/output error")

    async def work() -> None:
        async with MetadataBroker(tmp_path, SMALL_SNAPSHOTS) as broker:
            files, oldest = broker.controller._files, metadata(tmp_path, f"{0:020}.log")
            await asyncio.gather(*(broker.controller.submit(create(f"t{i}", partitions=8)) for i in range(10)))
            await until(lambda: len(snapshots(tmp_path)) == 1)
            delete = files.delete_log_before(snapshots(tmp_path)[-1].end_offset, 0)
            with monkeypatch.context() as patch:
                patch.setattr(log_deletion, "mark_deleted", fail)
                with pytest.raises(OSError, match="Input/output error"):
                    await asyncio.to_thread(delete)
            assert oldest.exists()
            await asyncio.to_thread(files.delete_log_before(snapshots(tmp_path)[-1].end_offset, 0))
            assert not oldest.exists()
        async with MetadataBroker(tmp_path) as broker:
            assert len(broker.image.topics) == 10

    run(work)


def test_other_voters(tmp_path: Path) -> None:
    """If this fails, a node of a larger cluster would continue alone and split it."""
    begin(tmp_path)
    metadata(tmp_path, "quorum-state").write_text(
        '{"clusterId":"","leaderId":-1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )

    async def work() -> None:
        with pytest.raises(QuorumError, match=r"voters \[1, 2\], but without .* node 1 is the only one"):
            await MetadataBroker(tmp_path).__aenter__()

    run(work)


def test_damaged_snapshot(tmp_path: Path) -> None:
    """If this fails, the broker would start without the topics of a snapshot that lost its end."""
    begin(tmp_path)
    metadata(tmp_path, "00000000000000000050-0000000001.checkpoint").write_bytes(b"")

    async def work() -> None:
        with pytest.raises(MetadataLogError, match=r"00000000000000000050-0000000001\.checkpoint: it has no footer"):
            await MetadataBroker(tmp_path).__aenter__()

    run(work)


def test_damaged_bootstrap(tmp_path: Path) -> None:
    """If this fails, a directory that Kafka formatted would start with other features than it was formatted for."""
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"\x00" * 90)

    async def work() -> None:
        with pytest.raises(MetadataLogError, match=r"bootstrap\.checkpoint: batch at byte 0 has magic 0"):
            await MetadataBroker(tmp_path).__aenter__()

    run(work)


def test_torn_tail(tmp_path: Path) -> None:
    """If this fails, a crash while the metadata log is written would keep the broker from starting."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            await broker.controller.submit(create("a"))
            size = metadata(tmp_path, "00000000000000000000.log").stat().st_size
            await broker.controller.submit(create("b"))
        with metadata(tmp_path, "00000000000000000000.log").open("r+b") as file:
            file.truncate(size + 70)
        async with MetadataBroker(tmp_path) as broker:
            assert [topic.name for topic in broker.image.topics] == ["a"]
            await broker.controller.submit(create("c"))
        async with MetadataBroker(tmp_path) as broker:
            assert sorted(topic.name for topic in broker.image.topics) == ["a", "c"]

    run(work)


def test_stop_while_a_snapshot_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, with many partitions a stop would take as long as the snapshot that is just being written."""
    turns = 0

    def endless(*_: object) -> Iterator[bytes]:
        nonlocal turns
        while True:
            turns += 1
            yield b""

    async def work() -> None:
        async with MetadataBroker(tmp_path, SMALL_SNAPSHOTS) as broker:
            monkeypatch.setattr(snapshot, "write", endless)
            await broker.controller.submit(create("a", partitions=100))
            await until(lambda: turns > 0)
        monkeypatch.undo()
        assert snapshots(tmp_path) == []
        async with MetadataBroker(tmp_path) as broker:
            assert len(topic_in(broker.image, "a").partitions) == 100

    run(work)


def test_log_shorter_than_snapshot(tmp_path: Path) -> None:
    """If this fails, new records would get offsets that the snapshot has covered, and be skipped at the next start."""

    async def work() -> None:
        async with MetadataBroker(tmp_path, SMALL_SNAPSHOTS) as broker:
            await broker.controller.submit(create("a", partitions=60))
            await until(lambda: len(snapshots(tmp_path)) == 1)
        for name in ("00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex"):
            metadata(tmp_path, name).unlink()
        with pytest.raises(MetadataLogError, match="before the newest snapshot"):
            await MetadataBroker(tmp_path).__aenter__()

    run(work)


def test_left_over_part_is_removed(tmp_path: Path) -> None:
    """If this fails, crashes while a snapshot is written would fill the disk with partial files."""
    begin(tmp_path)
    part = metadata(tmp_path, "00000000000000000050-0000000001.checkpoint.part")
    part.write_bytes(b"x")

    async def work() -> None:
        async with MetadataBroker(tmp_path):
            assert not part.exists()

    run(work)


def test_after_stop_nothing_is_accepted(tmp_path: Path) -> None:
    """If this fails, a late request would be answered although its change is lost."""

    async def work() -> None:
        broker = MetadataBroker(tmp_path)
        async with broker:
            pass
        with pytest.raises(KafkaError, match="stopping"):
            await broker.controller.submit(create("a"))
        async with MetadataBroker(tmp_path) as again:
            assert len(again.image.topics) == 0

    run(work)


def test_producer_ids_asked_for_at_once_are_distinct(tmp_path: Path) -> None:
    """If this fails, producers that start together would share an id, or each would use a block of a thousand."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            ids: list[Any] = await asyncio.gather(*(broker.controller.next_producer_id() for _ in range(1500)))
            assert sorted(ids) == list(range(1500))
            assert broker.image.next_producer_id == 2000

    run(work)


def test_a_step_of_many_records(tmp_path: Path) -> None:
    """If this fails, a broker with more than 10,000 partitions could not register."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            for name in "abc":
                await broker.controller.submit(create(name, partitions=5000))
        async with MetadataBroker(tmp_path) as broker:
            assert all(p.leader_epoch == 2 for t in broker.image.topics for p in t.partitions.values())

    run(work)


def test_the_last_broker_in_service_serves_until_its_stop(tmp_path: Path) -> None:
    """If this fails, a client of the only broker gets an error that is not worth a retry while that broker stops: a
    topic cannot be created, because all brokers are fenced.
    """
    ports = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}",
        "controller.quorum.voters": f"1@127.0.0.1:{ports[1]}",
    }

    async def work() -> None:
        async with MetadataBroker(tmp_path, settings) as broker:
            await broker.controller.join()
            await broker.controller.hand_over()
            assert broker.image.brokers[1].is_active
            await broker.controller.stop()
            assert broker.image.brokers[1].fenced

    run(work)


def test_a_start_ends_if_the_disk_fails(tmp_path: Path) -> None:
    """If this fails, a node whose metadata log cannot be synced waits a minute for its registration, and then reports
    that another broker has its node.id.
    """
    directory, ports = tmp_path / "data", free_ports(2)
    directory.mkdir()
    format_directory([str(directory)], 1, random.Random(1))
    settings = {
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}",
        "controller.listener.names": "CONTROLLER",
        # No process listens on port 1: no controller becomes active.
        "controller.quorum.voters": f"1@127.0.0.1:{ports[1]},2@127.0.0.1:1,3@127.0.0.1:1",
    }

    async def work() -> None:
        server = GroupBroker(directory, settings).server
        starting = asyncio.ensure_future(server.start())

        def controller() -> Any:
            return getattr(server.broker, "controller", None)

        await until(lambda: controller() is not None and controller()._membership._broker is not None)
        controller()._driver.halt("the metadata log cannot be synced")
        with pytest.raises(QuorumError, match="cannot be synced"):
            await starting
        await server.stop()

    run(work)
