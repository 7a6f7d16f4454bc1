"""librdkafka and Java clients that are throttled by quotas."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, ThrottleEvent

from broker_cy.wire import messages
from tests.support import kafka_tools, needs
from tests.support.broker import Target
from tests.support.cluster import ask
from tests.support.confluent import close_consumer, read_all
from tests.support.topics import create_topic
from tests.support.wait import until

RECORDS, SIZE = 40, 10_000
# Most of the records fit the quota windows, so that clients are throttled for some seconds.
BYTES_PER_S = RECORDS * SIZE // 16
WAITED_S = 240.0

SetQuota = Callable[[str, str, float | None], None]


def change(broker: Target, client_id: str, key: str, limit: float | None) -> None:
    request = messages.AlterClientQuotasRequest
    part = request.EntityData(entity_type="client-id", entity_name=client_id)
    op = request.OpData(key=key, value=limit or 0.0, remove=limit is None)
    entry = request.EntryData(entity=[part], ops=[op])
    (answer,) = ask(broker.port, request(entries=[entry]), messages.AlterClientQuotasResponse).entries
    assert answer.error_code == 0


@pytest.fixture
def set_quota(broker: Target) -> Iterator[SetQuota]:
    """Sets quotas of client ids, which are removed after the test."""
    found: list[tuple[str, str]] = []

    def set_one(client_id: str, key: str, limit: float | None) -> None:
        change(broker, client_id, key, limit)
        found.append((client_id, key))

    yield set_one
    for client_id, key in found:
        change(broker, client_id, key, None)


def test_librdkafka_gets_how_long_it_waits(broker: Target, topic: str, set_quota: SetQuota) -> None:
    """If this fails, a throttled client loses records, gets errors, or does not see why it is slow."""
    create_topic(broker.bootstrap, topic)
    client_id = f"client-{uuid.uuid4().hex[:8]}"
    set_quota(client_id, "producer_byte_rate", BYTES_PER_S)
    waits: list[float] = []

    def throttled(event: ThrottleEvent) -> None:
        waits.append(event.throttle_time)

    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap,
        "client.id": client_id,
        "throttle_cb": throttled,
        "batch.num.messages": 2,
        "compression.type": "none",
    }
    failed: list[Any] = []
    producer = Producer(settings)
    for number in range(RECORDS):
        producer.produce(
            topic, bytes(SIZE), str(number), on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(60) == 0
    assert not failed
    until(lambda: producer.poll(0.1) >= 0 and max(waits, default=0) > 0, "the wait to be reported to the producer")
    set_quota(client_id, "consumer_byte_rate", BYTES_PER_S)
    waits.clear()
    del settings["batch.num.messages"], settings["compression.type"]
    consumer = Consumer(
        {
            **settings,
            "group.id": client_id,
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 3 * SIZE,
        }
    )
    consumer.subscribe([topic])
    got: list[bytes | None] = []

    def read() -> bool:
        got.extend(message.key() for message in consumer.consume(100, 0.2) if message.error() is None)
        return len(got) >= RECORDS

    until(read, "all records", 60)
    assert got == [str(number).encode() for number in range(RECORDS)]
    assert max(waits, default=0) > 0
    close_consumer(consumer)


# The throttle time follows the cost of the requests, so it is longest on a busy machine.
@pytest.mark.full
@needs.kafka
def test_java_waits(broker: Target, topic: str, set_quota: SetQuota) -> None:
    """If this fails, Kafka's own clients lose records or get errors when they are throttled."""
    create_topic(broker.bootstrap, topic)
    client_id = f"client-{uuid.uuid4().hex[:8]}"
    set_quota(client_id, "producer_byte_rate", BYTES_PER_S)
    set_quota(client_id, "request_percentage", 0.001)
    lines = b"".join(b"%d%s\n" % (number, bytes(SIZE).replace(b"\0", b"x")) for number in range(RECORDS))
    own = ["--producer-property", f"client.id={client_id}", "--producer-property", "batch.size=1000"]
    command = ("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic)
    kafka_tools.run_tool(*command, *own, stdin=lines, timeout_s=WAITED_S)
    found = [int((value or b"").rstrip(b"x")) for value in read_all(broker.bootstrap, topic)]
    assert found == list(range(RECORDS))
