"""Transactions are not served yet: every client learns that at once, and not from a timeout."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

from tests.support.broker import Target
from tests.support.kafka_dist import run_tool
from tests.support.topics import create_topic

# Whoever asks again until then has not given up; the timeout itself is another error.
PATIENCE_S = 30


def test_librdkafka(broker: Target) -> None:
    """A program hangs in init_transactions until its timeout, and is told of a timeout."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE_S)
    error = refused.value.args[0]
    assert error.fatal()
    assert not error.retriable()
    assert error.name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert "this broker does not serve transactions yet" in error.str()


def test_kafka_python(broker: Target) -> None:
    """The same for kafka-python."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="t", max_block_ms=PATIENCE_S * 1000)
    try:
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            producer.init_transactions()
    finally:
        producer.close(timeout=0)


def test_java(broker: Target, topic: str) -> None:
    """The same for the Java client."""
    create_topic(broker.bootstrap, topic)
    arguments = ["--topic", topic, "--num-records", "1", "--record-size", "10", "--throughput", "-1"]
    arguments += ["--bootstrap-server", broker.bootstrap, "--transactional-id", "t"]
    done = run_tool("org.apache.kafka.tools.ProducerPerformance", *arguments, check=False)
    assert done.returncode != 0
    assert b"TransactionalIdAuthorizationException" in done.stdout + done.stderr
