"""Fixtures of the tests with kafka-python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from tests.support.broker import Target
from tests.support.kafka_python import TIMEOUT_S, MakeConsumer, create


@pytest.fixture
def admin(broker: Target) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def producer(broker: Target) -> Iterator[KafkaProducer]:
    client = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    yield client
    client.close(TIMEOUT_S)


@pytest.fixture
def make_consumer(broker: Target, group: str) -> Iterator[MakeConsumer]:
    made: list[KafkaConsumer] = []

    def make(*topics: str, **settings: Any) -> KafkaConsumer:
        common = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 50,
            "metadata_max_age_ms": 1000,  # a leader that assigns before it has the metadata corrects itself only then
        }
        made.append(KafkaConsumer(*topics, bootstrap_servers=broker.bootstrap, **{**common, **settings}))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


@pytest.fixture
def ten(admin: KafkaAdminClient, producer: KafkaProducer, topic: str) -> str:
    """A topic with the records 0 to 9 in its one partition."""
    create(admin, topic)
    for number in range(10):
        producer.send(topic, b"%d" % number, partition=0)
    producer.flush(TIMEOUT_S)
    return topic
