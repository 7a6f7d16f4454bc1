"""Transactions of real clients, as read_committed consumers see them, also across kill -9."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.broker import Target, target_is_kafka
from tests.support.confluent import TIMEOUT_S, close_consumer, new_consumer, send, take, values
from tests.support.kafka_dump import dump_log_segments
from tests.support.topics import create_topic
from tests.support.wait import until

MakeBroker = Callable[..., Target]
# transactionStatus of Kafka's TransactionLogValue.
COMPLETE_COMMIT, COMPLETE_ABORT = 4, 5
ours_only = pytest.mark.skipif(target_is_kafka(), reason="reads our data directory")


def new_producer(broker: Target, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def transact(producer: Producer, topic: str, texts: list[bytes], commit: bool, partition: int = 0) -> None:
    producer.begin_transaction()
    for text in texts:
        producer.produce(topic, text, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


def committed(broker: Target, topic: str, partition: int = 0) -> list[bytes | None]:
    """Return every committed value of a partition, up to the last stable offset."""
    consumer = new_consumer(broker.bootstrap, "reader", isolation_level="read_committed", enable_partition_eof=True)
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[bytes | None] = []
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is not None:
                # The end of the partition for a read_committed consumer.
                return found
            found.append(message.value())
        raise AssertionError(f"no end of {topic}-{partition} after {found}")
    finally:
        close_consumer(consumer)


def test_committed_and_aborted(broker: Target, topic: str) -> None:
    """If this fails, read_committed consumers receive aborted records, or miss committed ones."""
    create_topic(broker.bootstrap, topic, 2)
    producer = new_producer(broker, topic)
    expected: list[bytes] = []
    for number in range(6):
        texts = [b"%d.%d" % (number, each) for each in range(3)]
        transact(producer, topic, texts, commit=number % 3 != 1, partition=0)
        if number % 3 != 1:
            expected += texts
        transact(producer, topic, texts, commit=number % 3 == 1, partition=1)
    send(broker, topic, [b"plain"])
    assert committed(broker, topic) == [*expected, b"plain"]
    assert committed(broker, topic, 1) == [b"1.0", b"1.1", b"1.2", b"4.0", b"4.1", b"4.2"]
    # 18 records and 6 markers, and the plain one.
    reader = new_consumer(broker.bootstrap, "other", isolation_level="read_uncommitted")
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert len(values(take(reader, 19))) == 19
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 25)
    close_consumer(reader)


def test_an_open_transaction_holds_readers_up(broker: Target, topic: str) -> None:
    """If this fails, a read_committed consumer receives records that are aborted later, or does not continue when the
    transaction ends.
    """
    create_topic(broker.bootstrap, topic)
    producer = new_producer(broker, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    send(broker, topic, [b"behind"])
    assert committed(broker, topic) == []
    consumer = new_consumer(broker.bootstrap, "waiting", isolation_level="read_committed", fetch_wait_max_ms=40_000)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert consumer.poll(0.5) is None
    producer.commit_transaction(TIMEOUT_S)
    # Much sooner than the waiting fetch would end by itself.
    assert values(take(consumer, 2, timeout_s=30.0)) == [b"open", b"behind"]
    close_consumer(consumer)


def test_records_of_an_open_transaction_are_deleted(broker: Target, topic: str) -> None:
    """If this fails, a read_committed consumer that starts at the end gets an offset before the log start, which is out
    of range.
    """
    create_topic(broker.bootstrap, topic)
    producer = new_producer(broker, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    for value in (b"deleted", b"behind"):  # separate batches
        send(broker, topic, [value])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    place = TopicPartition(topic, 0, 2)
    assert admin.delete_records([place])[place].result(TIMEOUT_S).low_watermark == 2
    consumer = new_consumer(broker.bootstrap, "reader", isolation_level="read_committed")
    assert consumer.get_watermark_offsets(place, TIMEOUT_S) == (2, 2)
    assert committed(broker, topic) == []
    producer.commit_transaction(TIMEOUT_S)
    # Kafka answers when the commit or abort is decided, and writes the marker later.
    until(lambda: consumer.get_watermark_offsets(place, TIMEOUT_S) == (2, 4), "the transaction's marker")
    close_consumer(consumer)
    assert committed(broker, topic) == [b"behind"]


def test_offsets_and_output_together(
    broker: Target, topic: str, group: str, make_consumer: Callable[..., Consumer]
) -> None:
    """If this fails, input counts as processed although its output was aborted, or vice versa."""
    create_topic(broker.bootstrap, topic)
    output = topic + "-out"
    create_topic(broker.bootstrap, output)
    send(broker, topic, [b"%d" % number for number in range(10)])
    consumer = make_consumer(isolation_level="read_committed")
    consumer.subscribe([topic])
    producer = new_producer(broker, topic)
    place = [TopicPartition(topic, 0)]
    for commit in (False, True):
        taken = take(consumer, 5)
        producer.begin_transaction()
        for message in taken:
            producer.produce(output, message.value(), partition=0)
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
        )
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
            assert consumer.committed(place, TIMEOUT_S)[0].offset < 0
            consumer.seek(TopicPartition(topic, 0, 0))
    assert consumer.committed(place, TIMEOUT_S)[0].offset == 5
    assert committed(broker, output) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_successor_fences(broker: Target, topic: str) -> None:
    """If this fails, two instances of one application write at the same time, and every record is stored twice."""
    create_topic(broker.bootstrap, topic)
    first = new_producer(broker, topic)
    first.begin_transaction()
    first.produce(topic, b"of the first", partition=0)
    assert first.flush(TIMEOUT_S) == 0
    second = new_producer(broker, topic)
    transact(second, topic, [b"of the second"], commit=True)
    first.produce(topic, b"late", partition=0)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(TIMEOUT_S)
    assert raised.value.args[0].fatal()
    assert committed(broker, topic) == [b"of the second"]


def test_killed_in_mid_transaction(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, a crash of the broker loses a part of a transaction, or commits an abandoned one."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic)
    producer = new_producer(broker, topic)
    abandoned = new_producer(broker, topic + "-gone")
    expected: list[bytes] = []
    for number in range(3):
        producer.begin_transaction()
        abandoned.begin_transaction()
        texts = [b"%d.%d" % (number, each) for each in range(4)]
        for text in texts[:2]:
            producer.produce(topic, text, partition=0)
        abandoned.produce(topic, b"given up", partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        assert abandoned.flush(TIMEOUT_S) == 0
        broker.kill()
        broker.restart()
        assert committed(broker, topic) == expected
        for text in texts[2:]:
            producer.produce(topic, text, partition=0)
        producer.commit_transaction(TIMEOUT_S)
        # The successor ends the transaction that the producer left open.
        abandoned = new_producer(broker, topic + "-gone")
        expected += texts
    assert committed(broker, topic) == expected


def test_sequences_go_on_behind_deleted_records(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, a producer whose records were deleted up to its marker always fails after a kill -9."""
    broker = make_broker({"log.flush.start.offset.checkpoint.interval.ms": "100"})
    create_topic(broker.bootstrap, topic)
    producer = new_producer(broker, topic)
    transact(producer, topic, [b"%d" % number for number in range(5)], commit=True)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    # The marker has offset 5, and remains.
    for result in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        result.result(TIMEOUT_S)
    checkpoint = broker.data_dir / "log-start-offset-checkpoint"
    noted = f"{topic} 0 5"
    until(lambda: checkpoint.exists() and noted in checkpoint.read_text(), "the checkpoint of the log start", TIMEOUT_S)
    broker.kill()
    broker.restart()
    transact(producer, topic, [b"5"], commit=True)
    assert committed(broker, topic) == [b"5"]


@ours_only
def test_kafka_reads_what_was_written(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, Kafka and its tools can no longer read the log."""
    broker = make_broker({"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"})
    create_topic(broker.bootstrap, topic)
    producer = new_producer(broker, topic)
    transact(producer, topic, [b"a", b"b"], commit=True)
    transact(producer, topic, [b"c"], commit=False)
    consumer = new_consumer(broker.bootstrap, "g", isolation_level="read_committed")
    consumer.subscribe([topic])
    assert values(take(consumer, 2)) == [b"a", b"b"]
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), TIMEOUT_S
    )
    producer.commit_transaction(TIMEOUT_S)
    close_consumer(consumer)
    assert broker.stop() == 0
    dumped = dump_log_segments(files(broker.data_dir / f"{topic}-0"), "--deep-iteration")
    assert dumped.count("endTxnMarker: COMMIT") == 1
    assert dumped.count("endTxnMarker: ABORT") == 1
    assert "firstOffset: 3 lastOffset: 4 lastStableOffset: 5" in dumped
    offsets = dump_log_segments(files(broker.data_dir / "__consumer_offsets-0"), "--offsets-decoder")
    assert offsets.count("endTxnMarker: COMMIT") == 1
    state = dump_log_segments(files(broker.data_dir / "__transaction_state-0"), "--transaction-log-decoder")
    # Two transactions were committed and one was aborted.
    assert [state.count(f'"transactionStatus":{status},') for status in (COMPLETE_COMMIT, COMPLETE_ABORT)] == [2, 1]
    for text in (dumped, offsets, state):
        assert "Found invalid" not in text
        assert "isvalid: false" not in text


def files(directory: Path) -> list[Path]:
    """Return what Kafka's tool reads from a partition, by name."""
    return [
        path
        for path in sorted(directory.iterdir())
        if path.suffix in {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    ]


def test_aiokafka(broker: Target, topic: str, group: str) -> None:
    """The same with a client of the old protocol, which adds partitions and offsets by separate requests."""

    async def work() -> None:
        settings = {"bootstrap_servers": broker.bootstrap, "transactional_id": topic}
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"kept", partition=0)
            await producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): 1}, group)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"dropped", partition=0)
        await producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): 2}, group)
        await producer.abort_transaction()
        successor = AIOKafkaProducer(**settings)
        await successor.start()
        async with successor.transaction():
            await successor.send_and_wait(topic, b"last", partition=0)
        await producer.begin_transaction()
        with pytest.raises(ProducerFenced):
            await producer.send_and_wait(topic, b"late", partition=0)
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        assert await consumer.committed(AioTopicPartition(topic, 0)) == 1
        await consumer.seek_to_beginning(AioTopicPartition(topic, 0))
        assert [(await consumer.getone()).value for _ in range(2)] == [b"kept", b"last"]
        for client in (consumer, successor, producer):
            await client.stop()

    create_topic(broker.bootstrap, topic)
    asyncio.run(asyncio.wait_for(work(), 2 * TIMEOUT_S))
