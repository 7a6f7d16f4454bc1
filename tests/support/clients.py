"""Five clients with one interface: produce a list of records in order, read a one-partition topic from its start."""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker_cy.launch.processes import run
from tests.support import node
from tests.support.corpus import Pair

if TYPE_CHECKING:
    from confluent_kafka import Message

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 90.0
_KEY_END, _RECORD_END = b"\x01", b"\x02"


@dataclass(frozen=True)
class Client:
    """`produce(bootstrap, topic, pairs, codec)` returns when all records are acknowledged with acks=all;
    `consume(bootstrap, topic, count)` reads the first `count` records of partition 0. `fast` clients are those that get
    the whole input.
    """

    name: str
    fast: bool
    produce: Callable[[str, str, Sequence[Pair], str], None]
    consume: Callable[[str, str, int], list[Pair]]


def _kcat_produce(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str) -> None:
    lines = b"".join(key + _KEY_END + value + _RECORD_END for key, value in pairs)
    assert lines.count(_KEY_END) == len(pairs) == lines.count(_RECORD_END), "the input contains kcat's delimiters"
    kcat(bootstrap, "-P", "-t", topic, "-z", codec, "-K", r"\x01", "-D", r"\x02", "-X", "acks=all", stdin=lines)


def _kcat_consume(bootstrap: str, topic: str, count: int) -> list[Pair]:
    out = kcat(bootstrap, "-C", "-q", "-t", topic, "-p", "0", "-o", "beginning", "-c", str(count), "-f", "%K %S\n%k%s")
    pairs, at = [], 0
    while at < len(out):
        line_end = out.index(b"\n", at)
        key_size, value_size = map(int, out[at:line_end].split())
        key_end = line_end + 1 + key_size
        pairs.append((out[line_end + 1 : key_end], out[key_end : key_end + value_size]))
        at = key_end + value_size
    return pairs


def kcat(bootstrap: str, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run kcat and return its output."""
    return run(["kcat", "-b", bootstrap, *arguments], stdin=stdin, timeout_s=TIMEOUT_S).stdout


def _confluent_produce(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str) -> None:
    from confluent_kafka import Producer

    settings = {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "acks": "all",
        "linger.ms": 20,
        "batch.size": 262_144,
    }
    producer = Producer(settings)
    failures: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    for key, value in pairs:
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(TIMEOUT_S) == 0, "not all was delivered in time"
    assert not failures, failures[:3]


def _confluent_consume(bootstrap: str, topic: str, count: int) -> list[Pair]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    from tests.support.confluent import close_consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        pairs: list[Pair] = []
        while len(pairs) < count:
            messages = consumer.consume(min(5000, count - len(pairs)), timeout=TIMEOUT_S)
            assert messages, f"nothing more came after {len(pairs)} of {count} records"
            for message in messages:
                assert message.error() is None, message.error()
                pairs.append(pair_of(message))
        return pairs
    finally:
        close_consumer(consumer)


def pair_of(message: Message) -> Pair:
    """Key and value of a record that has both."""
    key, value = message.key(), message.value()
    assert key is not None, "a record without a key"
    assert value is not None, "a record without a value"
    return key, value


def _kafka_python_produce(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        linger_ms=20,
        batch_size=131_072,
        compression_type=None if codec == "none" else codec,
    )
    try:
        futures = [producer.send(topic, value, key) for key, value in pairs]
        producer.flush(TIMEOUT_S)
        for future in futures:
            future.get(TIMEOUT_S)
    finally:
        producer.close(TIMEOUT_S)


def _kafka_python_consume(bootstrap: str, topic: str, count: int) -> list[Pair]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return [(record.key, record.value) for record in itertools.islice(consumer, count)]
    finally:
        consumer.close()


def _aiokafka_produce(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str) -> None:
    from aiokafka import AIOKafkaProducer

    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            linger_ms=20,
            max_batch_size=131_072,
            compression_type=None if codec == "none" else codec,
        )
        await producer.start()
        try:
            futures = [await producer.send(topic, value, key) for key, value in pairs]
            await asyncio.gather(*futures)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(produce(), TIMEOUT_S))


def _aiokafka_consume(bootstrap: str, topic: str, count: int) -> list[Pair]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def consume() -> list[Pair]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            pairs: list[Pair] = []
            while len(pairs) < count:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    pairs += [(record.key, record.value) for record in records]
            return pairs[:count]
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(consume(), TIMEOUT_S))


def pack(pairs: Iterable[Pair]) -> bytes:
    """Records as the scripts of tests/e2e/node read and write them."""
    return b"".join(struct.pack(">II", len(key), len(value)) + key + value for key, value in pairs)


def unpack(data: bytes, allow_partial: bool = False) -> list[Pair]:
    """The inverse of `pack`; `allow_partial` if the last record may be incomplete."""
    pairs, at = [], 0
    while at < len(data):
        if allow_partial and len(data) - at < 8:
            break
        key_size, value_size = struct.unpack_from(">II", data, at)
        key_end = at + 8 + key_size
        if allow_partial and key_end + value_size > len(data):
            break
        pairs.append((data[at + 8 : key_end], data[key_end : key_end + value_size]))
        at = key_end + value_size
    return pairs


def _platformatic_produce(bootstrap: str, topic: str, pairs: Sequence[Pair], codec: str) -> None:
    node.run_script("records.mjs", "produce", bootstrap, topic, codec, stdin=pack(pairs), timeout_s=TIMEOUT_S)


def _platformatic_consume(bootstrap: str, topic: str, count: int) -> list[Pair]:
    return unpack(node.run_script("records.mjs", "consume", bootstrap, topic, str(count), timeout_s=TIMEOUT_S).stdout)


CLIENTS = {
    client.name: client
    for client in (
        Client("kcat", True, _kcat_produce, _kcat_consume),
        Client("confluent-kafka", True, _confluent_produce, _confluent_consume),
        Client("kafka-python", False, _kafka_python_produce, _kafka_python_consume),
        Client("aiokafka", False, _aiokafka_produce, _aiokafka_consume),
        Client("platformatic", False, _platformatic_produce, _platformatic_consume),
    )
}
