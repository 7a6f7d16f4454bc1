"""What tests with confluent-kafka share: send, take, and the code of an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.broker import Target

TIMEOUT_S = 30.0


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
        consumer.close()


def error_code(call: Callable[[], Any]) -> int:
    """The code of the KafkaException that `call` raises."""
    with pytest.raises(KafkaException) as raised:
        call()
    code: int = raised.value.args[0].code()
    return code
