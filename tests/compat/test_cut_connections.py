"""Idempotent producers while connections are cut: no duplicates, no loss, no reordering (KIP-98, KIP-360)."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaProducer

from tests.support.broker import Target, new_target
from tests.support.confluent import TIMEOUT_S, close_consumer, failures_to, new_consumer, take, values
from tests.support.cutting_proxy import CuttingProxy
from tests.support.raw_wire import (
    INIT_PRODUCER_ID,
    Connection,
    ProducedPartition,
    RawBatch,
    RawRecord,
    i32,
    produce,
    string,
)
from tests.support.topics import create_topic
from tests.support.wait import until

NOT_LEADER_OR_FOLLOWER, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 6, 45, 47
RECORDS = 4000


@pytest.fixture(scope="module")
def behind_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, CuttingProxy]]:
    """A broker that advertises the address of a proxy which can cut connections."""
    proxy = CuttingProxy()
    settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    target = new_target(tmp_path_factory.mktemp("behind-proxy"), settings)
    try:
        target.start()
        proxy.connect_to(target.host, target.port)
        yield target, proxy
    finally:
        target.close()
        proxy.close()


def everything(target: Target, topic: str, count: int) -> list[bytes | None]:
    """Return all values of partition 0, and check that nothing follows the last."""
    consumer = new_consumer(f"127.0.0.1:{_proxy_port(target)}", "reader")
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        got = values(take(consumer, count))
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, count)
        return got
    finally:
        close_consumer(consumer)


def _proxy_port(target: Any) -> int:
    return int(target.settings["advertised.listeners"].rsplit(":", 1)[1])


@pytest.mark.parametrize("direction", ["requests", "answers"])
def test_confluent(behind_proxy: tuple[Target, CuttingProxy], topic: str, direction: str) -> None:
    """If this fails, a retry after a cut writes records a second time, or leaves some out."""
    target, proxy = behind_proxy
    bootstrap = f"127.0.0.1:{proxy.port}"
    create_topic(bootstrap, topic)
    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 50,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
        }
    )
    before = proxy.cuts
    for start in range(0, RECORDS, 400):
        # In the middle of a produce request, or of the responses to some.
        if direction == "requests":
            proxy.cut_requests_after(3000)
        else:
            proxy.cut_answers_after(150)
        for number in range(start, start + 400):
            producer.produce(topic, b"%d" % number, partition=0, on_delivery=failures_to(errors))
        assert producer.flush(TIMEOUT_S) == 0
    assert errors == []
    assert proxy.cuts > before + 2, "the proxy did not cut enough to test anything"
    assert everything(target, topic, RECORDS) == [b"%d" % number for number in range(RECORDS)]


def test_confluent_gives_sequences_twice(behind_proxy: tuple[Target, CuttingProxy], topic: str) -> None:
    """Not a property of the broker: librdkafka 2.16 drops a record that it would resend when a transaction is aborted,
    and gives its sequence to the next record, which is then acknowledged although it was not written. When this test
    fails, librdkafka is fixed, and tests/history/producers.py need not start new producers after a kill.
    """
    target, proxy = behind_proxy
    bootstrap = f"127.0.0.1:{proxy.port}"
    create_topic(bootstrap, topic)
    settings = {"linger.ms": 0, "retry.backoff.ms": 20, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, **settings})
    producer.init_transactions(TIMEOUT_S)
    told: dict[bytes, int | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        told[value] = None if error else message.offset()

    producer.begin_transaction()
    producer.produce(topic, b"first", partition=0, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        before = proxy.cuts
        proxy.cut_answers_after(1)
        proxy.connect_to(*nobody.getsockname())
        try:
            producer.produce(topic, b"dropped", partition=0, on_delivery=delivered)
            until(lambda: producer.poll(0.01) is not None and proxy.cuts > before, "the answer to be cut off")
            proxy.cut_now()
            # The client resends outstanding records later; now it waits.
            with pytest.raises(KafkaException) as raised:
                producer.abort_transaction(0.5)
            assert raised.value.args[0].retriable()
        finally:
            proxy.connect_to(target.host, target.port)
    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"lost", partition=0, on_delivery=delivered)
    producer.commit_transaction(TIMEOUT_S)
    assert told == {b"first": 0, b"dropped": None, b"lost": 1}


def test_kafka_python(behind_proxy: tuple[Target, CuttingProxy], topic: str) -> None:
    """The same, with kafka-python's idempotent producer."""
    target, proxy = behind_proxy
    bootstrap = f"127.0.0.1:{proxy.port}"
    create_topic(bootstrap, topic)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        acks="all",
        batch_size=400,
        retry_backoff_ms=20,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50,
    )
    before = proxy.cuts
    futures = []
    for number in range(1500):
        if number % 300 == 100:
            proxy.cut_answers_after(100)
        futures.append(producer.send(topic, b"%d" % number, partition=0))
        if number % 50 == 0:
            futures[-1].get(TIMEOUT_S)
    producer.flush(TIMEOUT_S)
    for future in futures:
        future.get(TIMEOUT_S)
    producer.close(TIMEOUT_S)
    assert proxy.cuts > before + 2, "the proxy did not cut enough to test anything"
    assert everything(target, topic, 1500) == [b"%d" % number for number in range(1500)]


def test_aiokafka(behind_proxy: tuple[Target, CuttingProxy], topic: str) -> None:
    """The same, with aiokafka's idempotent producer."""
    target, proxy = behind_proxy
    bootstrap = f"127.0.0.1:{proxy.port}"
    create_topic(bootstrap, topic)

    async def body() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, max_batch_size=400, retry_backoff_ms=20
        )
        await producer.start()
        try:
            for start in range(0, 1500, 300):
                proxy.cut_answers_after(100)
                futures = [await producer.send(topic, b"%d" % n, partition=0) for n in range(start, start + 300)]
                await asyncio.gather(*futures)
        finally:
            await producer.stop()

    before = proxy.cuts
    asyncio.run(asyncio.wait_for(body(), 2 * TIMEOUT_S))
    assert proxy.cuts > before + 2, "the proxy did not cut enough to test anything"
    assert everything(target, topic, 1500) == [b"%d" % number for number in range(1500)]


def test_a_consumer_goes_on_after_cuts(behind_proxy: tuple[Target, CuttingProxy], topic: str) -> None:
    """If this fails, a cut in the middle of a fetched batch loses or repeats records, or leaves the group hanging."""
    _, proxy = behind_proxy
    bootstrap = f"127.0.0.1:{proxy.port}"
    create_topic(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    value = b"x" * 1000
    for number in range(5000):
        producer.produce(topic, b"%d " % number + value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = new_consumer(
        bootstrap,
        "cut-" + topic,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50,
        max_partition_fetch_bytes=100_000,
    )
    try:
        consumer.subscribe([topic])
        got: list[bytes | None] = []
        before = proxy.cuts
        while len(got) < 5000:
            if len(got) // 1000 > proxy.cuts - before - 1 and proxy.cuts - before < 4:
                proxy.cut_answers_after(50_000)
            deadline = time.monotonic() + TIMEOUT_S
            messages = [m for m in consumer.consume(250, 0.5) if m.error() is None]
            got += values(messages)
            assert time.monotonic() < deadline
        assert got == [b"%d " % number + value for number in range(5000)]
        assert proxy.cuts > before
    finally:
        close_consumer(consumer)


class TestSequences:
    """The rules for sequences, with hand-made batches."""

    @pytest.fixture(scope="class")
    def connection(self, broker: Target) -> Iterator[Connection]:
        with Connection((broker.host, broker.port)) as connection:
            yield connection

    @pytest.fixture
    def producer_id(self, connection: Connection) -> int:
        return _init(connection)

    @pytest.fixture
    def send(
        self, broker: Target, connection: Connection, topic: str, producer_id: int
    ) -> Callable[..., ProducedPartition]:
        """Send a batch of `count` records with a sequence and an epoch."""
        create_topic(broker.bootstrap, topic)

        def send(sequence: int, count: int = 1, epoch: int = 0, **fields: Any) -> ProducedPartition:
            batch = RawBatch(
                records=[RawRecord(value=b"%d" % (sequence + index)) for index in range(count)],
                **{"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, **fields},
            )
            answer: list[ProducedPartition] = []

            def led() -> bool:
                answer[:] = [produce(connection, {topic: {0: batch.encode()}})[topic, 0]]
                return answer[0].error != NOT_LEADER_OR_FOLLOWER

            until(led, "the leader")  # metadata may name it shortly before it leads
            return answer[0]

        return send

    def test_duplicates_get_their_first_answer(self, send: Callable[..., ProducedPartition]) -> None:
        """If this fails, a repeated batch is written again, or gets another offset than the first time."""
        firsts = [send(5 * index, 5) for index in range(7)]
        assert [(answer.error, answer.base_offset) for answer in firsts] == [(0, 5 * index) for index in range(7)]
        for index in range(2, 7):  # the last five
            again = send(5 * index, 5)
            assert (again.error, again.base_offset) == (0, 5 * index)
        assert send(35).base_offset == 35

    def test_older_duplicates_are_refused(self, send: Callable[..., ProducedPartition]) -> None:
        """If this fails, a batch older than the last five counts as a new one."""
        for index in range(7):
            send(5 * index, 5)
        assert send(5, 5).error in (46, OUT_OF_ORDER_SEQUENCE_NUMBER)  # 46: DUPLICATE_SEQUENCE_NUMBER
        assert send(35).base_offset == 35

    def test_gaps_are_refused(self, send: Callable[..., ProducedPartition]) -> None:
        """If this fails, a lost batch goes unnoticed."""
        assert send(0).error == 0
        assert send(2).error == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(1).error == 0
        assert send(2).base_offset == 2

    def test_sequences_start_at_zero_in_a_new_epoch(self, send: Callable[..., ProducedPartition]) -> None:
        """If this fails, a producer that was fenced or restarted keeps writing with its old sequences."""
        assert send(0, 3).error == 0
        assert send(7, epoch=1).error == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(0, epoch=1).error == 0
        assert send(3, epoch=0).error == INVALID_PRODUCER_EPOCH

    def test_sequences_wrap(self, send: Callable[..., ProducedPartition]) -> None:
        """If this fails, a producer that has sent 2^31 records can send no more."""
        largest = 2**31 - 1
        assert send(largest - 1, 2).error == 0  # an unknown producer may start anywhere
        assert send(0, 2).error == 0
        assert send(2).error == 0

    def test_a_batch_that_is_partly_a_duplicate(self, send: Callable[..., ProducedPartition]) -> None:
        """If this fails, overlapping batches write records twice."""
        assert send(0, 4).error == 0
        assert send(0, 2).error in (46, OUT_OF_ORDER_SEQUENCE_NUMBER)
        assert send(2, 4).error == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(4).base_offset == 4

    def test_two_producers_do_not_disturb_each_other(
        self, send: Callable[..., ProducedPartition], connection: Connection
    ) -> None:
        """If this fails, producers share sequences."""
        other = _init(connection)
        assert send(0).error == 0
        assert send(0, producer_id=other).base_offset == 1
        assert send(1).base_offset == 2
        assert send(1, producer_id=other).base_offset == 3
        assert send(0).base_offset == 0

    def test_state_survives_a_restart(self, make_broker: Callable[..., Target], topic: str) -> None:
        """If this fails, a restarted broker takes a retried batch for a new one."""
        target = make_broker()
        create_topic(target.bootstrap, topic)
        with Connection((target.host, target.port)) as connection:
            producer_id = _init(connection)

        def send(sequence: int) -> tuple[int, int]:
            # With the current time: a restart expires the producer state of an old batch.
            now_ms = int(time.time() * 1000)
            batch = RawBatch(
                producer_id=producer_id, producer_epoch=0, base_sequence=sequence, base_timestamp=now_ms
            ).encode()
            with Connection((target.host, target.port)) as connection:
                answer = produce(connection, {topic: {0: batch}})[topic, 0]
            return answer.error, answer.base_offset

        assert [send(number) for number in range(3)] == [(0, 0), (0, 1), (0, 2)]
        for end in (target.stop, target.kill):
            end()
            target.restart()
            # The topic exists immediately; its leader may take a moment.
            until(lambda: send(9)[0] not in (3, NOT_LEADER_OR_FOLLOWER), "the leader")
            assert send(2) == (0, 2)
            assert send(9)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(3) == (0, 3)

    def test_producer_ids_are_never_given_twice(self, make_broker: Callable[..., Target]) -> None:
        """If this fails, two producers with one id take each other's batches for duplicates."""
        target = make_broker()
        given: list[int] = []
        for end in (target.stop, target.kill, target.kill):
            with Connection((target.host, target.port)) as connection:
                given += [_init(connection) for _ in range(10)]
            end()
            target.restart()
        assert len(set(given)) == len(given) == 30


def _init(connection: Connection) -> int:
    """Request a producer id (InitProducerId 1)."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        reader = connection.ask(INIT_PRODUCER_ID, 1, string(None) + i32(60_000))
        reader.i32()
        error, producer_id, epoch = reader.i16(), reader.i64(), reader.i16()
        if error == 0:
            assert (producer_id >= 0, epoch) == (True, 0)
            return producer_id
        # A broker that has just started may still fetch its block of ids.
        assert error in (14, 15, 16), error  # COORDINATOR_LOAD_IN_PROGRESS, _NOT_AVAILABLE, NOT_COORDINATOR
        assert time.monotonic() < deadline, error
        time.sleep(0.05)
