"""A gigabyte of real input through the broker."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.support import corpus
from tests.support.broker import Target
from tests.support.confluent import close_consumer, failures_to
from tests.support.topics import create_topic

GIGABYTE = 1_000_000_000
# Larger records than paragraphs, so that the clients keep up: this tests the broker's log, not a client's loop.
RECORD_BYTES = 16_384
TIMEOUT_S = 120.0


@pytest.mark.serial
def test_a_gigabyte_comes_out_as_it_went_in(make_broker: Callable[..., Target], topic: str) -> None:
    """If this fails, a log of many segments is read changed, out of order, or with gaps."""
    broker = make_broker({"log.segment.bytes": str(200_000_000)})
    create_topic(broker.bootstrap, topic, 1, {"max.message.bytes": "2000000"})
    text = b"\n\n".join(value for _, value in corpus.paragraphs())
    records = [text[at : at + RECORD_BYTES] for at in range(0, len(text), RECORD_BYTES)]
    rounds = -(-GIGABYTE // len(text))
    sent = hashlib.sha256()
    for _ in range(rounds):
        sent.update(text)
    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "message.max.bytes": 1_900_000,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    for _ in range(rounds):
        for record in records:
            while True:
                try:
                    producer.produce(topic, record, on_delivery=failures_to(errors))
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == []
    count = rounds * len(records)
    assert _read(broker, topic, count) == sent.hexdigest()
    segments = sorted((broker.data_dir / f"{topic}-0").glob("*.log"))
    assert sum(path.stat().st_size for path in segments) > GIGABYTE
    assert len(segments) >= 5
    assert broker.stop() == 0
    broker.restart()
    assert _read(broker, topic, count) == sent.hexdigest()


def _read(broker: Target, topic: str, count: int) -> str:
    """SHA-256 over the values of the first `count` records."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "max.partition.fetch.bytes": 10_000_000,
            "queued.max.messages.kbytes": 200_000,
        }
    )
    sha = hashlib.sha256()
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        seen = 0
        while seen < count:
            messages = consumer.consume(min(2000, count - seen), TIMEOUT_S)
            assert messages, f"nothing more came after {seen} of {count} records"
            for message in messages:
                assert message.error() is None, message.error()
                assert message.offset() == seen
                seen += 1
                sha.update(message.value() or b"")
    finally:
        close_consumer(consumer)
    return sha.hexdigest()
