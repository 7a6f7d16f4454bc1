"""Ordinary use of kafka-python."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    MessageSizeTooLargeError,
)

from tests.support.broker import Target
from tests.support.kafka_python import TIMEOUT_S, MakeConsumer, create, take, values
from tests.support.wait import until

# A poll of a member. kafka-python 3.0.12 joins again if its join completed between two polls: members that are polled
# in turn can make each other join without end. All members are therefore polled at the same time.
JOIN_MS = 500


class TestRecords:
    """The contents of a record, and the options of a producer."""

    def test_headers_nulls_and_timestamps(
        self, admin: KafkaAdminClient, producer: KafkaProducer, topic: str, make_consumer: MakeConsumer
    ) -> None:
        """If this fails, parts of a record are lost or changed on their way."""
        create(admin, topic)
        now = int(time.time() * 1000)
        sent: list[dict[str, Any]] = [
            {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("a", b"2"), ("none", b"")]},
            {"key": None, "value": b"no key", "headers": []},
            {"key": b"no value", "value": None, "headers": []},
        ]
        for index, record in enumerate(sent):
            told = producer.send(topic, partition=0, timestamp_ms=now - index, **record).get(TIMEOUT_S)
            assert (told.offset, told.timestamp) == (index, now - index)
        consumer = make_consumer()
        consumer.assign([TopicPartition(topic, 0)])
        got = take(consumer, 3)
        assert [{"key": each.key, "value": each.value, "headers": list(each.headers)} for each in got] == sent
        assert [(each.timestamp, each.timestamp_type) for each in got] == [(now - index, 0) for index in range(3)]

    def test_append_time(
        self, admin: KafkaAdminClient, producer: KafkaProducer, topic: str, make_consumer: MakeConsumer
    ) -> None:
        """If this fails, a topic that stamps records itself returns the producer's time."""
        create(admin, topic, 1, {"message.timestamp.type": "LogAppendTime"})
        told = producer.send(topic, b"v", timestamp_ms=5).get(TIMEOUT_S)
        consumer = make_consumer()
        consumer.assign([TopicPartition(topic, 0)])
        (got,) = take(consumer, 1)
        assert (got.timestamp, got.timestamp_type) == (told.timestamp, 1)
        assert abs(got.timestamp - time.time() * 1000) < 60_000

    def test_too_large(self, broker: Target, admin: KafkaAdminClient, topic: str) -> None:
        """If this fails, the producer gets a success for a message that the topic refuses."""
        create(admin, topic, 1, {"max.message.bytes": "1000"})
        with contextlib.closing(
            KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=False)
        ) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                producer.send(topic, b"x" * 2000).get(TIMEOUT_S)
            assert producer.send(topic, b"x" * 100).get(TIMEOUT_S).offset == 0

    @pytest.mark.parametrize(("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)])
    def test_acks(
        self,
        broker: Target,
        admin: KafkaAdminClient,
        topic: str,
        make_consumer: MakeConsumer,
        acks: Any,
        idempotent: bool,
    ) -> None:
        """If this fails, one of the ways to produce loses records."""
        create(admin, topic)
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap, acks=acks, enable_idempotence=idempotent, batch_size=500
        )
        for number in range(500):
            producer.send(topic, b"%d" % number, partition=0)
        producer.close(TIMEOUT_S)
        consumer = make_consumer()
        consumer.assign([TopicPartition(topic, 0)])
        assert values(take(consumer, 500)) == [b"%d" % number for number in range(500)]

    def test_large_message(
        self, broker: Target, admin: KafkaAdminClient, topic: str, make_consumer: MakeConsumer
    ) -> None:
        """If this fails, a message larger than a fetch cannot be delivered."""
        value = bytes(range(256)) * 16_000
        create(admin, topic, 1, {"max.message.bytes": "5000000"})
        with contextlib.closing(
            KafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=5_000_000)
        ) as producer:
            producer.send(topic, value, partition=0).get(TIMEOUT_S)
            producer.send(topic, b"small", partition=0).get(TIMEOUT_S)
        consumer = make_consumer(max_partition_fetch_bytes=100_000)
        consumer.assign([TopicPartition(topic, 0)])
        assert values(take(consumer, 2)) == [value, b"small"]


class TestConsumer:
    """One consumer, and members of a group."""

    def test_seek_and_position(self, ten: str, make_consumer: MakeConsumer) -> None:
        """If this fails, a consumer reads from another offset than the requested one."""
        consumer = make_consumer()
        partition = TopicPartition(ten, 0)
        consumer.assign([partition])
        for target in (7, 0, 9):
            consumer.seek(partition, target)
            assert values(take(consumer, 1)) == [b"%d" % target]
            assert consumer.position(partition) == target + 1
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 10
        consumer.seek_to_beginning(partition)
        assert values(take(consumer, 1)) == [b"0"]
        assert consumer.end_offsets([partition]) == {partition: 10}

    def test_offsets_for_times(
        self, admin: KafkaAdminClient, producer: KafkaProducer, topic: str, make_consumer: MakeConsumer
    ) -> None:
        """If this fails, a replay from a point in time starts elsewhere."""
        create(admin, topic)
        base = int(time.time() * 1000) - 100_000
        for index in range(20):
            producer.send(topic, b"x", partition=0, timestamp_ms=base + 100 * index)
        producer.flush(TIMEOUT_S)
        consumer, partition = make_consumer(), TopicPartition(topic, 0)
        for when, offset in ((base, 0), (base + 101, 2), (base + 1900, 19)):
            found = consumer.offsets_for_times({partition: when})[partition]
            assert (found.offset, found.timestamp) == (offset, base + 100 * offset)
        assert consumer.offsets_for_times({partition: base + 1901}) == {partition: None}

    def test_pause_and_resume(self, ten: str, make_consumer: MakeConsumer) -> None:
        """If this fails, a paused partition still delivers, or a resumed one loses its place."""
        consumer, partition = make_consumer(), TopicPartition(ten, 0)
        consumer.assign([partition])
        take(consumer, 3)
        consumer.pause(partition)
        assert consumer.poll(300) == {}
        consumer.resume(partition)
        assert values(take(consumer, 7)) == [b"%d" % number for number in range(3, 10)]

    def test_commit_and_go_on(self, ten: str, make_consumer: MakeConsumer) -> None:
        """If this fails, a restarted consumer does not continue where it stopped."""
        first, partition = make_consumer(ten), TopicPartition(ten, 0)
        take(first, 4)
        assert first.committed(partition) is None
        first.commit({partition: OffsetAndMetadata(4, "half-way", -1)})
        assert first.committed(partition, metadata=True).metadata == "half-way"
        first.close()
        assert values(take(make_consumer(ten), 6)) == [b"%d" % number for number in range(4, 10)]

    @pytest.mark.parametrize("assignor", [RangePartitionAssignor, CooperativeStickyAssignor])
    def test_members_share_and_take_over(
        self, admin: KafkaAdminClient, topic: str, make_consumer: MakeConsumer, assignor: type
    ) -> None:
        """If this fails, partitions are read twice or by no member while members join and leave."""
        create(admin, topic, 4)
        settings = {
            "partition_assignment_strategy": [assignor],
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 30_000,
        }
        members = [make_consumer(topic, **settings) for _ in range(2)]
        _settle(members, 4)
        members.pop().close()
        _settle(members, 4)

    def test_static_member_comes_back(
        self, admin: KafkaAdminClient, topic: str, group: str, make_consumer: MakeConsumer
    ) -> None:
        """If this fails, a restart of a static member makes the whole group rebalance (KIP-345)."""
        create(admin, topic, 2)
        settings = {"heartbeat_interval_ms": 100, "session_timeout_ms": 30_000}
        stays, goes = (make_consumer(topic, group_instance_id=name, **settings) for name in ("stays", "goes"))
        _settle([stays, goes], 2)
        generation = stays.group_metadata().generation_id
        before = goes.assignment()
        goes.close()
        back = make_consumer(topic, group_instance_id="goes", **settings)

        def assigned() -> bool:
            _poll([back, stays])
            return bool(back.assignment() == before)

        until(assigned, "the old partitions")
        assert stays.group_metadata().generation_id == generation
        names = [member["group_instance_id"] for member in admin.describe_groups([group])[group]["members"]]
        assert sorted(names) == ["goes", "stays"]


def _poll(members: list[KafkaConsumer]) -> None:
    """Poll each member once, all at the same time."""
    with ThreadPoolExecutor(len(members)) as threads:
        list(threads.map(lambda member: member.poll(JOIN_MS), members))


def _settle(members: list[KafkaConsumer], partitions: int) -> None:
    """Poll until the members own each partition once, in equal parts."""

    def settled() -> bool:
        _poll(members)
        parts = [len(member.assignment()) for member in members]
        everything = {at.partition for member in members for at in member.assignment()}
        return sum(parts) == partitions == len(everything) and max(parts) - min(parts) <= 1

    until(settled, f"{len(members)} members to share {partitions} partitions", TIMEOUT_S)
