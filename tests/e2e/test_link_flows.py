"""A topic of one broker mirrors a topic of another one, is promoted, and is mirrored back (docs/mirror.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.support.broker import BrokerProcess
from tests.support.wait import until

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 10_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LINK, PAUSED, SOURCE_ID = "brokercy.mirror.link", "brokercy.mirror.paused", "brokercy.mirror.source.topic.id"
WAIT_S = 60.0


class Side:
    """A broker and its clients."""

    def __init__(self, directory: Path) -> None:
        self.links = directory / "links"
        self.links.mkdir(parents=True)
        self.broker = BrokerProcess(directory, {"brokercy.mirror.links.dir": str(self.links)})
        self.broker.start()
        self.admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})

    def link(self, name: str, other: Side) -> None:
        (self.links / f"{name}.properties").write_text(f"bootstrap.servers={other.broker.bootstrap}\n")

    def create(self, **settings: str) -> None:
        topic = NewTopic(TOPIC, PARTITIONS, 1, config=settings)
        self.admin.create_topics([topic])[TOPIC].result(WAIT_S)

    def alter(self, name: str, value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(WAIT_S)

    def settings(self) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, TOPIC)
        (future,) = self.admin.describe_configs([resource]).values()
        return {name: entry.value for name, entry in future.result(WAIT_S).items()}

    def producer(self, **settings: str) -> Producer:
        return Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": "5", "log_level": "2", **settings})

    def ends(self, isolation: str = "read_uncommitted") -> list[int]:
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "ends", "isolation.level": isolation}
        )
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(TOPIC, each), WAIT_S)[1] for each in range(PARTITIONS)
            ]
        finally:
            consumer.close()

    def segments(self) -> dict[str, bytes]:
        """The bytes of the segment files of each partition."""
        found = {}
        for partition in range(PARTITIONS):
            files = sorted((self.broker.data_dir / f"{TOPIC}-{partition}").glob("*.log"))
            found[f"{TOPIC}-{partition}"] = b"".join(file.read_bytes() for file in files)
        return found

    def read(self) -> list[tuple[int, int, bytes | None]]:
        """(partition, offset, value) of all committed records."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "read",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
        found: list[tuple[int, int, bytes | None]] = []
        ended: set[int | None] = set()
        try:
            while len(ended) < PARTITIONS:
                for message in consumer.consume(500, 0.2):
                    if message.error() is not None:
                        ended.add(message.partition())
                    else:
                        found.append((message.partition() or 0, message.offset() or 0, message.value()))
        finally:
            consumer.close()
        return sorted(found)


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    east, west = Side(tmp_path / "east"), Side(tmp_path / "west")
    east.link("west", west)
    west.link("east", east)
    try:
        yield east, west
    finally:
        east.broker.close()
        west.broker.close()


def fill(side: Side, count: int) -> None:
    """Write records with every codec, with and without transactions; every third transaction is aborted."""
    for number, codec in enumerate(CODECS):
        share = count // len(CODECS)
        plain = side.producer(**{"compression.type": codec})
        for each in range(share // 2):
            plain.produce(TOPIC, b"%s %d" % (codec.encode(), each), partition=each % PARTITIONS)
        plain.flush(WAIT_S)
        atomic = side.producer(**{"compression.type": codec, "transactional.id": codec})
        atomic.init_transactions(WAIT_S)
        for turn in range(3):
            atomic.begin_transaction()
            for each in range(share // 6):
                atomic.produce(TOPIC, b"%s %d %d" % (codec.encode(), turn, each), partition=each % PARTITIONS)
            atomic.flush(WAIT_S)  # else an aborted transaction would have no records in the log
            if turn == number % 3:
                atomic.abort_transaction(WAIT_S)
            else:
                atomic.commit_transaction(WAIT_S)


def mirrored(source: Side, target: Side) -> None:
    until(lambda: target.ends() == source.ends(), "the end of the source", tolerate=(KafkaException,))


def produce_one(side: Side, value: bytes) -> Message | str:
    """Produce a record, and return it, or the name of its error."""
    answers: list[Message | str] = []
    producer = side.producer()
    producer.produce(
        TOPIC,
        value,
        partition=0,
        on_delivery=lambda error, message: answers.append(error.name() if error is not None else message),
    )
    producer.flush(WAIT_S)
    (answer,) = answers
    return answer


def test_a_mirror_is_equal_and_can_be_promoted_and_reversed(sides: tuple[Side, Side]) -> None:
    """If this fails, a mirror has other records or offsets than its source, a failover loses records, or the way back
    copies the topic again.
    """
    east, west = sides
    east.create()
    fill(east, RECORDS)
    west.create(**{LINK: "east"})
    mirrored(east, west)
    assert sum(east.ends()) > RECORDS
    assert west.segments() == east.segments()
    assert west.read() == east.read()
    assert west.settings()[SOURCE_ID], "the source is not pinned"
    assert produce_one(west, b"too early") == "INVALID_REQUEST"

    # A transaction that is open when the topic is promoted never gets its marker.
    open_one = east.producer(**{"transactional.id": "open"})
    open_one.init_transactions(WAIT_S)
    open_one.begin_transaction()
    open_one.produce(TOPIC, b"open", partition=0)
    open_one.flush(WAIT_S)
    mirrored(east, west)
    committed = east.read()
    common = {name: len(data) for name, data in east.segments().items()}
    west.alter(LINK, None)
    until(lambda: isinstance(produce_one(west, b"promoted"), Message), "a record after the promotion")
    until(lambda: west.ends("read_committed") == west.ends(), "the end of the open transaction")
    assert [each for each in west.read() if each[2] != b"promoted"] == committed

    # The old source goes on alone, is truncated to the common point, and follows.
    assert isinstance(produce_one(east, b"lost"), Message)
    east.alter(LINK, "west")
    mirrored(west, east)
    until(lambda: east.segments() == west.segments(), "equal bytes")
    assert east.read() == west.read()
    for name, size in common.items():
        assert east.segments()[name][:size] == west.segments()[name][:size]


def test_a_paused_mirror_waits_and_goes_on_after_a_restart(sides: tuple[Side, Side]) -> None:
    """If this fails, an operator cannot stop a flow for maintenance, or a restarted broker copies the topic again."""
    east, west = sides
    east.create()
    fill(east, 100)
    west.create(**{LINK: "east"})
    mirrored(east, west)
    west.alter(PAUSED, "true")
    before = west.ends()
    assert isinstance(produce_one(east, b"while paused"), Message)
    west.broker.stop()
    west.broker.restart()
    assert west.ends() == before
    west.alter(PAUSED, "false")
    mirrored(east, west)
    assert west.segments() == east.segments()


def test_a_source_that_was_created_again_is_not_mirrored(sides: tuple[Side, Side]) -> None:
    """If this fails, a topic that is created again by mistake empties its mirror, which is the only copy by then."""
    east, west = sides
    east.create()
    fill(east, 100)
    west.create(**{LINK: "east"})
    mirrored(east, west)
    until(lambda: west.settings()[SOURCE_ID], "the id of the source")
    before = west.read()
    east.admin.delete_topics([TOPIC])[TOPIC].result(WAIT_S)
    east.create()
    assert isinstance(produce_one(east, b"new"), Message)
    until(lambda: "was deleted and created again" in west.broker.stdout() + west.broker.stderr(), "the error")
    assert west.read() == before
