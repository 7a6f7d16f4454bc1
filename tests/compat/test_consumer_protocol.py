"""librdkafka's consumers with group.protocol=consumer (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import kafka_tools, needs
from tests.support.broker import Target
from tests.support.confluent import close_consumer, new_consumer
from tests.support.wait import until

PARTITIONS = 4
RECORDS = 40
TIMEOUT_S = 60.0
MANY_TOPICS, TOPICS_PER_REQUEST = 3_000, 500

Make = Callable[..., Consumer]


@pytest.fixture
def make(broker: Target) -> Iterator[Make]:
    """Consumers of the new protocol, subscribed to topics."""
    made: list[Consumer] = []

    def new(group: str, *topics: str, **settings: Any) -> Consumer:
        made.append(new_consumer(broker.bootstrap, group, **{"group_protocol": "consumer", **settings}))
        made[-1].subscribe(list(topics))
        return made[-1]

    yield new
    for consumer in made:
        close_consumer(consumer)


def topic(broker: Target, name: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(name, b"%d" % number, partition=number % partitions)
    assert producer.flush(TIMEOUT_S) == 0


def shared(*consumers: Consumer) -> list[int]:
    """The number of partitions of each consumer, after a poll of each."""
    for consumer in consumers:
        message = consumer.poll(0.05)
        error = None if message is None else message.error()
        assert error is None or error.code() == KafkaError._PARTITION_EOF, error
    return [len(consumer.assignment()) for consumer in consumers]


def read(consumer: Consumer, count: int) -> set[bytes]:
    """The values of the next `count` records."""
    found: set[bytes] = set()

    def has_all() -> bool:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            found.add(message.value() or b"")
        return len(found) == count

    until(has_all, f"{count} records", TIMEOUT_S)
    return found


def test_two_consumers_share_the_partitions(broker: Target, make: Make) -> None:
    """If this fails, an application with group.protocol=consumer does not scale, or loses partitions."""
    topic(broker, "shared")
    first = make("sharing", "shared")
    until(lambda: shared(first) == [PARTITIONS], "all partitions", TIMEOUT_S)
    second = make("sharing", "shared")
    until(lambda: shared(first, second) == [2, 2], "two partitions each", TIMEOUT_S)
    mine, other = (set(map(_place, each.assignment())) for each in (first, second))
    assert not mine & other
    close_consumer(second)
    until(lambda: shared(first) == [PARTITIONS], "all partitions", TIMEOUT_S)


def test_offsets_continue(broker: Target, make: Make) -> None:
    """If this fails, a consumer that restarts reads everything again, or skips records."""
    topic(broker, "continued")
    first = make("continuing", "continued")
    assert len(read(first, RECORDS)) == RECORDS
    first.commit(asynchronous=False)
    close_consumer(first)
    topic_again = Producer({"bootstrap.servers": broker.bootstrap})
    topic_again.produce("continued", b"last", partition=1)
    assert topic_again.flush(TIMEOUT_S) == 0
    second = make("continuing", "continued")
    assert read(second, 1) == {b"last"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("continuing")]).values()
    offsets = {each.partition: each.offset for each in listed.result().topic_partitions or []}
    assert sum(offsets.values()) == RECORDS


def test_a_regular_expression(broker: Target, make: Make) -> None:
    """If this fails, a consumer of ^orders.* reads nothing, or not the topics that are created later."""
    topic(broker, "orders.eu", 1)
    topic(broker, "payments", 1)
    consumer = make("patterns", "^orders\\..*")
    until(lambda: shared(consumer) == [1], "the matching topic", TIMEOUT_S)
    assert consumer.assignment()[0].topic == "orders.eu"


@pytest.mark.full
def test_a_regular_expression_of_very_many_topics(broker: Target, make: Make) -> None:
    """If this fails, a consumer whose expression matches 3,000 topics reads some of them only: it gets them in pages,
    and librdkafka has to ask for each.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = [f"wide.{number}" for number in range(MANY_TOPICS)]
    try:
        for first in range(0, MANY_TOPICS, TOPICS_PER_REQUEST):
            part = [NewTopic(name, 1, 1) for name in names[first : first + TOPICS_PER_REQUEST]]
            for created in admin.create_topics(part, request_timeout=TIMEOUT_S).values():
                created.result()
        consumer = make("wide-patterns", "^wide\\..*")
        until(lambda: shared(consumer) == [MANY_TOPICS], "all matching topics", TIMEOUT_S)
        assert {each.topic for each in consumer.assignment()} == set(names)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for name in (names[0], names[-1]):
            producer.produce(name, name.encode())
        assert producer.flush(TIMEOUT_S) == 0
        assert read(consumer, 2) == {names[0].encode(), names[-1].encode()}
    finally:
        for first in range(0, MANY_TOPICS, TOPICS_PER_REQUEST):
            for deleted in admin.delete_topics(names[first : first + TOPICS_PER_REQUEST]).values():
                deleted.exception()


def test_a_static_member_comes_back(broker: Target, make: Make) -> None:
    """If this fails, each restart of a static member moves partitions."""
    topic(broker, "static")
    first = make("statics", "static", group_instance_id="one")
    until(lambda: shared(first) == [PARTITIONS], "all partitions", TIMEOUT_S)
    first.close()
    second = make("statics", "static", group_instance_id="one")
    until(lambda: shared(second) == [PARTITIONS], "its partitions", TIMEOUT_S)


def test_a_group_changes_its_protocol_and_back(broker: Target, make: Make) -> None:
    """If this fails, an application cannot move to the consumer protocol, or back, one instance after the other."""
    topic(broker, "moving")
    settings = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 200}
    first = make("moving", "moving", group_protocol="classic", **settings)
    until(lambda: shared(first) == [PARTITIONS], "all partitions", TIMEOUT_S)
    second = make("moving", "moving")
    until(lambda: shared(first, second) == [2, 2], "two partitions each", TIMEOUT_S)
    close_consumer(second)
    until(lambda: shared(first) == [PARTITIONS], "all partitions again", TIMEOUT_S)


@pytest.mark.full
@needs.java
def test_javas_consumers(broker: Target) -> None:
    """If this fails, Java applications with group.protocol=consumer do not work: see KafkaConsumers.java."""
    topic(broker, "of-java")
    source = Path(__file__).with_name("KafkaConsumers.java")
    words = [broker.bootstrap, "of-java", "javas", str(PARTITIONS), str(RECORDS)]
    shown = kafka_tools.run_program(source, *words, timeout_s=300).stdout.decode()
    assert shown.splitlines()[-1] == "done"


def test_kafkas_tool_describes_the_group(broker: Target, make: Make) -> None:
    """If this fails, kafka-consumer-groups does not show the members of a group, and what they read."""
    topic(broker, "described")
    reader = make("describing", "described", client_id="a-reader", group_instance_id="one")
    assert len(read(reader, RECORDS)) == RECORDS
    reader.commit(asynchronous=False)

    def rows(*options: str) -> list[list[str]]:
        done = kafka_tools.run_tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server",
            broker.bootstrap,
            *options,
        )
        return [line.split() for line in done.stdout.decode().splitlines() if line.startswith("describing")]

    named = ("--describe", "--group", "describing")
    each = str(RECORDS // PARTITIONS)
    offsets = rows(*named)
    assert sorted(row[1:6] for row in offsets) == [["described", str(n), each, each, "0"] for n in range(PARTITIONS)]
    assert {tuple(row[7:]) for row in offsets} == {("/127.0.0.1", "a-reader")}
    (state,) = rows(*named, "--state", "--verbose")
    assert state[2:] == ["(1)", "uniform", "Stable", "2", "2", "1"]
    (member,) = rows(*named, "--members", "--verbose")
    held = f"described:{','.join(map(str, range(PARTITIONS)))}"
    assert member[2:] == ["one", "/127.0.0.1", "a-reader", str(PARTITIONS), "2", held, "2", held]
    assert rows("--list", "--type", "--state") == [["describing", "Consumer", "Stable"]]


def _place(place: TopicPartition) -> tuple[str, int]:
    return place.topic, place.partition
