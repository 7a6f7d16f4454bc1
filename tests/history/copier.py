"""A transactional copier as a process: consume, transform, produce, exactly once.

`python -m tests.history.copier <client> <bootstrap> <input> <output> <group> <partitions> <seed>`, with <client>
confluent or aiokafka, copies until it is killed, in transactions of a random number of records that include the
consumer's offsets. The output record has the key of the input, the partition of the key, and `transformed(value)`. Some
transactions are aborted and repeated. After an error that requires the transaction to be aborted, it returns to the
committed offsets; after any other it exits with code 1, and the test starts it again. For each committed transaction it
prints a line `committed <records>`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import zlib
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

TRANSFORMED = b"copied "
RECORDS_MAX = 200
CALL_S = 10.0
ABORTED_SHARE = 0.1


def transformed(value: bytes) -> bytes:
    """The value of the copied record."""
    return TRANSFORMED + value


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, the same for the input and both copiers."""
    return zlib.crc32(key) % partitions


@dataclass(frozen=True)
class Job:
    bootstrap: str
    source: str
    target: str
    group: str
    partitions: int
    seed: int


def _said(count: int) -> None:
    print(f"committed {count}", flush=True)


# ---- confluent-kafka ----


def copy_confluent(job: Job) -> None:
    soon: dict[str, Any] = {
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 100,
        # Without this, librdkafka 2.16 closes its handle while the only broker is down, and may wait for that forever.
        "metadata.recovery.strategy": "none",
    }
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": job.group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 1000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 50,
            **soon,
        }
    )
    producer = Producer({"bootstrap.servers": job.bootstrap, "transactional.id": job.group, **soon})
    choose = random.Random(job.seed)

    def retried(call: Any, *arguments: Any) -> None:
        while True:
            try:
                call(*arguments, CALL_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def rewind() -> None:
        """Seek to the committed offsets: the records read since then were not copied."""
        for place in consumer.committed(consumer.assignment(), CALL_S):
            place.offset = max(place.offset, 0)
            consumer.seek(place)

    def copy(messages: list[Message], membership: object) -> None:
        offsets: dict[tuple[str, int], int] = {}
        for message in messages:
            key, value, offset = message.key(), message.value(), message.offset()
            topic, place = message.topic(), message.partition()
            assert key is not None
            assert value is not None
            assert offset is not None
            assert topic is not None
            assert place is not None
            producer.produce(job.target, transformed(value), key, partition=partition_of(key, job.partitions))
            offsets[topic, place] = offset + 1
        done = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        retried(producer.send_offsets_to_transaction, done, membership)

    def transaction() -> None:
        # Taken before the records are read: if a rebalance follows, after which other members or this consumer may read
        # them again, the commit fails.
        member, membership = consumer.memberid(), consumer.consumer_group_metadata()
        messages = [each for each in consumer.consume(choose.randint(1, RECORDS_MAX), 0.2) if each.error() is None]
        if not messages:
            return
        if not member:
            # Otherwise the offsets would be accepted from any client, like those of a consumer without a group.
            rewind()
            return
        producer.begin_transaction()
        try:
            copy(messages, membership)
            if choose.random() >= ABORTED_SHARE:
                retried(producer.commit_transaction)
                _said(len(messages))
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        retried(producer.abort_transaction)
        rewind()

    retried(producer.init_transactions)
    consumer.subscribe([job.source])
    while True:
        transaction()


# ---- aiokafka ----


async def copy_aiokafka(job: Job) -> None:
    settings = {"bootstrap_servers": job.bootstrap, "retry_backoff_ms": 20, "request_timeout_ms": 10_000}
    consumer = AIOKafkaConsumer(
        group_id=job.group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        **settings,
    )
    producer = AIOKafkaProducer(transactional_id=job.group, **settings)
    choose = random.Random(job.seed)

    async def transaction() -> None:
        batches = await consumer.getmany(timeout_ms=200, max_records=choose.randint(1, RECORDS_MAX))
        if not batches:
            return
        await producer.begin_transaction()
        sent = []
        for messages in batches.values():
            for message in messages:
                partition = partition_of(message.key, job.partitions)
                value = transformed(message.value)
                sent.append(await producer.send(job.target, value, key=message.key, partition=partition))
        await asyncio.gather(*sent)
        offsets = {place: messages[-1].offset + 1 for place, messages in batches.items()}
        await producer.send_offsets_to_transaction(offsets, job.group)
        if choose.random() < ABORTED_SHARE:
            await producer.abort_transaction()
            for place in batches:
                # Not seek_to_committed(), which does not move the position if nothing is committed yet.
                consumer.seek(place, await consumer.committed(place) or 0)
            return
        await producer.commit_transaction()
        _said(len(sent))

    # The producer first: the transaction that its predecessor left open is ended before the offsets are read. The
    # partitions are assigned rather than subscribed, because after a rebalance this client requests offsets without
    # require-stable (KIP-447), and would read records again whose offsets are being committed.
    await producer.start()
    await consumer.start()
    consumer.assign([AioTopicPartition(job.source, partition) for partition in range(job.partitions)])
    while True:
        await transaction()


def main() -> None:
    client, bootstrap, source, target, group, partitions, seed = sys.argv[1:]
    job = Job(bootstrap, source, target, group, int(partitions), int(seed))
    if client == "confluent":
        copy_confluent(job)
    else:
        asyncio.run(copy_aiokafka(job))


if __name__ == "__main__":
    main()
