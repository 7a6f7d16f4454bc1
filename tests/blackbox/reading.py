"""Reads all records of a broker, with several clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPlace
from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPlace

from tests.blackbox.clients import HEADER
from tests.blackbox.model import Found, Reading
from tests.support.confluent import close_consumer, new_consumer
from tests.support.wait import until

TIMEOUT_S = 60.0
Place = tuple[str, int]


def names(bootstrap: str) -> dict[str, int]:
    """Return the number of partitions by topic, of all topics that are not internal to the broker."""
    found = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(timeout=TIMEOUT_S).topics
    return {name: len(topic.partitions) for name, topic in found.items() if not name.startswith("__")}


def wait_for_ends(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until every transaction has ended: then its markers are in the log."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}

    def ends(level: IsolationLevel) -> list[int]:
        found = admin.list_offsets(asked, isolation_level=level)
        return [found[TopicPartition(topic, number)].result(TIMEOUT_S).offset for number in range(partitions)]

    until(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        f"the transactions in {topic} to end",
        TIMEOUT_S,
    )


def read(bootstrap: str, topics: Mapping[str, int], *, committed: bool) -> dict[str, list[Reading]]:
    """Read all partitions of the topics, given with their numbers of partitions, with confluent-kafka, from the log
    start to the end.
    """
    level = "read_committed" if committed else "read_uncommitted"
    places = [(topic, number) for topic, count in topics.items() for number in range(count)]
    consumer = new_consumer(bootstrap, "reader", isolation_level=level, enable_partition_eof=True, check_crcs=True)
    try:
        bounds = {place: consumer.get_watermark_offsets(TopicPartition(*place), TIMEOUT_S) for place in places}
        consumer.assign([TopicPartition(*place, start) for place, (start, _) in bounds.items()])
        records = _take(consumer, places)
    finally:
        close_consumer(consumer)
    readings: dict[str, list[Reading]] = {topic: [] for topic in topics}
    for place, (start, end) in bounds.items():
        readings[place[0]].append(Reading(committed, start, end, records[place]))
    return readings


def _take(consumer: Consumer, places: list[Place]) -> dict[Place, list[Found]]:
    records: dict[Place, list[Found]] = {place: [] for place in places}
    ended: set[Place] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while len(ended) < len(places):
        assert time.monotonic() < deadline, f"reading stopped before the end of {set(places) - ended}"
        for message in consumer.consume(1000, 0.01):
            topic, number, error = message.topic(), message.partition(), message.error()
            assert topic is not None
            assert number is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, f"reading {topic}-{number}: {error}"
                ended.add((topic, number))
                continue
            headers, offset = dict(message.headers() or ()), message.offset()
            assert offset is not None
            records[topic, number].append(Found(_id(headers.get(HEADER)), offset, message.key(), message.value()))
    return records


def _id(header: object) -> str:
    assert isinstance(header, bytes), "a record without the header of our senders"
    return header.decode()


def take_with_aiokafka(bootstrap: str, topic: str, number: int, start: int, count: int) -> list[Found]:
    """Read `count` records of one partition, from an offset."""

    async def take() -> list[Found]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        try:
            place = AioPlace(topic, number)
            consumer.assign([place])
            consumer.seek(place, start)
            records: list[Found] = []
            while len(records) < count:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    records += [Found(_id(dict(r.headers)[HEADER]), r.offset, r.key, r.value) for r in batch]
            return records
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(take(), TIMEOUT_S))


def take_with_kafka_python(bootstrap: str, topic: str, number: int, start: int, count: int) -> list[Found]:
    """The same with kafka-python."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    try:
        place = PythonPlace(topic, number)
        consumer.assign([place])
        consumer.seek(place, start)
        records: list[Found] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(records) < count:
            assert time.monotonic() < deadline, f"kafka-python got {len(records)} of {count} records of {topic}"
            for batch in consumer.poll(200).values():
                records += [Found(_id(dict(r.headers)[HEADER]), r.offset, r.key, r.value) for r in batch]
        return records
    finally:
        consumer.close()


TAKE: dict[str, Callable[[str, str, int, int, int], list[Found]]] = {
    "aiokafka": take_with_aiokafka,
    "kafka-python": take_with_kafka_python,
}
