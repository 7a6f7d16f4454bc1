"""Ordinary use of confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.support.broker import Target
from tests.support.confluent import TIMEOUT_S, close_consumer, error_code, failures_to, send, take, values
from tests.support.topics import create_topic
from tests.support.wait import until


class TestAdmin:
    """An administrator's calls."""

    def test_topics_come_and_go(self, admin: AdminClient, topic: str) -> None:
        """If this fails, a topic cannot be created, found, or deleted."""
        created = admin.create_topics([NewTopic(topic, 3, 1, config={"retention.ms": "60000"})])
        assert created[topic].result(TIMEOUT_S) is None
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
        assert [partition.id for partition in described.partitions] == [0, 1, 2]
        assert all(partition.leader.id == described.partitions[0].leader.id for partition in described.partitions)
        assert str(described.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
        assert topic in admin.list_topics(timeout=TIMEOUT_S).topics
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
        until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, f"{topic} to go", TIMEOUT_S)

    def test_errors_of_topic_creation(self, admin: AdminClient, broker: Target, topic: str) -> None:
        """If this fails, an invalid topic is created, or the error does not give the reason."""
        create_topic(broker.bootstrap, topic)

        def create(
            name: str, partitions: int = 1, replicas: int = 1, config: dict[str, str] | None = None
        ) -> Callable[[], Any]:
            new = NewTopic(name, partitions, replicas, config=config or {})
            return lambda: admin.create_topics([new])[name].result(TIMEOUT_S)

        assert error_code(create(topic)) == KafkaError.TOPIC_ALREADY_EXISTS
        assert error_code(create("no spaces")) == KafkaError.TOPIC_EXCEPTION
        assert error_code(create("x" * 250)) == KafkaError.TOPIC_EXCEPTION
        assert error_code(create(topic + "-r", replicas=3)) == KafkaError.INVALID_REPLICATION_FACTOR
        assert error_code(create(topic + "-c", config={"retention.ms": "soon"})) == KafkaError.INVALID_CONFIG
        assert error_code(create(topic + "-u", config={"no.such.setting": "1"})) == KafkaError.INVALID_CONFIG
        assert not [name for name in admin.list_topics(timeout=TIMEOUT_S).topics if name.startswith(topic + "-")]

    def test_validate_only_creates_nothing(self, admin: AdminClient, topic: str) -> None:
        """If this fails, a dry run changes the cluster."""
        admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(TIMEOUT_S)
        assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics

    def test_delete_of_a_topic_that_is_not_there(self, admin: AdminClient, topic: str) -> None:
        """If this fails, a wrong name in a delete is reported as deleted."""
        code = error_code(lambda: admin.delete_topics([topic])[topic].result(TIMEOUT_S))
        assert code == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_more_partitions(self, admin: AdminClient, broker: Target, topic: str) -> None:
        """If this fails, a topic cannot grow, or loses its records when it does."""
        create_topic(broker.bootstrap, topic, 1)
        send(broker, topic, [b"before"])
        admin.create_partitions([NewPartitions(topic, 4)])[topic].result(TIMEOUT_S)
        until(lambda: len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions) == 4, "4 partitions")

        def sent() -> bool:
            send(broker, topic, [b"after"], 3)
            return True

        until(sent, "the new leader", tolerate=(AssertionError,))
        ends = admin.list_offsets({TopicPartition(topic, p): OffsetSpec.latest() for p in range(4)})
        assert [ends[TopicPartition(topic, p)].result(TIMEOUT_S).offset for p in range(4)] == [1, 0, 0, 1]
        fewer = NewPartitions(topic, 2)
        assert (
            error_code(lambda: admin.create_partitions([fewer])[topic].result(TIMEOUT_S))
            == KafkaError.INVALID_PARTITIONS
        )

    def test_topic_settings(self, admin: AdminClient, broker: Target, topic: str) -> None:
        """If this fails, a setting is not stored, not shown, or shown with the wrong source."""
        create_topic(broker.bootstrap, topic, 1, {"retention.ms": "60000"})
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def shown() -> dict[str, ConfigEntry]:
            entries: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
            return entries

        assert (shown()["retention.ms"].value, shown()["retention.ms"].is_default) == ("60000", False)
        assert (shown()["cleanup.policy"].value, shown()["cleanup.policy"].is_default) == ("delete", True)
        change = ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry("retention.ms", "1234567", incremental_operation=AlterConfigOpType.SET),
                ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
            ],
        )
        admin.incremental_alter_configs([change])[change].result(TIMEOUT_S)
        until(lambda: shown()["retention.ms"].value == "1234567", "the new setting")
        assert shown()["cleanup.policy"].value == "delete,compact"
        back = ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)],
        )
        admin.incremental_alter_configs([back])[back].result(TIMEOUT_S)
        until(lambda: shown()["retention.ms"].value == "604800000", "the default")
        wrong = ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[ConfigEntry("segment.bytes", "-1", incremental_operation=AlterConfigOpType.SET)],
        )
        code = error_code(lambda: admin.incremental_alter_configs([wrong])[wrong].result(TIMEOUT_S))
        assert code == KafkaError.INVALID_CONFIG

    def test_broker_settings(self, admin: AdminClient) -> None:
        """If this fails, an administrator cannot see the broker's settings, or change its dynamic settings."""
        broker_id = admin.list_topics(timeout=TIMEOUT_S).controller_id
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        assert entries["log.segment.bytes"].value == "1073741824"
        assert entries["group.initial.rebalance.delay.ms"].value == "0"
        change = ConfigResource(
            ResourceType.BROKER,
            str(broker_id),
            incremental_configs=[
                ConfigEntry("log.retention.ms", "7777777", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        admin.incremental_alter_configs([change])[change].result(TIMEOUT_S)

        def shown() -> bool:
            fresh: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
            return fresh["log.retention.ms"].value == "7777777"

        until(shown, "the new broker setting", TIMEOUT_S)

    def test_delete_records(
        self, admin: AdminClient, broker: Target, topic: str, make_consumer: Callable[..., Consumer]
    ) -> None:
        """If this fails, deleted records come back, or others are deleted with them."""
        create_topic(broker.bootstrap, topic)
        send(broker, topic, [b"%d" % n for n in range(10)])
        deleted = admin.delete_records([TopicPartition(topic, 0, 4)])
        assert deleted[TopicPartition(topic, 0)].result(TIMEOUT_S).low_watermark == 4
        consumer = make_consumer()
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (4, 10)
        consumer.assign([TopicPartition(topic, 0, 0)])  # below the start: reset to earliest
        assert values(take(consumer, 6)) == [b"4", b"5", b"6", b"7", b"8", b"9"]
        beyond = TopicPartition(topic, 0, 99)
        code = error_code(lambda: admin.delete_records([beyond])[beyond].result(TIMEOUT_S))
        assert code == KafkaError.OFFSET_OUT_OF_RANGE

    def test_list_offsets(self, admin: AdminClient, broker: Target, topic: str) -> None:
        """If this fails, lag tools and resets by time work with wrong offsets."""
        create_topic(broker.bootstrap, topic)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        base = int(time.time() * 1000) - 10_000
        for offset, timestamp in enumerate((base, base + 3000, base + 1000, base + 2000)):
            producer.produce(topic, b"%d" % offset, partition=0, timestamp=timestamp)
            assert producer.flush(TIMEOUT_S) == 0
        partition = TopicPartition(topic, 0)

        def offset_of(spec: OffsetSpec) -> int:
            offset: int = admin.list_offsets({partition: spec})[partition].result(TIMEOUT_S).offset
            return offset

        assert offset_of(OffsetSpec.earliest()) == 0
        assert offset_of(OffsetSpec.latest()) == 4
        assert offset_of(OffsetSpec.max_timestamp()) == 1
        assert offset_of(OffsetSpec.for_timestamp(base)) == 0
        assert offset_of(OffsetSpec.for_timestamp(base + 1)) == 1
        assert offset_of(OffsetSpec.for_timestamp(base + 3000)) == 1
        assert offset_of(OffsetSpec.for_timestamp(base + 3001)) == -1

    def test_cluster(self, admin: AdminClient, broker: Target) -> None:
        """If this fails, tools cannot find the brokers."""
        cluster = admin.describe_cluster().result(TIMEOUT_S)
        assert [(node.host, node.port) for node in cluster.nodes] == [(broker.host, broker.port)]
        assert cluster.controller.id == cluster.nodes[0].id
        assert len(cluster.cluster_id) == 22


class TestRecords:
    """The contents of a record, and the options of a producer."""

    def test_headers_nulls_and_timestamps(
        self, broker: Target, topic: str, make_consumer: Callable[..., Consumer]
    ) -> None:
        """If this fails, parts of a record are lost or changed on their way."""
        create_topic(broker.bootstrap, topic)
        now = int(time.time() * 1000)
        sent: list[dict[str, Any]] = [
            {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None)]},
            {"key": None, "value": b"no key"},
            {"key": b"no value", "value": None},
            {"key": b"", "value": b""},
            {"key": "Schlüssel", "value": "значение", "headers": {"ключ": "τιμή"}},
        ]
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for index, record in enumerate(sent):
            producer.produce(topic, partition=0, timestamp=now - index, **record)
        assert producer.flush(TIMEOUT_S) == 0
        consumer = make_consumer()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        got = take(consumer, len(sent))
        assert [message.offset() for message in got] == list(range(len(sent)))
        assert [message.timestamp() for message in got] == [(1, now - index) for index in range(len(sent))]
        assert [(message.key(), message.value()) for message in got] == [
            (b"k", b"v"),
            (None, b"no key"),
            (b"no value", None),
            (b"", b""),
            ("Schlüssel".encode(), "значение".encode()),
        ]
        assert got[0].headers() == sent[0]["headers"]
        assert got[4].headers() == [("ключ", "τιμή".encode())]

    def test_append_time(self, broker: Target, topic: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, a topic that stamps records itself returns the producer's time."""
        create_topic(broker.bootstrap, topic, 1, {"message.timestamp.type": "LogAppendTime"})
        before = int(time.time() * 1000)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        told: list[tuple[int, int]] = []
        producer.produce(topic, b"v", timestamp=12345, on_delivery=lambda _, message: told.append(message.timestamp()))
        assert producer.flush(TIMEOUT_S) == 0
        consumer = make_consumer()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        kind, stamp = take(consumer, 1)[0].timestamp()
        assert kind == 2  # TIMESTAMP_LOG_APPEND_TIME
        assert before <= stamp <= int(time.time() * 1000)
        assert told == [(2, stamp)]

    @pytest.mark.parametrize("codec", ["none", "zstd"])
    def test_large_messages(
        self, broker: Target, topic: str, make_consumer: Callable[..., Consumer], codec: str
    ) -> None:
        """If this fails, a message larger than every buffer cannot be delivered."""
        size = 8_000_000
        create_topic(broker.bootstrap, topic, 1, {"max.message.bytes": str(size + 1000)})
        value = bytes(range(256)) * (size // 256)
        settings: dict[str, Any] = {"message.max.bytes": size + 1000, "compression.type": codec}
        send(broker, topic, [value, b"small", value], **settings)
        consumer = make_consumer(max_partition_fetch_bytes=1_000_000, fetch_message_max_bytes=1_000_000)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert values(take(consumer, 3)) == [value, b"small", value]

    def test_too_large_a_message(self, broker: Target, topic: str) -> None:
        """If this fails, the producer gets success, or nothing, for a message that the topic does not accept."""
        create_topic(broker.bootstrap, topic, 1, {"max.message.bytes": "1000"})
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        errors: list[KafkaError] = []
        producer.produce(topic, b"x" * 2000, on_delivery=failures_to(errors))
        assert producer.flush(TIMEOUT_S) == 0
        assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_acks(self, broker: Target, topic: str, make_consumer: Callable[..., Consumer], acks: str) -> None:
        """If this fails, one of the three ways to acknowledge loses records."""
        create_topic(broker.bootstrap, topic)
        sent = [b"%d" % n for n in range(1000)]
        send(broker, topic, sent, acks=acks)
        consumer = make_consumer()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert values(take(consumer, 1000)) == sent

    def test_idempotent_producer(self, broker: Target, topic: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, the default of most producers today does not work."""
        create_topic(broker.bootstrap, topic, 2)
        sent = [b"%d" % n for n in range(3000)]
        settings = {"enable.idempotence": True, "batch.num.messages": 10, "linger.ms": 0}
        send(broker, topic, sent, 0, **settings)
        send(broker, topic, sent, 1, **settings)
        for partition in (0, 1):
            consumer = make_consumer()
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            assert values(take(consumer, 3000)) == sent

    def test_topics_are_made_on_first_use(
        self, broker: Target, topic: str, make_consumer: Callable[..., Consumer]
    ) -> None:
        """auto.create.topics.enable is on by default, and programs rely on it."""
        send(broker, topic, [b"v"])
        consumer = make_consumer()
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert values(take(consumer, 1)) == [b"v"]


class TestConsumer:
    """One consumer by itself."""

    @pytest.fixture
    def ten(self, broker: Target, topic: str) -> str:
        """A topic with the records 0 to 9."""
        create_topic(broker.bootstrap, topic)
        send(broker, topic, [b"%d" % n for n in range(10)])
        return topic

    def test_seek(self, ten: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, a consumer reads from another offset than the requested one."""
        consumer = make_consumer()
        consumer.assign([TopicPartition(ten, 0, OFFSET_BEGINNING)])
        take(consumer, 5)
        for target in (7, 0, 9, 3):
            consumer.seek(TopicPartition(ten, 0, target))
            assert values(take(consumer, 1)) == [b"%d" % target]

    def test_offsets_for_times(self, broker: Target, topic: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, a replay from a point in time starts elsewhere."""
        create_topic(broker.bootstrap, topic)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        base = int(time.time() * 1000) - 100_000
        for index in range(50):
            producer.produce(topic, b"x", partition=0, timestamp=base + 100 * index)
        assert producer.flush(TIMEOUT_S) == 0
        consumer = make_consumer()
        for when, expected in ((base - 5, 0), (base + 100, 1), (base + 101, 2), (base + 4900, 49), (base + 4901, -1)):
            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, when)], TIMEOUT_S)
            assert found.offset == expected, when

    def test_pause_and_resume(self, ten: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, a paused partition still delivers, or a resumed one loses its place."""
        consumer = make_consumer()
        partition = TopicPartition(ten, 0, OFFSET_BEGINNING)
        consumer.assign([partition])
        take(consumer, 2)
        consumer.pause([TopicPartition(ten, 0)])
        assert consumer.consume(5, 0.7) == []
        consumer.resume([TopicPartition(ten, 0)])
        assert values(take(consumer, 8)) == [b"%d" % n for n in range(2, 10)]

    def test_commit_and_fetch_offsets(self, ten: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, a restarted consumer does not continue where it stopped."""
        first = make_consumer()
        first.subscribe([ten])
        take(first, 4)
        first.commit(offsets=[TopicPartition(ten, 0, 4, metadata="half-way")], asynchronous=False)
        (committed,) = first.committed([TopicPartition(ten, 0)], TIMEOUT_S)
        assert (committed.offset, committed.metadata) == (4, "half-way")
        close_consumer(first)
        second = make_consumer()
        second.subscribe([ten])
        assert values(take(second, 6)) == [b"%d" % n for n in range(4, 10)]

    def test_no_offset_of_a_group_never_seen(self, ten: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, a new group is an error instead of starting by auto.offset.reset."""
        (committed,) = make_consumer().committed([TopicPartition(ten, 0)], TIMEOUT_S)
        assert committed.offset == -1001  # OFFSET_INVALID: none

    def test_end_of_partition(self, ten: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, a batch job never learns that it has read everything."""
        consumer = make_consumer(enable_partition_eof=True)
        consumer.assign([TopicPartition(ten, 0, OFFSET_BEGINNING)])
        codes = [error.code() if (error := message.error()) else 0 for message in consumer.consume(11, TIMEOUT_S)]
        assert codes == [0] * 10 + [KafkaError._PARTITION_EOF]

    def test_a_new_record_wakes_a_waiting_fetch(
        self, broker: Target, ten: str, make_consumer: Callable[..., Consumer]
    ) -> None:
        """If this fails, a consumer at the end of the log sees new records only after its full wait time."""
        consumer = make_consumer(fetch_wait_max_ms=25_000)
        consumer.assign([TopicPartition(ten, 0, 10)])
        assert consumer.consume(1, 0.5) == []
        send(broker, ten, [b"new"])
        assert values(consumer.consume(1, 15)) == [b"new"]

    def test_offset_out_of_range_resets(self, ten: str, make_consumer: Callable[..., Consumer]) -> None:
        """If this fails, a consumer whose records have expired is stuck."""
        consumer = make_consumer()
        consumer.assign([TopicPartition(ten, 0, 5000)])
        assert values(take(consumer, 10)) == [b"%d" % n for n in range(10)]
