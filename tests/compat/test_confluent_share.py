"""Share groups of confluent-kafka (librdkafka's share consumer, a preview), with the broker as a process."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.broker import Target, new_target
from tests.support.confluent import TIMEOUT_S, send
from tests.support.topics import create_topic

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.min.record.lock.duration.ms": "1000",
    # A member learns its first partitions with its second heartbeat.
    "group.share.min.heartbeat.interval.ms": "200",
    "group.share.heartbeat.interval.ms": "200",
}
Make = Callable[..., ShareConsumer]


@pytest.fixture(scope="module")
def share_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = new_target(tmp_path_factory.mktemp("share"), SETTINGS)
    try:
        yield target.start()
    finally:
        target.close()


@pytest.fixture
def group(share_broker: Target) -> str:
    """A group that begins at the start of its topics."""
    name = "share-" + uuid.uuid4().hex[:8]
    configure(share_broker, name, "share.auto.offset.reset", "earliest")
    return name


def configure(broker: Target, group: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


@pytest.fixture
def make(share_broker: Target, group: str) -> Iterator[Make]:
    """Share consumers of the test's group, closed when it ends."""
    made: list[ShareConsumer] = []

    def start(topic: str, **settings: Any) -> ShareConsumer:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": share_broker.bootstrap,
                "group.id": group,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        made.append(consumer)
        consumer.subscribe([topic])
        return consumer

    yield start
    for consumer in made:
        consumer.close()


def new_topic(broker: Target, partitions: int) -> str:
    name = "topic-" + uuid.uuid4().hex[:8]
    create_topic(broker.bootstrap, name, partitions)
    return name


def take(consumer: ShareConsumer, count: int) -> list[Message]:
    """Poll until `count` records arrived. With explicit acknowledgements all of them have to come at once."""
    found: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records arrived"
        for message in consumer.poll(0.2):
            assert message.error() is None, message.error()
            found.append(message)
    return found


def places(messages: list[Message]) -> list[tuple[int | None, int | None]]:
    return sorted((message.partition(), message.offset()) for message in messages)


def test_consumers_share_the_records_of_partitions(share_broker: Target, make: Make) -> None:
    """If this fails, two consumers of a share group get the same record, or records are left."""
    topic = new_topic(share_broker, 2)
    for partition in range(2):
        send(share_broker, topic, [b"%d %d" % (partition, number) for number in range(500)], partition)
    consumers = [make(topic), make(topic)]
    found: list[list[Message]] = [[], []]

    def work(index: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while sum(map(len, found)) < 1000 and time.monotonic() < deadline:
            found[index].extend(consumers[index].poll(0.2))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = sorted(message.value() or b"" for part in found for message in part)
    assert values == sorted(b"%d %d" % (partition, number) for partition in range(2) for number in range(500))


def test_records_are_accepted_released_and_rejected(share_broker: Target, make: Make) -> None:
    """If this fails, an application cannot give a record back, or gets a rejected one again."""
    topic = new_topic(share_broker, 1)
    send(share_broker, topic, [b"%d" % number for number in range(3)])
    consumer = make(topic, share_acknowledgement_mode="explicit")
    first = take(consumer, 3)
    assert [message.delivery_count() for message in first] == [1, 1, 1]
    for message, kind in zip(
        first, (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT), strict=True
    ):
        consumer.acknowledge(message, kind)
    assert list(consumer.commit_sync(TIMEOUT_S).values()) == [None]
    (again,) = take(consumer, 1)
    assert (again.value(), again.delivery_count()) == (b"1", 2)
    consumer.acknowledge(again)
    assert list(consumer.commit_sync(TIMEOUT_S).values()) == [None]
    assert list(consumer.poll(1.0)) == []


def test_records_of_a_consumer_that_leaves_come_again(share_broker: Target, make: Make) -> None:
    """If this fails, records of a consumer that ended stay locked until their locks end, or are lost."""
    topic = new_topic(share_broker, 1)
    send(share_broker, topic, [b"a", b"b"])
    leaver = make(topic, share_acknowledgement_mode="explicit")
    held = take(leaver, 2)
    leaver.acknowledge(held[0])
    leaver.close()
    again = take(make(topic), 1)
    assert [(message.value(), message.delivery_count()) for message in again] == [(b"b", 2)]


def test_the_lock_of_a_consumer_that_hangs_ends(share_broker: Target, make: Make, group: str) -> None:
    """If this fails, a consumer that hangs keeps its records for ever."""
    configure(share_broker, group, "share.record.lock.duration.ms", "1000")
    topic = new_topic(share_broker, 1)
    send(share_broker, topic, [b"a"])
    hanging = make(topic, share_acknowledgement_mode="explicit")
    (held,) = take(hanging, 1)
    (again,) = take(make(topic), 1)
    assert places([again]) == places([held])
    assert again.delivery_count() == 2
