"""A real broker on a file system that fills up: its answers, its data, and that it recovers without a restart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import broker, needs
from tests.support.acked import (
    AckedProducer,
    Address,
    batch,
    check_idempotent,
    check_plain,
    init_producer_id,
    read_partition,
)
from tests.support.broker import BrokerProcess
from tests.support.confluent import close_consumer
from tests.support.raw_wire import (
    FIND_COORDINATOR,
    PRODUCE,
    Connection,
    Reader,
    array,
    i32,
    i64,
    produce,
    produce_body,
    receive_frame,
    send_request,
    string,
)
from tests.support.small_disk import SmallDisk
from tests.support.topics import create_topic
from tests.support.wait import until

KAFKA_STORAGE_ERROR, OUT_OF_ORDER_SEQUENCE, NOT_COORDINATOR = 56, 45, 16
OFFSET_COMMIT, OFFSET_FETCH = 8, 9
DISK_BYTES = 24 << 20
SETTINGS = {
    "log.segment.bytes": str(1 << 20),
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}

pytestmark = [
    pytest.mark.skipif(broker.target_is_kafka(), reason="about our own broker"),
    needs.small_disk(),
]


class Full:
    """A broker whose data is stored on a small file system."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        self.disk = SmallDisk(directory, DISK_BYTES)
        self.broker = BrokerProcess(directory / "broker", {**SETTINGS, **settings}, self.disk.path / "data")
        self.broker.wrapper = self.disk.wrapper
        self.data = self.disk.view / "data"

    def address(self) -> Address:
        return self.broker.host, self.broker.port

    def close(self) -> None:
        self.broker.kill()
        self.disk.close()

    def send(self, topic: str, value: bytes, partition: int = 0, **producer: int) -> int:
        """Return the error code of one record."""
        with Connection(self.address()) as connection:
            answers = produce(connection, {topic: {partition: batch(value, **producer)}})
        return answers[topic, partition].error

    def takes(self, topic: str, partition: int = 0) -> bool:
        """Return whether one more record is written."""
        return self.send(topic, b"v", partition) == 0

    def log_start_offset(self, topic: str) -> int:
        with Connection(self.address()) as connection:
            return produce(connection, {topic: {0: batch(b"")}})[topic, 0].log_start_offset

    def create(self, name: str, partitions: int = 1) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=60)[name].result(60)


@pytest.fixture
def make_full(tmp_path: Path) -> Iterator[Callable[..., Full]]:
    """Starts brokers on small disks: `make_full({"name": "value"})`."""
    made: list[Full] = []

    def make(settings: dict[str, str] | None = None) -> Full:
        made.append(Full(tmp_path, settings or {}))
        made[-1].broker.start()
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_producers_go_on_when_there_is_room_again(make_full: Callable[..., Full]) -> None:
    """If this fails, a full disk loses acknowledged records, duplicates or reorders those of an idempotent producer,
    stops consumers, or leaves the broker unusable until it is restarted.
    """
    full = make_full()
    create_topic(full.broker.bootstrap, "t", 2)
    plain = AckedProducer(full.address, "t", 0, name="plain", value_bytes=1000)
    idempotent = AckedProducer(
        full.address, "t", 1, name="idempotent", value_bytes=1000, producer_id=init_producer_id(full.address())
    )
    producers = (plain, idempotent)
    # The first time, the disk is full before the producers have sent anything; then in the middle of a segment and at
    # its end.
    full.disk.fill()
    for producer in producers:
        producer.start()

    def failed_often(producer: AckedProducer) -> bool:
        return len(producer.errors) > 10

    for leave_bytes in (1_500_000, 400_000, 0):
        for producer in producers:
            until(partial(failed_often, producer), f"errors of {producer.name}")
        served = len(read_partition(full.address(), "t", 0))
        assert served >= len(plain.acked) - 5, "consumers are held up"
        full.disk.make_room()
        for producer in producers:
            producer.wait_for(600)
        full.disk.fill(leave_bytes)
        for producer in producers:
            producer.errors.clear()
    full.disk.make_room()
    for producer in producers:
        producer.stop()
    assert set(plain.errors) <= {KAFKA_STORAGE_ERROR}
    assert set(idempotent.errors) <= {KAFKA_STORAGE_ERROR, OUT_OF_ORDER_SEQUENCE}

    def check() -> None:
        check_plain(plain, read_partition(full.address(), "t", 0))
        check_idempotent(idempotent, read_partition(full.address(), "t", 1))

    check()
    full.broker.kill()
    full.broker.restart()
    check()
    assert full.broker.stop() == 0
    full.broker.restart()
    check()
    assert "Traceback" not in full.broker.stderr()


def test_the_log_says_so_and_is_not_flooded(make_full: Callable[..., Full]) -> None:
    """If this fails, the operator is not informed that the disk is full, or log lines fill another disk."""
    full = make_full()
    create_topic(full.broker.bootstrap, "t")
    full.disk.fill()
    for _ in range(100):
        assert full.send("t", b"x" * 5000) == KAFKA_STORAGE_ERROR
    lines = full.broker.stderr().splitlines()
    told = [line for line in lines if "No space left on device" in line and "t-0" in line]
    assert told, lines
    assert len(lines) < 60
    assert "traceback" not in full.broker.stderr()


def test_an_idempotent_producer_keeps_its_order_from_the_first_batch_on(make_full: Callable[..., Full]) -> None:
    """If this fails, the second batch of a producer is stored before its first one, which did not fit."""
    full = make_full()
    create_topic(full.broker.bootstrap, "t")
    producer_id = init_producer_id(full.address())
    full.disk.fill()
    assert full.send("t", b"x" * 5000, producer_id=producer_id, sequence=0) == KAFKA_STORAGE_ERROR
    full.disk.make_room()
    assert full.send("t", b"b", producer_id=producer_id, sequence=1) == OUT_OF_ORDER_SEQUENCE
    assert full.send("t", b"a", producer_id=producer_id, sequence=0) == 0
    assert full.send("t", b"b", producer_id=producer_id, sequence=1) == 0
    assert [value for _, value in read_partition(full.address(), "t")] == [b"a", b"b"]


def test_one_request_over_several_rolls(make_full: Callable[..., Full]) -> None:
    """If this fails, a write that rolls segments and then finds the disk full leaves parts of itself behind."""
    full = make_full()
    # A segment holds two or three batches, whose timestamps are 10 ms apart.
    create_topic(full.broker.bootstrap, "t", config={"segment.ms": "25"})
    acked = 0
    numbers = iter(range(1_000_000))
    with Connection(full.address()) as connection:
        for leave_bytes in (0, 40_000, 80_000, 130_000, 200_000):
            full.disk.fill(leave_bytes)
            wanted = []
            for _ in range(60):
                number = next(numbers)
                value = f"{number}:".encode().ljust(7000, b".")
                data = batch(value, timestamp=1_700_000_000_000 + 10 * number)
                wanted.append(value)
                # The next one is sent before the response: the broker receives many of them in one iteration.
                send_request(connection.sock, PRODUCE, 8, produce_body({"t": {0: data}}), len(wanted))
            errors = []
            for _ in wanted:
                reader = Reader(receive_frame(connection.sock))
                reader.take(4 + 4 + 2 + 1 + 4 + 4)
                errors.append(reader.i16())
            assert set(errors) <= {0, KAFKA_STORAGE_ERROR}
            assert KAFKA_STORAGE_ERROR in errors
            full.disk.make_room()
            acked += errors.count(0)
            records = read_partition(full.address(), "t")
            assert [offset for offset, _ in records] == list(range(acked))
            assert [value for _, value in records][acked - errors.count(0) :] == [
                value for value, error in zip(wanted, errors, strict=True) if not error
            ]
    before = read_partition(full.address(), "t")
    full.broker.kill()
    # No abandoned new segment remains: it would hide the records after it.
    files = sorted((full.data / "t-0").glob("*.log"))
    assert all(file.stat().st_size > 0 for file in files[:-1]), [(file.name, file.stat().st_size) for file in files]
    full.broker.restart()
    assert read_partition(full.address(), "t") == before
    assert full.send("t", b"again") == 0


def test_topics_created_while_full(make_full: Callable[..., Full]) -> None:
    """If this fails, a topic created on a full disk can never be used, or its creation stops the broker."""
    full = make_full()
    create_topic(full.broker.bootstrap, "before")
    full.disk.fill()
    refused = None
    created = []
    for number in range(400):
        try:
            full.create(f"t{number}")
            created.append(f"t{number}")
        except KafkaException as error:
            refused = error.args[0]
            break
    # A topic that fits into the last block of the metadata log is created, others are refused.
    assert refused is not None
    assert refused.code() == KAFKA_STORAGE_ERROR
    assert "No space left on device" in refused.str()
    assert created
    assert full.send(created[0], b"v") == KAFKA_STORAGE_ERROR
    full.disk.make_room()
    for name in (created[0], created[-1]):
        until(partial(full.takes, name), f"{name} can be written to")
    full.create("after")
    until(lambda: full.send("after", b"v") == 0, "a topic can be created again")
    names = set(AdminClient({"bootstrap.servers": full.broker.bootstrap}).list_topics(timeout=60).topics)
    full.broker.kill()
    full.broker.restart()
    assert set(AdminClient({"bootstrap.servers": full.broker.bootstrap}).list_topics(timeout=60).topics) == names
    assert len(read_partition(full.address(), created[0])) == 1
    assert full.send("after", b"v") == 0
    assert "traceback" not in full.broker.stderr()


def commit(connection: Connection, offset: int, metadata: str = "") -> int:
    """Return the error code of an OffsetCommit of t-0 without members."""
    partition = i32(0) + i64(offset) + string(metadata)
    body = string("g") + i32(-1) + string("") + i64(-1) + array([string("t") + array([partition])])
    reader = connection.ask(OFFSET_COMMIT, 2, body)
    assert (reader.i32(), reader.string(), reader.i32(), reader.i32()) == (1, "t", 1, 0)
    return reader.i16()


def committed(connection: Connection) -> int:
    """Return the committed offset of t-0; -1 if no offset is committed or the group is not loaded."""
    reader = connection.ask(OFFSET_FETCH, 1, string("g") + array([string("t") + array([i32(0)])]))
    assert (reader.i32(), reader.string(), reader.i32(), reader.i32()) == (1, "t", 1, 0)
    return reader.i64()


def test_commits_while_full(make_full: Callable[..., Full]) -> None:
    """If this fails, a consumer's commit is acknowledged but not stored, or it can never commit again."""
    full = make_full()
    create_topic(full.broker.bootstrap, "t")
    with Connection(full.address()) as connection:
        connection.ask(FIND_COORDINATOR, 0, string("g"))
        until(lambda: commit(connection, 1) == 0, "the group's coordinator is available")
        full.disk.fill()
        # Commits that fit into the last block of the log are stored.
        last_good, error = 1, 0
        while error == 0 and last_good < 300:
            error = commit(connection, last_good + 1, "x" * 500)
            last_good += error == 0
        assert error == NOT_COORDINATOR, "as Kafka maps KAFKA_STORAGE_ERROR here"
        assert commit(connection, 500) in (0, NOT_COORDINATOR)
        assert committed(connection) in (last_good, 500)
        full.disk.make_room()
        until(lambda: commit(connection, 777) == 0, "commits work again")
        assert committed(connection) == 777
    full.broker.kill()
    full.broker.restart()
    with Connection(full.address()) as connection:
        until(lambda: committed(connection) == 777, "the offset is found after a restart")


def test_groups_that_begin_while_full(make_full: Callable[..., Full]) -> None:
    """If this fails, the first consumer group on a full disk stays unusable when the disk has room again."""
    full = make_full()
    create_topic(full.broker.bootstrap, "t")
    assert full.send("t", b"v") == 0
    full.disk.fill()
    settings = {"bootstrap.servers": full.broker.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    try:
        assert consumer.poll(1.0) is None
        until(lambda: "__consumer_offsets" in full.broker.stderr(), "the group's topic is wanted")
        full.disk.make_room()
        message = until(lambda: consumer.poll(1.0), "the consumer gets its record", 60)
        assert message.value() == b"v"
    finally:
        close_consumer(consumer)


def test_a_stop_while_full(make_full: Callable[..., Full]) -> None:
    """If this fails, a broker on a full disk cannot be stopped, or a start after it trusts files that were not
    written.
    """
    full = make_full()
    create_topic(full.broker.bootstrap, "t")
    producer = AckedProducer(full.address, "t", value_bytes=3000)
    producer.start()
    producer.wait_for(100)
    full.disk.fill()
    until(lambda: len(producer.errors) > 5, "the disk is full")
    assert full.broker.stop() == 0
    assert "Traceback" not in full.broker.stderr()
    assert "traceback" not in full.broker.stderr()
    assert not (full.data / ".kafka_cleanshutdown").exists()
    full.disk.make_room()
    full.broker.restart()
    producer.wait_for(10)
    producer.stop()
    check_plain(producer, read_partition(full.address(), "t"))
    assert full.broker.stop() == 0
    assert (full.data / ".kafka_cleanshutdown").exists()


def test_a_start_while_full(make_full: Callable[..., Full]) -> None:
    """If this fails, a start on a full disk damages data, or its error message does not help."""
    full = make_full()
    create_topic(full.broker.bootstrap, "t")
    for _ in range(50):
        assert full.send("t", bytes(65536)) == 0
    full.broker.kill()
    full.disk.fill()
    child = full.broker.launch()
    assert child.wait(60) == 1
    assert re.fullmatch(r"broker-cy: cannot start: No space left on device.*\n", child.stderr().splitlines(True)[-1])
    assert "Traceback" not in child.stderr()
    full.disk.make_room()
    full.broker.start()
    assert len(read_partition(full.address(), "t")) == 50


def test_partitions_that_find_no_room_at_start_come_back(make_full: Callable[..., Full]) -> None:
    """If this fails, a partition that could not be recovered on a full disk stays offline until the next restart."""
    full = make_full()
    create_topic(full.broker.bootstrap, "t", 3)
    for partition in range(3):
        for number in range(40):
            assert full.send("t", b"%d" % number + bytes(5000), partition) == 0
    full.broker.kill()
    for index in (full.data / "t-0").glob("*index"):
        index.unlink()
    # Enough to become the leader, too little for everything that recovery writes.
    full.disk.fill(20_000)
    full.broker.restart()
    full.disk.make_room()
    for partition in range(3):
        until(partial(full.takes, "t", partition), f"t-{partition} is served")
        assert len(read_partition(full.address(), "t", partition)) == 41


@pytest.mark.parametrize("by", ["size", "time"])
def test_retention_makes_room(make_full: Callable[..., Full], by: str) -> None:
    """If this fails, a full disk stays full, because even deleting old segments needs room."""
    full = make_full({"log.retention.check.interval.ms": "1500", "log.segment.delete.delay.ms": "0"})
    # By size, too many segments exist; by time, all of them are too old, including the active one.
    config = {"retention.bytes": "3000000", "retention.ms": "-1"} if by == "size" else {"retention.ms": "1000"}
    create_topic(full.broker.bootstrap, "t", config=config)
    for _ in range(120):
        assert full.send("t", bytes(65536)) == 0
    full.disk.fill()
    until(lambda: full.send("t", bytes(65536)) == 0 and full.log_start_offset("t") > 0, "retention makes room")
