"""Clients that connect directly after a start, before all partitions are open, see no difference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition

from tests.support.acked import batch
from tests.support.broker import Target
from tests.support.confluent import close_consumer
from tests.support.raw_wire import Connection, produce
from tests.support.topics import TIMEOUT_S, create_topic
from tests.support.wait import until

TOPIC = "many"
PARTITIONS = 400


def end(broker: Target, how: str) -> None:
    if how == "kill":
        broker.kill()
    else:
        assert broker.stop() == 0


@pytest.mark.full
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_clients_are_served_right_after_a_start(make_broker: Callable[..., Target], how: str) -> None:
    """If this fails, a client that requests a partition which is not open yet gets an error, or sees it empty."""
    broker = make_broker()
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    topics: dict[str, dict[int, bytes | None]] = {TOPIC: dict.fromkeys(range(PARTITIONS), batch(b"first"))}
    with Connection((broker.host, broker.port)) as connection:
        assert {answer.error for answer in produce(connection, topics).values()} == {0}
    # Twice: the records of partitions that were not opened in between still exist.
    for number in (1, 2):
        end(broker, how)
        broker.restart()
        with Connection((broker.host, broker.port)) as connection:
            answers = produce(connection, {TOPIC: {PARTITIONS - number: batch(b"next")}})
        assert {(answer.error, answer.base_offset) for answer in answers.values()} == {(0, 1)}
    end(broker, how)
    broker.restart()
    read_all(broker)
    # Records that librdkafka writes immediately, to all partitions.
    end(broker, how)
    broker.restart()
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "retries": 0, "acks": "all"})
    for index in range(PARTITIONS):
        producer.produce(
            TOPIC, b"last", partition=index, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert not failures
    end(broker, how)
    broker.restart()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    try:
        places = [KafkaPartition(TOPIC, index) for index in range(PARTITIONS)]
        ends = consumer.end_offsets(places, timeout_ms=int(TIMEOUT_S * 1000))
    finally:
        consumer.close()
    assert sorted(ends.values()) == [2] * (PARTITIONS - 2) + [3] * 2


def read_all(broker: Target) -> None:
    """Read every record, with one consumer of all partitions."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "all", "auto.offset.reset": "error"})
    found: set[tuple[int, int]] = set()

    def poll() -> bool:
        for message in consumer.consume(PARTITIONS, 1.0):
            assert message.error() is None, message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            found.add((partition, offset))
        return len(found) >= PARTITIONS + 2

    try:
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        until(poll, "all records are read")
    finally:
        close_consumer(consumer)
    expected = {(index, 0) for index in range(PARTITIONS)} | {(PARTITIONS - number, 1) for number in (1, 2)}
    assert found == expected
