"""Transactions of confluent-kafka (librdkafka). See conftest.py for the broker under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from tests.support.broker import Target
from tests.support.confluent import TIMEOUT_S, close_consumer, new_consumer, send, take
from tests.support.topics import create_topic

MakeBroker = Callable[..., Target]


def new_producer(broker: Target, name: str, **settings: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": name,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 50,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


def committed(broker: Target, topic: str, count: int, group: str = "reader") -> list[bytes]:
    """Return the values that a read_committed consumer finds up to the end of the topic: exactly `count`."""
    consumer = new_consumer(broker.bootstrap, group, isolation_level="read_committed", enable_partition_eof=False)
    consumer.subscribe([topic])
    try:
        values = [message.value() for message in take(consumer, count)]
        assert consumer.consume(1, 0.3) == []
    finally:
        close_consumer(consumer)
    return [value for value in values if value is not None]


def test_committed_is_seen_and_aborted_is_not(broker: Target, topic: str) -> None:
    """If this fails, the promise of transactions is not kept."""
    create_topic(broker.bootstrap, topic, partitions=2)
    producer = new_producer(broker, f"{topic}-id")
    producer.init_transactions(TIMEOUT_S)
    expected = []
    for number in range(12):
        producer.begin_transaction()
        values = [f"{number}-{i}".encode() for i in range(10)]
        for i, value in enumerate(values):
            producer.produce(topic, value, partition=i % 2)
        if number % 3 == 1:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            expected += values
    assert sorted(committed(broker, topic, len(expected))) == sorted(expected)


def test_transaction_without_records(broker: Target, topic: str) -> None:
    """If this fails, a program that has no records to send gets an error."""
    create_topic(broker.bootstrap, topic)
    producer = new_producer(broker, f"{topic}-id")
    producer.init_transactions(TIMEOUT_S)
    for end in (producer.commit_transaction, producer.abort_transaction) * 2:
        producer.begin_transaction()
        end(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.commit_transaction(TIMEOUT_S)
    assert committed(broker, topic, 1) == [b"x"]


def test_second_producer_fences_the_first(broker: Target, topic: str) -> None:
    """If this fails, a zombie continues writing."""
    create_topic(broker.bootstrap, topic)
    first, second = (new_producer(broker, f"{topic}-id") for _ in range(2))
    first.init_transactions(TIMEOUT_S)
    first.begin_transaction()
    first.produce(topic, b"zombie")
    first.flush(TIMEOUT_S)
    second.init_transactions(TIMEOUT_S)
    second.begin_transaction()
    second.produce(topic, b"second")
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].fatal()
    second.commit_transaction(TIMEOUT_S)
    assert committed(broker, topic, 1) == [b"second"]


def test_transaction_that_takes_too_long_is_aborted(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, a program that hangs blocks all consumers."""
    broker = make_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    create_topic(broker.bootstrap, topic)
    producer = new_producer(broker, f"{topic}-id", transaction_timeout_ms=1000)
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"late")
    producer.flush(TIMEOUT_S)
    send(broker, topic, [b"plain"])
    assert committed(broker, topic, 1) == [b"plain"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)


def copy(consumer: Consumer, producer: Producer, target: str, count: int, *, commit: bool) -> None:
    """Copy the next records and their offsets in one transaction."""
    producer.begin_transaction()
    for message in take(consumer, count):
        producer.produce(target, message.value())
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
    )
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


def test_consume_transform_produce(broker: Target, topic: str) -> None:
    """If this fails, exactly once becomes at least once: offsets are committed without records, or the reverse."""
    source, target = f"{topic}-in", f"{topic}-out"
    create_topic(broker.bootstrap, source)
    create_topic(broker.bootstrap, target)
    values = [str(i).encode() for i in range(30)]
    send(broker, source, values)
    producer = new_producer(broker, f"{topic}-id")
    producer.init_transactions(TIMEOUT_S)
    for commit in (True, False, True, False, True):
        consumer = new_consumer(broker.bootstrap, f"{topic}-group", isolation_level="read_committed")
        consumer.subscribe([source])
        copy(consumer, producer, target, 10, commit=commit)
        close_consumer(consumer)
    assert committed(broker, target, 30) == values


@pytest.mark.parametrize("commit", [True, False])
def test_killed_broker_keeps_what_was_decided(make_broker: MakeBroker, topic: str, commit: bool) -> None:
    """If this fails, a crash loses a committed transaction, or makes an open one visible."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic, partitions=3)
    producer = new_producer(broker, f"{topic}-id")
    producer.init_transactions(TIMEOUT_S)
    expected: list[bytes] = []
    for number in range(5):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, f"{number}-{partition}".encode(), partition=partition)
        producer.commit_transaction(TIMEOUT_S)
        expected += [f"{number}-{partition}".encode() for partition in range(3)]
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(TIMEOUT_S)
    broker.kill()
    broker.restart()
    if commit:
        producer.commit_transaction(TIMEOUT_S)
        expected.append(b"open")
    else:
        other = new_producer(broker, f"{topic}-id")
        other.init_transactions(TIMEOUT_S)
    assert sorted(committed(broker, topic, len(expected))) == sorted(expected)
