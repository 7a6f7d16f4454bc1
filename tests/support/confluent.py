"""What tests with confluent-kafka share: send, take, and the code of an error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.broker import Target

TIMEOUT_S = 30.0
# A close takes a second where a group is to be left.
CLOSE_S = 10.0
# So many polls without an assignment by the group have served whatever rebalance was outstanding.
SERVED = 3


def new_consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """A consumer that starts at the beginning and does not commit by itself; settings with _ for dots."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def close_consumer(consumer: Consumer) -> None:
    """Close a consumer; one that does not end within CLOSE_S is left behind.

    librdkafka 2.16 waits forever in its close, with Apache Kafka as with us, where a position is just being reset, or
    a rebalance has begun that nobody polled for yet. In the latter case confluent-kafka holds Python's lock meanwhile:
    the whole process stands still. So the group is left and what is outstanding is served before.
    """
    try:
        consumer.unsubscribe()
    except RuntimeError:
        return  # it is closed already
    except KafkaException:
        pass  # fenced: it belongs to no group any more
    quiet, deadline = 0, time.monotonic() + CLOSE_S
    while quiet < SERVED and time.monotonic() < deadline:
        quiet = 0 if consumer.memberid() and consumer.assignment() else quiet + 1
        consumer.poll(0.02)
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(CLOSE_S)


def failures_to(errors: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    """A delivery callback that keeps the errors."""

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    return delivered


def send(broker: Target, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> None:
    """Produce to one partition with acks=all; AssertionError when any record is not acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", **settings})
    errors: list[KafkaError] = []
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=failures_to(errors))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == []


def take(consumer: Consumer, count: int, timeout_s: float = TIMEOUT_S) -> list[Message]:
    """The next `count` records; AssertionError when they do not come in time."""
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"only {len(messages)} of {count} records came"
        for message in consumer.consume(count - len(messages), 0.5):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def read_all(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    """Every value of a partition, up to its end."""
    consumer = new_consumer(bootstrap, "reader")
    try:
        at = TopicPartition(topic, partition, OFFSET_BEGINNING)
        start, end = consumer.get_watermark_offsets(at, TIMEOUT_S)
        consumer.assign([at])
        return values(take(consumer, end - start))
    finally:
        close_consumer(consumer)


def error_code(call: Callable[[], Any]) -> int:
    """The code of the KafkaException that `call` raises."""
    with pytest.raises(KafkaException) as raised:
        call()
    code: int = raised.value.args[0].code()
    return code


async def assigned(consumers: list[Consumer]) -> None:
    """Poll until each has partitions of its group."""
    deadline = time.monotonic() + 30
    while not all(consumer.assignment() for consumer in consumers):
        assert time.monotonic() < deadline, "no assignment"
        for consumer in consumers:
            await asyncio.to_thread(consumer.poll, 0.05)
