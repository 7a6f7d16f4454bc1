"""The ordinary life of kafka-python."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    NoError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

from tests.support.broker import Target
from tests.support.wait import until

TIMEOUT_S = 30.0
MakeConsumer = Callable[..., KafkaConsumer]


@pytest.fixture
def admin(broker: Target) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def producer(broker: Target) -> Iterator[KafkaProducer]:
    client = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    yield client
    client.close(TIMEOUT_S)


@pytest.fixture
def make_consumer(broker: Target, group: str) -> Iterator[MakeConsumer]:
    made: list[KafkaConsumer] = []

    def make(*topics: str, **settings: Any) -> KafkaConsumer:
        common = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 50,
            "metadata_max_age_ms": 1000,  # a leader that assigns before it has the metadata corrects itself only then
        }
        made.append(KafkaConsumer(*topics, bootstrap_servers=broker.bootstrap, **{**common, **settings}))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


@pytest.fixture
def ten(admin: KafkaAdminClient, producer: KafkaProducer, topic: str) -> str:
    """A topic with the records 0 to 9 in its one partition."""
    create(admin, topic)
    for number in range(10):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(TIMEOUT_S)
    return topic


def create(
    admin: KafkaAdminClient, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
) -> dict[str, Any]:
    spec = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
    made: dict[str, Any] = admin.create_topics({topic: spec}, wait_for_metadata=True)["topics"][0]
    return made


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} records came"
        for batch in consumer.poll(500, max_records=count - len(records)).values():
            records += batch
    return records


def values(records: list[Any]) -> list[bytes | None]:
    return [record.value for record in records]


class TestAdmin:
    """An administrator's day."""

    def test_topics_come_and_go(self, admin: KafkaAdminClient, topic: str) -> None:
        """A topic cannot be created, described, or deleted."""
        made = create(admin, topic, 2, {"retention.ms": "1000000"})
        assert (made["num_partitions"], made["replication_factor"]) == (2, 1)
        assert made["configs"]["retention.ms"] == {
            "config_source": "DYNAMIC_TOPIC_CONFIG",
            "is_sensitive": False,
            "read_only": False,
            "value": "1000000",
        }
        assert made["configs"]["segment.bytes"]["value"] == "1073741824"
        (described,) = admin.describe_topics([topic])
        assert described["topic_id"] == made["topic_id"]
        broker_id = admin.describe_cluster()["brokers"][0]["broker_id"]
        assert described["partitions"][1] == {
            "error_code": 0,
            "partition_index": 1,
            "leader_id": broker_id,
            "leader_epoch": 0,
            "replica_nodes": [broker_id],
            "isr_nodes": [broker_id],
            "offline_replicas": [],
        }
        assert topic in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError):
            create(admin, topic)
        assert admin.delete_topics([topic])["topics"][0]["topic_id"] == made["topic_id"]
        until(lambda: topic not in admin.list_topics(), f"{topic} to go")
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics([topic])

    def test_topics_by_id(self, admin: KafkaAdminClient, topic: str) -> None:
        """A tool that works with topic ids (KIP-516) finds or deletes nothing, or the wrong topic."""
        topic_id = uuid.UUID(str(create(admin, topic)["topic_id"]))
        assert [found["name"] for found in admin.describe_topics([topic_id])] == [topic]
        admin.delete_topics([topic_id])
        until(lambda: topic not in admin.list_topics(), f"{topic} to go")

    def test_errors(self, admin: KafkaAdminClient, topic: str) -> None:
        """A wrong topic is created, or the refusal does not say why."""
        wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
            (InvalidTopicError, "a/b", {"num_partitions": 1, "replication_factor": 1}),
            (InvalidTopicError, "..", {"num_partitions": 1, "replication_factor": 1}),
            (InvalidPartitionsError, topic, {"num_partitions": 0, "replication_factor": 1}),
            (InvalidReplicationFactorError, topic, {"num_partitions": 1, "replication_factor": 2}),
            (InvalidConfigurationError, topic, {"num_partitions": 1, "replication_factor": 1, "configs": {"x": "1"}}),
        ]
        for error, name, spec in wrong:
            with pytest.raises(error):
                admin.create_topics({name: spec})
        assert topic not in admin.list_topics()

    def test_partitions(self, admin: KafkaAdminClient, topic: str) -> None:
        """A topic cannot grow, or can shrink."""
        create(admin, topic, 2)
        admin.create_partitions({topic: 5}, validate_only=True)
        assert len(admin.describe_topics([topic])[0]["partitions"]) == 2
        admin.create_partitions({topic: 5})
        until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 5, "5 partitions")
        for count in (5, 3):
            with pytest.raises(InvalidPartitionsError):
                admin.create_partitions({topic: count})

    def test_pages_of_partitions(self, admin: KafkaAdminClient, topic: str) -> None:
        """A description in pages (KIP-966) skips or repeats partitions."""
        create(admin, topic, 5)
        seen: list[int] = []
        cursor = None
        for _ in range(10):
            page = admin.describe_topic_partitions([topic], response_partition_limit=2, cursor=cursor)
            seen += [partition["partition_index"] for found in page["topics"] for partition in found["partitions"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize("incremental", [True, False])
    def test_settings(self, admin: KafkaAdminClient, topic: str, incremental: bool) -> None:
        """A setting is not stored, or takes others with it, with the newer or the older call."""
        create(admin, topic, 1, {"segment.ms": "3600000"})

        def shown() -> dict[str, Any]:
            found: dict[str, Any] = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][
                topic
            ]
            return {name: setting["value"] for name, setting in found.items()}

        assert shown() == {"segment.ms": "3600000"}
        change = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "55000"})
        assert admin.alter_configs([change], incremental=incremental) == {"topic": {topic: "OK"}}
        until(
            lambda: shown() == {"segment.ms": "3600000", "retention.ms": "55000"}, f"both settings; got {shown()}", 10
        )
        back = ConfigResource(ConfigResourceType.TOPIC, topic, ["retention.ms"])
        assert admin.reset_configs([back], incremental=incremental) == {"topic": {topic: "OK"}}
        until(lambda: shown() == {"segment.ms": "3600000"}, "one setting", 10)

    def test_settings_with_their_synonyms(self, admin: KafkaAdminClient, topic: str) -> None:
        """A tool cannot tell where a value comes from."""
        create(admin, topic, 1, {"retention.ms": "1000000"})
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        shown = admin.describe_configs([resource], include_synonyms=True, config_filter="all")["topic"][topic]
        assert len(shown) >= 30
        assert shown["retention.ms"]["config_type"] == "LONG"
        first = shown["retention.ms"]["synonyms"][0]
        assert (first["name"], first["value"], first["source"]) == ("retention.ms", "1000000", "DYNAMIC_TOPIC_CONFIG")
        assert [found["name"] for found in shown["segment.bytes"]["synonyms"]] == ["log.segment.bytes"]
        assert shown["segment.bytes"]["config_source"] == "DEFAULT_CONFIG"

    def test_cluster(self, admin: KafkaAdminClient, broker: Target, ten: str) -> None:
        """Tools cannot find the brokers, nor what they speak."""
        cluster = admin.describe_cluster()
        (node,) = cluster["brokers"]
        assert (node["host"], node["port"], node["rack"]) == (broker.host, broker.port, None)
        assert cluster["controller_id"] == node["broker_id"]
        features = admin.describe_features()
        assert features["metadata.version"]["finalized"][0] >= 7
        topics = admin.list_config_resources()["topic"]
        assert "broker" in admin.list_config_resources()
        assert ten in str(topics)

    def test_log_directories(self, admin: KafkaAdminClient, broker: Target, ten: str) -> None:
        """Nobody can see where the disk space goes."""
        (found,) = admin.describe_log_dirs()
        (directory,) = found["log_dirs"]
        assert directory["error_code"] == 0
        assert directory["log_dir"] == str(broker.data_dir)
        assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
        (mine,) = [shown for shown in directory["topics"] if shown["name"] == ten]
        (partition,) = mine["partitions"]
        on_disk = (broker.data_dir / f"{ten}-0" / f"{0:020}.log").stat().st_size
        assert partition == {"partition_index": 0, "partition_size": on_disk, "offset_lag": 0, "is_future_key": False}

    def test_offsets_by_spec(self, admin: KafkaAdminClient, producer: KafkaProducer, topic: str) -> None:
        """Lag tools and resets by time work with wrong offsets."""
        create(admin, topic)
        base = int(time.time() * 1000) - 60_000
        for offset, delta in enumerate((0, 500, 100)):
            producer.send(topic, b"%d" % offset, partition=0, timestamp_ms=base + delta)
            producer.flush(TIMEOUT_S)
        partition = TopicPartition(topic, 0)

        def ask(spec: Any) -> tuple[int, int, int | None]:
            found = admin.list_partition_offsets({partition: spec})[partition]
            return found.offset, found.timestamp, found.leader_epoch

        assert ask(OffsetSpec.EARLIEST) == (0, -1, 0)
        assert ask(OffsetSpec.LATEST) == (3, -1, 0)
        assert ask(OffsetSpec.MAX_TIMESTAMP) == (1, base + 500, 0)
        assert ask(base + 1) == (1, base + 500, 0)

    def test_delete_records(self, admin: KafkaAdminClient, ten: str, make_consumer: MakeConsumer) -> None:
        """Records that were deleted come back, or take others with them."""
        partition = TopicPartition(ten, 0)
        assert admin.delete_records({partition: 7})[partition]["low_watermark"] == 7
        assert make_consumer().beginning_offsets([partition]) == {partition: 7}
        assert admin.delete_records({partition: -1})[partition]["low_watermark"] == 10  # all there is

    def test_groups(self, admin: KafkaAdminClient, ten: str, group: str, make_consumer: MakeConsumer) -> None:
        """A group cannot be found, described, given other offsets, or deleted."""
        consumer = make_consumer(ten)
        take(consumer, 5)
        consumer.commit()
        partition = TopicPartition(ten, 0)
        (listed,) = [found for found in admin.list_groups() if found["group_id"] == group]
        assert listed == {
            "group_id": group,
            "group_state": "Stable",
            "group_type": "classic",
            "protocol_type": "consumer",
        }
        assert group not in [found["group_id"] for found in admin.list_groups(states_filter=["Empty"])]
        described = admin.describe_groups([group])[group]
        assert (described["group_state"], described["protocol_data"], described["error"]) == ("Stable", "range", None)
        (member,) = described["members"]
        assert member["client_host"] == "/127.0.0.1"
        assert member["member_assignment"]["assigned_partitions"] == [{"topic": ten, "partitions": [0]}]
        assert admin.list_group_offsets([group])[group][partition].offset == 5
        assert admin.delete_groups([group]) == {group: "NonEmptyGroupError"}
        assert admin.remove_group_members(group, [_member("nobody")]) == {"nobody": UnknownMemberIdError}
        assert admin.remove_group_members(group, [_member(member["member_id"])]) == {member["member_id"]: NoError}
        consumer.close()
        until(lambda: admin.describe_groups([group])[group]["group_state"] == "Empty", "the group to be empty")
        assert admin.alter_group_offsets(group, {partition: OffsetAndMetadata(2, "note", -1)}) == {partition: NoError}
        changed = admin.list_group_offsets([group])[group][partition]
        assert (changed.offset, changed.metadata) == (2, "note")
        assert admin.delete_group_offsets(group, [partition]) == {partition: NoError}
        assert partition not in admin.list_group_offsets([group])[group]
        assert admin.delete_groups([group]) == {group: "OK"}
        assert group not in [found["group_id"] for found in admin.list_groups()]


def _member(member_id: str) -> Any:
    return MemberToRemove(member_id=member_id)


class TestRecords:
    """What is in a record, and what a producer may ask for."""

    def test_headers_nulls_and_timestamps(
        self, admin: KafkaAdminClient, producer: KafkaProducer, topic: str, make_consumer: MakeConsumer
    ) -> None:
        """Parts of a record are lost or changed on their way."""
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
        """A topic that stamps records itself tells the producer's clock."""
        create(admin, topic, 1, {"message.timestamp.type": "LogAppendTime"})
        told = producer.send(topic, b"v", timestamp_ms=5).get(TIMEOUT_S)
        consumer = make_consumer()
        consumer.assign([TopicPartition(topic, 0)])
        (got,) = take(consumer, 1)
        assert (got.timestamp, got.timestamp_type) == (told.timestamp, 1)
        assert abs(got.timestamp - time.time() * 1000) < 60_000

    def test_too_large(self, broker: Target, admin: KafkaAdminClient, topic: str) -> None:
        """The producer hears of success for a message that the topic does not take."""
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
        """One of the ways to produce loses records."""
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
        """A message larger than a fetch does not get through."""
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
        """A consumer reads from another place than it asked for."""
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
        """A replay from a point in time starts elsewhere."""
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
        """A paused partition still delivers, or a resumed one loses its place."""
        consumer, partition = make_consumer(), TopicPartition(ten, 0)
        consumer.assign([partition])
        take(consumer, 3)
        consumer.pause(partition)
        assert consumer.poll(300) == {}
        consumer.resume(partition)
        assert values(take(consumer, 7)) == [b"%d" % number for number in range(3, 10)]

    def test_commit_and_go_on(self, ten: str, make_consumer: MakeConsumer) -> None:
        """A restarted consumer begins elsewhere than where it stopped."""
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
        """Partitions are read twice or by nobody while members come and go."""
        create(admin, topic, 4)
        settings = {
            "partition_assignment_strategy": [assignor],
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 6000,
        }
        members = [make_consumer(topic, **settings) for _ in range(2)]
        _settle(members, 4)
        members.pop().close()
        _settle(members, 4)

    def test_static_member_comes_back(
        self, admin: KafkaAdminClient, topic: str, group: str, make_consumer: MakeConsumer
    ) -> None:
        """A restart of a static member makes the whole group rebalance (KIP-345)."""
        create(admin, topic, 2)
        settings = {"heartbeat_interval_ms": 100, "session_timeout_ms": 30_000}
        stays, goes = (make_consumer(topic, group_instance_id=name, **settings) for name in ("stays", "goes"))
        _settle([stays, goes], 2)
        generation = stays.group_metadata().generation_id
        before = goes.assignment()
        goes.close()
        back = make_consumer(topic, group_instance_id="goes", **settings)

        def assigned() -> bool:
            back.poll(50)
            stays.poll(50)
            return bool(back.assignment() == before)

        until(assigned, "the old partitions")
        assert stays.group_metadata().generation_id == generation
        names = [member["group_instance_id"] for member in admin.describe_groups([group])[group]["members"]]
        assert sorted(names) == ["goes", "stays"]


def _settle(members: list[KafkaConsumer], partitions: int) -> None:
    """Poll until the members own each partition once, in equal parts."""

    def settled() -> bool:
        for member in members:
            member.poll(50)
        parts = [len(member.assignment()) for member in members]
        everything = {at.partition for member in members for at in member.assignment()}
        return sum(parts) == partitions == len(everything) and max(parts) - min(parts) <= 1

    until(settled, f"{len(members)} members to share {partitions} partitions", TIMEOUT_S)
