"""Migration from Kafka: a broker started on Kafka's data directory serves the records that Kafka stored there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from tests.support.broker import Target, target_is_kafka
from tests.support.confluent import close_consumer, new_consumer, send
from tests.support.kafka_dump import (
    aborted_offsets,
    committed_offsets,
    copy_data_directory,
    dumped_records,
    metadata_records,
)
from tests.support.topics import create_topic

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own broker on Kafka's files")

TIMEOUT_S = 60.0
TOPICS = ("sample", "compacted", "__consumer_offsets", "__transaction_state")
# The files are old, and their records must not expire during the test.
FOR_EVER = {"log.retention.ms": "-1", "offsets.retention.minutes": "2147483647"}


class Read(NamedTuple):
    """A record as a client received it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def with_confluent(bootstrap: str, topic: str, isolation: str) -> list[Read]:
    consumer = new_consumer(bootstrap, "reader", enable_partition_eof=True, isolation_level=isolation)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Read] = []
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"nothing more came after {len(found)} records"
            error, offset = message.error(), message.offset()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            assert offset is not None
            # The type allows what a producer may pass; a consumer receives bytes.
            headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
            found.append(Read(offset, message.timestamp()[1], message.key(), message.value(), tuple(headers)))
    finally:
        close_consumer(consumer)


def with_kafka_python(bootstrap: str, topic: str, isolation: str) -> list[Read]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False)
    try:
        at = TopicPartition(topic, 0)
        consumer.assign([at])
        consumer.seek(at, 0)
        end = consumer.end_offsets([at])[at]
        found: list[Read] = []
        while consumer.position(at) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                found += [
                    Read(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in records
                ]
        return found
    finally:
        consumer.close()


def with_aiokafka(bootstrap: str, topic: str, isolation: str) -> list[Read]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> list[Read]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False)
        await consumer.start()
        try:
            at = TopicPartition(topic, 0)
            consumer.assign([at])
            consumer.seek(at, 0)
            end = (await consumer.end_offsets([at]))[at]
            found: list[Read] = []
            while await consumer.position(at) < end:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [
                        Read(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in records
                    ]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), TIMEOUT_S))


READERS = {"confluent-kafka": with_confluent, "kafka-python": with_kafka_python, "aiokafka": with_aiokafka}


@pytest.fixture
def broker(make_broker: Callable[..., Target], tmp_path: Path) -> Target:
    return make_broker(FOR_EVER, copy_data_directory(tmp_path / "kafka-logs"))


def check_records(topic: str, found: list[Read], left_out: set[int]) -> None:
    """`found` is what Kafka dumped: sizes for internal topics, whose records the dump shows decoded, bytes for the
    others.
    """
    expected = [record for record in dumped_records(f"{topic}-0") if record.offset not in left_out]
    assert len(expected) > 5
    assert [each.offset for each in found] == [record.offset for record in expected]
    for each, record in zip(found, expected, strict=True):
        assert each.timestamp_ms == record.timestamp_ms
        assert tuple(name for name, _ in each.headers) == record.header_keys
        for data, size in ((each.key, record.key_bytes), (each.value, record.value_bytes)):
            assert (-1 if data is None else len(data)) == size, each
        if not topic.startswith("__"):
            # As the dump tool prints bytes.
            assert each.key is None or each.key.decode(errors="replace") == record.key
            assert each.value is None or each.value.decode(errors="replace") == record.value
        # The dump has only the names: the producer wrote its codec's name, and a header without a value.
        if each.headers:
            assert each.headers == (("codec", record.codec.encode()), ("n", None))


@pytest.mark.parametrize("client", READERS)
def test_every_topic_reads_as_kafka_dumped_it(broker: Target, client: str) -> None:
    """If this fails, records are missing, changed or invented when this broker serves the data of a Kafka broker."""
    assert len(aborted_offsets("sample-0")) == 11
    for topic in TOPICS:
        check_records(topic, READERS[client](broker.bootstrap, topic, "read_uncommitted"), set())
    check_records("sample", READERS[client](broker.bootstrap, "sample", "read_committed"), aborted_offsets("sample-0"))


def committed(admin: AdminClient) -> dict[tuple[str, str, int], int]:
    found = {}
    for group in ("classic-sample", "consumer-sample"):
        (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        for each in answer.result(TIMEOUT_S).topic_partitions:
            assert each.error is None, each
            found[group, each.topic, each.partition] = each.offset
    return found


def dynamic_configs(admin: AdminClient, kind: ResourceType, name: str, source: ConfigSource) -> dict[str, str]:
    (answer,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {entry.name: entry.value for entry in answer.result(TIMEOUT_S).values() if entry.source == source.value}


def check_cluster(broker: Target) -> None:
    """Check that topics with their ids and settings, and groups, are those of the fixtures."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert admin.list_topics(timeout=TIMEOUT_S).cluster_id == "fixturefixturefixture0"
    described = {
        name: answer.result(TIMEOUT_S) for name, answer in admin.describe_topics(TopicCollection(list(TOPICS))).items()
    }
    # librdkafka shows ids in the other alphabet of base64.
    assert {name: str(each.topic_id).replace("+", "-").replace("/", "_") for name, each in described.items()} == {
        record["name"]: record["topicId"] for record in metadata_records("TOPIC_RECORD")
    }
    settings = metadata_records("CONFIG_RECORD")
    for topic in TOPICS:
        found = dynamic_configs(admin, ResourceType.TOPIC, topic, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        assert found == {each["name"]: each["value"] for each in settings if each["resourceName"] == topic}
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S).valid
    assert {(each.group_id, each.type.name, each.state.name) for each in listed} == {
        ("classic-sample", "CLASSIC", "EMPTY"),
        ("consumer-sample", "CONSUMER", "EMPTY"),
    }
    group = admin.describe_consumer_groups(["classic-sample"])["classic-sample"].result(TIMEOUT_S)
    assert (group.state.name, group.type.name, group.members, group.coordinator.id) == ("EMPTY", "CLASSIC", [], 1)


def test_topics_groups_and_offsets_are_those_of_kafka(broker: Target) -> None:
    """If this fails, consumers start over or skip records after the migration, or topics lose ids and settings."""
    check_cluster(broker)
    assert len(committed_offsets()) == 2
    assert committed(AdminClient({"bootstrap.servers": broker.bootstrap})) == committed_offsets()


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer: Consumer = new_consumer(bootstrap, group)
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        close_consumer(consumer)


def test_what_is_added_outlives_a_kill_with_what_was_there(broker: Target) -> None:
    """If this fails, the first crash after the migration loses old or new records."""
    new = [b"new-%d" % number for number in range(100)]
    settings: dict[str, Any] = {"enable.idempotence": True, "compression.type": "zstd"}
    send(broker, "sample", new, **settings)
    create_topic(broker.bootstrap, "made-here")
    send(broker, "made-here", new)
    commit(broker.bootstrap, "classic-sample", "sample", 600)
    for _ in range(2):
        broker.kill()
        broker.restart()
        for client, read in READERS.items():
            found = read(broker.bootstrap, "sample", "read_committed")
            check_records("sample", [each for each in found if each.offset < 563], aborted_offsets("sample-0"))
            assert [(each.offset, each.value) for each in found if each.offset >= 563] == list(enumerate(new, 563)), (
                client
            )
            assert [each.value for each in read(broker.bootstrap, "made-here", "read_committed")] == new
        check_records("compacted", with_confluent(broker.bootstrap, "compacted", "read_uncommitted"), set())
        check_cluster(broker)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert committed(admin) == {**committed_offsets(), ("classic-sample", "sample", 0): 600}
    assert broker.stop() == 0
    assert "level=error" not in broker.stderr()
