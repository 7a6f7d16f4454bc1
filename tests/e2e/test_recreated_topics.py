"""A topic that is deleted and recreated under the same name: after kill -9 it has no data of the old one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.acked import batch as one_record
from tests.support.acked import init_producer_id, read_partition
from tests.support.broker import Target
from tests.support.raw_wire import Connection, RawBatch, RawRecord, produce
from tests.support.topics import TIMEOUT_S, create_topic
from tests.support.wait import until

TOPIC = "again"


def send(broker: Target, value: str, count: int) -> None:
    """Produce `count` records in one batch, acknowledged with acks=all."""
    records = [RawRecord(value=f"{value} {number}".encode()) for number in range(count)]
    with Connection((broker.host, broker.port)) as connection:
        answer = produce(connection, {TOPIC: {0: RawBatch(records).encode()}})[TOPIC, 0]
    assert (answer.error, answer.base_offset) == (0, 0)


def entries(path: Path) -> dict[str, int]:
    """Offset by "topic partition" in a checkpoint."""
    if not path.exists():
        return {}
    words = [line.rsplit(" ", 1) for line in path.read_text().splitlines() if line.count(" ") == 2]
    return {key: int(offset) for key, offset in words}


def wait_for_entry(path: Path, least: int) -> None:
    until(lambda: entries(path).get(f"{TOPIC} 0", 0) >= least, path.name)


def recreate(broker: Target, admin: AdminClient, **config: str) -> None:
    admin.delete_topics([TOPIC], operation_timeout=TIMEOUT_S)[TOPIC].result(TIMEOUT_S)
    create_topic(broker.bootstrap, TOPIC, config=config)


@pytest.mark.parametrize("clean", [False, True])
def test_deleted_records_take_nothing_of_the_next_topic(make_broker: Callable[..., Target], clean: bool) -> None:
    """If this fails, a new topic loses all its acknowledged records after kill -9, because its predecessor of the same
    name started at a later offset.
    """
    broker = make_broker({"log.flush.offset.checkpoint.interval.ms": "100"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    create_topic(broker.bootstrap, TOPIC)
    send(broker, "old", 5_000)
    for future in admin.delete_records([TopicPartition(TOPIC, 0, 4_000)]).values():
        future.result(TIMEOUT_S)
    for name in ("log-start-offset", "recovery-point-offset", "replication-offset"):
        path = broker.data_dir / f"{name}-checkpoint"
        least = 4_000 if name == "log-start-offset" else 5_000
        wait_for_entry(path, least)
    if clean:
        broker.stop()
        broker.restart()
    recreate(broker, admin)
    send(broker, "new", 1_000)
    broker.kill()
    broker.restart()
    records = read_partition((broker.host, broker.port), TOPIC)
    assert records == [(number, f"new {number}".encode()) for number in range(1_000)]


def test_producers_of_the_old_topic_are_not_those_of_the_new_one(make_broker: Callable[..., Target]) -> None:
    """If this fails, an idempotent producer's first batch to a recreated topic is dropped as a duplicate."""
    broker = make_broker({"log.flush.offset.checkpoint.interval.ms": "50", "log.flush.scheduler.interval.ms": "50"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    address = (broker.host, broker.port)
    producer = init_producer_id(address)
    create_topic(broker.bootstrap, TOPIC, config={"flush.ms": "1"})
    for life in range(5):
        with Connection(address) as connection:
            for sequence in range(life + 3):
                data = one_record(b"%d-%d" % (life, sequence), producer, sequence)
                answer = produce(connection, {TOPIC: {0: data}})[TOPIC, 0]
                assert (answer.error, answer.base_offset) == (0, sequence)
        if life < 4:
            recreate(broker, admin, **{"flush.ms": "1"})
    broker.kill()
    broker.restart()
    expected = [(number, b"4-%d" % number) for number in range(7)]
    assert read_partition(address, TOPIC) == expected
    with Connection(address) as connection:
        for sequence in (6, 7):  # a batch that was sent before, and the next
            answer = produce(connection, {TOPIC: {0: one_record(b"4-%d" % sequence, producer, sequence)}})[TOPIC, 0]
            assert (answer.error, answer.base_offset) == (0, sequence)
    assert read_partition(address, TOPIC) == [*expected, (7, b"4-7")]
