"""Real input across kill -9 and restart of the broker: no acknowledged record is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support import corpus
from tests.support.broker import Target
from tests.support.clients import CLIENTS
from tests.support.topics import create_topic

MakeBroker = Callable[..., Target]


@pytest.mark.full
def test_every_client_reads_everything_after_kills(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, some clients read other records than the acknowledged ones after a crash."""
    broker = make_broker({"log.segment.bytes": "1048576"})
    create_topic(broker.bootstrap, topic)
    pairs = corpus.head(9000)
    acknowledged = 0
    failures: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "batch.num.messages": 200,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "queue.buffering.max.messages": 3000,
        }
    )

    def delivered(error: Any, _message: Any) -> None:
        nonlocal acknowledged
        acknowledged += error is None
        if error is not None:
            failures.append(error)

    kills = [len(pairs) // 4, len(pairs) // 2]
    for key, value in pairs:
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
        if kills and acknowledged >= kills[0]:
            kills.pop(0)
            broker.kill()
            broker.restart()
    assert not kills, "the broker was not killed in the midst of it"
    assert producer.flush(60) == 0
    assert not failures, failures[:3]
    # The last record is acknowledged; now the broker is killed before it can write anything more.
    broker.kill()
    broker.restart()
    expected = corpus.digest(pairs)
    digests = {
        name: corpus.digest(client.consume(broker.bootstrap, topic, len(pairs))) for name, client in CLIENTS.items()
    }
    assert digests == dict.fromkeys(CLIENTS, expected)


def test_every_producer_goes_on_after_a_restart(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, a client cannot produce to a broker that was killed and restarted with its data."""
    broker = make_broker()
    pairs = corpus.head(1000)
    create_topic(broker.bootstrap, topic)
    sent = []
    for client in CLIENTS.values():
        client.produce(broker.bootstrap, topic, pairs, "gzip")
        sent += pairs
        broker.kill()
        broker.restart()
        assert corpus.digest(client.consume(broker.bootstrap, topic, len(sent))) == corpus.digest(sent)
