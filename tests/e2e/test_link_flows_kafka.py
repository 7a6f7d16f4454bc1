"""Topics of Apache Kafka 4.3.1 that a broker mirrors over a link (docs/mirror.md, Link flows)."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka_cluster import kafka_cluster
from tests.support.kafka_peer import KafkaPeer
from tests.support.link_sides import LINK, PARTITIONS, PAUSED, WAIT_S, Side, fill, mirrored, produce_one
from tests.support.wait import until

pytestmark = pytest.mark.full
SETTINGS = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "500"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "0",
}
VALUE = b"v" * 1_000


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Kafka, and our broker with a link to it."""
    kafka = Side(tmp_path_factory.mktemp("kafka"), KafkaPeer, SETTINGS)
    ours = Side(tmp_path_factory.mktemp("ours"))
    ours.link("kafka", kafka.broker.bootstrap)
    try:
        yield kafka, ours
    finally:
        kafka.broker.close()
        ours.broker.close()


@pytest.fixture
def sides(pair: tuple[Side, Side]) -> tuple[Side, Side]:
    """Both with the name of a topic that does not exist yet."""
    for side in pair:
        side.topic = f"t-{uuid.uuid4().hex[:8]}"
    pair[1].topic = pair[0].topic
    return pair


def test_batches_of_kafka_are_equal_also_after_it_was_killed(sides: tuple[Side, Side]) -> None:
    """If this fails, a mirror of Apache Kafka has other bytes than its source, or ends with a restart of its leader."""
    kafka, ours = sides
    kafka.create()
    fill(kafka, 3_000)
    ours.create(**{LINK: "kafka"})
    mirrored(kafka, ours)
    kafka.broker.kill()
    ours.becomes("waiting", "unreachable")
    kafka.broker.restart()
    fill(kafka, 3_000)
    mirrored(kafka, ours)
    assert ours.segments() == kafka.segments()
    assert ours.read() == kafka.read()
    ours.becomes("active")
    until(lambda: {(part.lag_records, part.lag_ms) for part in ours.mirrors()} == {(0, 0)}, "a lag of 0")


def test_records_that_kafka_deletes_are_deleted(sides: tuple[Side, Side]) -> None:
    """If this fails, a mirror keeps what was deleted for a reason, or ends when records were deleted too early."""
    kafka, ours = sides
    kafka.create()
    fill(kafka, 1_000)
    ours.create(**{LINK: "kafka"})
    mirrored(kafka, ours)
    delete(kafka, [end // 2 for end in kafka.ends()])
    until(lambda: ours.starts() == kafka.starts(), "the log start of the source")
    assert all(start > 0 for start in ours.starts())

    ours.alter(PAUSED, "true")
    fill(kafka, 1_000)
    delete(kafka, kafka.ends())
    fill(kafka, 1_000)
    ours.alter(PAUSED, "false")
    mirrored(kafka, ours)
    assert ours.starts() == kafka.starts()
    assert ours.read() == kafka.read()


def delete(side: Side, before: list[int]) -> None:
    """Delete the records of each partition before an offset."""
    wanted = [TopicPartition(side.topic, partition, offset) for partition, offset in enumerate(before)]
    for future in side.admin.delete_records(wanted).values():
        future.result(WAIT_S)


def test_a_mirror_of_a_compacted_topic_has_its_holes(sides: tuple[Side, Side]) -> None:
    """If this fails, a topic that Kafka has compacted cannot be mirrored, or gets other offsets."""
    kafka, ours = sides
    kafka.create(**COMPACTED)
    # Several segments of each partition: the last one is not compacted.
    begin = write_keys(kafka, 12_000, "first")
    # An empty batch stays while its producer may write; others are gone.
    until(lambda: len(kafka.read()) < begin // 2, "compaction in Kafka")
    ours.create(**{LINK: "kafka"})
    mirrored(kafka, ours)
    before = kafka.read()
    assert ours.read() == before
    # More records, which are compacted in the source while the mirror has them as they were written.
    write_keys(kafka, 4_000, "second")
    mirrored(kafka, ours)
    until(lambda: len(kafka.read()) < len(ours.read()), "compaction of copied records")
    write_keys(kafka, 10, "third")
    mirrored(kafka, ours)
    found = set(ours.read())
    assert [each for each in kafka.read() if each not in found] == []


def write_keys(side: Side, count: int, text: str) -> int:
    """Write records of a few keys, some of them in aborted transactions; returns the number of committed ones."""
    producer = side.producer(**{"transactional.id": f"{side.topic}-{text}"})
    producer.init_transactions(WAIT_S)
    committed = 0
    for turn in range(4):
        producer.begin_transaction()
        for each in range(count // 4):
            value = b"%s %d %d" % (text.encode(), turn, each)
            producer.produce(side.topic, value + VALUE, key=b"k%d" % (each % 7), partition=each % PARTITIONS)
        producer.flush(WAIT_S)
        if turn == 1:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
            committed += count // 4
    return committed


def test_a_mirror_is_promoted_while_kafka_is_dead(sides: tuple[Side, Side]) -> None:
    """If this fails, producers cannot write after the failure of the source."""
    kafka, ours = sides
    kafka.create()
    fill(kafka, 1_000)
    ours.create(**{LINK: "kafka"})
    mirrored(kafka, ours)
    before = kafka.read()
    kafka.broker.kill()
    try:
        ours.alter(LINK, None)
        until(lambda: isinstance(produce_one(ours, b"promoted"), Message), "a record after the promotion")
        assert [each for each in ours.read() if each[2] != b"promoted"] == before
        ours.becomes("promoted")
    finally:
        kafka.broker.restart()


def test_records_of_an_old_format_end_the_flow_by_name(sides: tuple[Side, Side]) -> None:
    """If this fails, a mirror of records that Kafka keeps from before 0.11 is tried again and again without a word."""
    kafka, ours = sides
    kafka.create()
    kafka.broker.stop()
    for partition in range(PARTITIONS):
        directory = kafka.broker.data_dir / f"{kafka.topic}-{partition}"
        for each in directory.glob("0*"):
            each.unlink()
        (directory / f"{0:020d}.log").write_bytes(b"".join(old_record(offset) for offset in range(3)))
    kafka.broker.restart()
    # After a restart, partitions have no leader for a while.
    until(lambda: kafka.ends() == [3] * PARTITIONS, "the records in Kafka", tolerate=(KafkaException,))
    ours.create(**{LINK: "kafka"})
    ours.becomes("failed", "old_records")
    assert ours.ends() == [0] * PARTITIONS


def old_record(offset: int) -> bytes:
    """A record of the format of Kafka 0.10 (magic 1): offset, size, CRC, magic, attributes, timestamp, key, value."""
    content = struct.pack(">bbqi1si3s", 1, 0, 1_700_000_000_000 + offset, 1, b"k", 3, b"old")
    message = struct.pack(">I", zlib.crc32(content)) + content
    return struct.pack(">qi", offset, len(message)) + message


def copied(side: Side, records: int) -> None:
    until(lambda: sum(side.ends()) >= records, "the records", tolerate=(KafkaException,))


def test_a_mirror_follows_the_leaders_of_a_cluster(tmp_path: Path) -> None:
    """If this fails, a mirror loses or repeats records when its source elects another leader."""
    ours = Side(tmp_path / "ours")
    try:
        with kafka_cluster(tmp_path / "kafka") as nodes:
            bootstrap = ",".join(node.bootstrap for node in nodes)
            ours.link("kafka", bootstrap)
            admin = AdminClient({"bootstrap.servers": bootstrap})
            topic = NewTopic(ours.topic, PARTITIONS, 3, config={"min.insync.replicas": "2"})
            admin.create_topics([topic])[ours.topic].result(WAIT_S)
            ours.create(**{LINK: "kafka"})
            producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": "2"})
            written = 0
            for victim in (0, 1):
                for _ in range(500):
                    producer.produce(ours.topic, b"%d" % written, partition=written % PARTITIONS)
                    written += 1
                producer.poll(0)
                nodes[victim].kill()
                assert producer.flush(WAIT_S) == 0
                copied(ours, written)
                nodes[victim].restart()
            assert any(part.source_epoch for part in ours.becomes("active")), "no leader has changed"
            found = [(partition, int(value or b"-1")) for partition, _, value in ours.read()]
            assert found == [(part, each) for part in range(PARTITIONS) for each in range(part, written, PARTITIONS)]
    finally:
        ours.broker.close()
