"""Shared helpers of the tests with confluent-kafka: send, take, and the code of an error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.broker import Target

TIMEOUT_S = 60.0
# A close takes a second if the consumer has to leave a group.
CLOSE_S = 10.0
# After this many polls without a group assignment, any outstanding rebalance has been served.
SERVED = 3


def new_consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """A consumer that starts at the beginning and does not commit automatically; settings with _ for dots."""
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
    """Close a consumer; one that does not end within CLOSE_S is abandoned.

    The close of librdkafka 2.16 waits forever, with Apache Kafka as with this broker, if a position is just being
    reset, or if a rebalance has begun for which the consumer has not polled yet. In the latter case confluent-kafka
    holds Python's GIL while it waits: the whole process stops. So the consumer leaves the group and serves outstanding
    events before the close.
    """
    try:
        consumer.unsubscribe()
    except RuntimeError:
        return  # it is closed already
    except KafkaException:
        pass  # fenced: it is no longer a member of a group
    quiet, deadline = 0, time.monotonic() + CLOSE_S
    while quiet < SERVED and time.monotonic() < deadline:
        quiet = 0 if consumer.memberid() and consumer.assignment() else quiet + 1
        consumer.poll(0.02)
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(CLOSE_S)


def failures_to(errors: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    """A delivery callback that collects the errors."""

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    return delivered


def send(broker: Target, topic: str, values: list[bytes], partition: int = 0, **settings: Any) -> None:
    """Produce to one partition with acks=all; AssertionError if any record is not acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", **settings})
    errors: list[KafkaError] = []
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=failures_to(errors))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == []


def take(consumer: Consumer, count: int, timeout_s: float = TIMEOUT_S) -> list[Message]:
    """The next `count` records; AssertionError if they do not arrive within `timeout_s`."""
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
    """Poll until the group has assigned partitions to each consumer."""
    deadline = time.monotonic() + 30
    while not all(consumer.assignment() for consumer in consumers):
        assert time.monotonic() < deadline, "no assignment"
        for consumer in consumers:
            await asyncio.to_thread(consumer.poll, 0.05)
