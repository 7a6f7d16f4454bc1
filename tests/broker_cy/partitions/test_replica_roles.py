"""The partition service gives partitions with several replicas the roles of the image."""

from __future__ import annotations

import asyncio
import errno
import uuid
from pathlib import Path
from typing import Any, cast

import pytest

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import ImageDelta, PartitionImage, TopicDelta
from broker_cy.metadata.topics import TopicImage
from broker_cy.partitions.partition_service import PartitionService
from broker_cy.replica import follower_log
from broker_cy.replica.partition import Partition
from broker_cy.replica.replica import Role
from broker_cy.storage import disk
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import produce_request
from tests.broker_cy.coordinator_services.group_broker import GroupBroker, run
from tests.broker_cy.coordinator_services.group_client import Connection

TOPIC = "replicated"


class Recorder:
    """Records the calls of the service to replication."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def follow(self, partition: Partition, leader: int) -> None:
        self.calls.append(("follow", leader))

    def leave(self, partition: Partition) -> None:
        self.calls.append(("leave", partition.index))


class Roles:
    """A broker, and a topic with one partition; `give` commits a new image of the topic."""

    def __init__(self, broker: GroupBroker) -> None:
        self.broker = broker.server.broker
        self.service = cast(PartitionService, cast(Any, broker.server)._partitions)
        self.recorder = Recorder()
        self.service.replication = self.recorder
        self.topic: TopicImage | None = None

    def give(self, topic: TopicImage | None) -> Partition | None:
        delta = ImageDelta([TopicDelta(self.topic, topic)], [], [], [])
        self.service.apply(delta, self.broker.image)
        self.topic = topic
        return self.broker.partitions.get(TOPIC, 0)

    def led_by(self, leader: int, epoch: int, replicas: tuple[int, ...] = (1, 2)) -> Partition | None:
        topic_id = self.topic.topic_id if self.topic is not None else uuid.uuid4()
        image = PartitionImage(replicas, replicas, leader, epoch, epoch)
        return self.give(TopicImage(TOPIC, topic_id, {0: image}))


def test_roles_follow_the_image(tmp_path: Path) -> None:
    """If this fails, two brokers lead a partition, or none does, or a moved partition keeps its disk space."""

    async def scenario() -> None:
        async with GroupBroker(tmp_path) as broker:
            roles = Roles(broker)
            partition = roles.led_by(2, 0)
            assert partition is not None
            assert (partition.replica.role, partition.leader_epoch) == (Role.FOLLOWER, 0)
            assert partition.log.epochs.entries == [], "a follower begins no epoch"
            roles.led_by(1, 1)
            assert (partition.replica.role, partition.leader_epoch) == (Role.LEADER, 1)
            assert partition.log.epochs.entries == [(1, 0)]
            assert partition.replica.in_sync is not None
            assert partition.replica.in_sync.maximal == {1, 2}
            future = partition.append_records(encode_batch([Record(0, 1, b"k", b"v", [])]), 1)
            roles.led_by(2, 2)
            assert isinstance(future.exception(), Exception), "the other broker may not have it"
            assert partition.log.written_end_offset == 1
            roles.led_by(-1, 3)
            assert roles.recorder.calls == [("follow", 2), ("leave", 0), ("follow", 2), ("follow", -1)]
            directory = Path(partition.log.directory)
            assert directory.exists()
            assert roles.led_by(2, 4, (2, 3)) is None
            assert partition.closed
            assert not directory.exists()

    run(scenario)


def test_only_partitions_that_changed_are_assigned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the loss of a broker costs every partition of its topics, while clients wait."""

    async def scenario() -> None:
        async with GroupBroker(tmp_path) as broker:
            roles = Roles(broker)
            first = PartitionImage((1, 2), (1, 2), 2, 0, 0)
            topic_id = uuid.uuid4()
            partition = roles.give(TopicImage(TOPIC, topic_id, {0: first, 1: first}))
            assigned: list[int] = []
            monkeypatch.setattr(
                PartitionService, "_assign", lambda service, partition, image: assigned.append(partition.index)
            )
            roles.give(TopicImage(TOPIC, topic_id, {0: first, 1: first._replace(leader=1, leader_epoch=1)}))
            assert assigned == [1]
            assert partition is not None
            assert partition.replica.role is Role.FOLLOWER

    run(scenario)


def test_who_waits_until_records_of_an_earlier_start_are_committed(tmp_path: Path) -> None:
    """If this fails, a coordinator never answers, or answers for records that another leader does not have."""

    async def scenario() -> None:
        async with GroupBroker(tmp_path) as broker:
            roles = Roles(broker)
            partition: Any = roles.led_by(1, 0)
            batch = encode_batch([Record(timestamp=0, key=b"k", value=b"v")])
            waiting = partition.append_records(batch, 0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert (partition.high_watermark, partition.log.written_end_offset) == (0, 1)
            heard: list[Any] = []
            partition.call_when_committed(1, heard.append)
            partition.tick()
            assert heard == []
            # The follower leaves the partition: the leader has all that is in sync.
            roles.led_by(1, 1, (1,))
            assert (partition.high_watermark, heard) == (1, [None])
            assert await waiting == 0
            partition.call_when_committed(2, heard.append)
            roles.led_by(2, 2)
            assert isinstance(heard[-1], KafkaError)

    run(scenario)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_who_waits_for_a_record_hears_that_the_partition_is_closed(tmp_path: Path, is_deleted: bool) -> None:
    """If this fails, a transaction whose marker waits for its replicas never ends once its topic is deleted, a producer
    waits for its timeout, or it gets an acknowledgement of a record that the new leader does not have.
    """

    async def scenario() -> None:
        async with GroupBroker(tmp_path) as broker:
            roles = Roles(broker)
            partition = roles.led_by(1, 0)
            assert partition is not None
            marker = partition.append_marker(7, 0, 0, False, 1)
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.server.listeners[0].port)
            connection = Connection(reader, writer)
            records = encode_batch([Record(0, 1, b"k", b"v", [])])
            producing = asyncio.ensure_future(connection.call(produce_request(TOPIC, 0, records), 9))
            while partition.log.log_end_offset < 2:
                await asyncio.sleep(0)
            assert not marker.done()
            if is_deleted:
                roles.give(None)
            else:
                roles.led_by(2, 1, (2, 3))
            assert partition.closed
            assert isinstance(error := marker.exception(), KafkaError)
            assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            answer = await producing
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            writer.close()

    run(scenario)


def test_a_topic_created_again_is_another_one(tmp_path: Path) -> None:
    """If this fails, a follower appends records of a new topic to those of the deleted one of its name."""

    async def scenario() -> None:
        async with GroupBroker(tmp_path) as broker:
            roles = Roles(broker)
            old = roles.led_by(2, 0)
            assert roles.topic is not None
            before = roles.topic
            after = TopicImage(TOPIC, uuid.uuid4(), {0: PartitionImage((1, 2), (1, 2), 2, 0, 0)})
            new = roles.give(after)
            assert old is not None
            assert new is not None
            assert old.closed
            assert (new is not old, new.topic_id, new.replica.role) == (True, after.topic_id, Role.FOLLOWER)
            assert before.topic_id != after.topic_id
            assert roles.recorder.calls == [("follow", 2), ("leave", 0), ("follow", 2)]
            assert roles.give(None) is None

    run(scenario)


def test_the_high_watermark_of_a_follower_is_checkpointed(tmp_path: Path) -> None:
    """If this fails, the end of a follower's log counts as committed after its restart."""

    async def scenario() -> None:
        async with GroupBroker(tmp_path) as broker:
            roles = Roles(broker)
            partition = roles.led_by(1, 0, (1, 2))
            assert partition is not None
            partition.append_records(encode_batch([Record(each, 1, b"k", b"v", []) for each in range(5)]), 1)
            roles.led_by(2, 1)
            follower_log.learn(partition, 3, 0)
            assert partition.high_watermark == 3
            assert roles.service.high_watermark_of(TOPIC, 0) == 3

    run(scenario)


def test_a_follower_with_a_full_disk_follows_the_log_start(tmp_path: Path) -> None:
    """If this fails, a follower whose disk is full stops replicating all partitions of its leader when the records of
    one of them are deleted.
    """

    async def scenario() -> None:
        async with GroupBroker(tmp_path) as broker:
            roles = Roles(broker)
            partition = roles.led_by(1, 0, (1, 2))
            assert partition is not None
            assert partition.log is not None
            partition.append_records(encode_batch([Record(each, 1, b"k", b"v", []) for each in range(5)]), 1)
            roles.led_by(2, 1)
            disk.set_write_budget(0, errno.ENOSPC)
            try:
                follower_log.learn(partition, 5, 5)
            finally:
                disk.set_write_budget(-1, 0)
            assert partition.log.log_start_offset == partition.high_watermark == 5
            assert partition.offline is None

    run(scenario)
