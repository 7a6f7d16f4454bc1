"""Two clusters with a link between them, and a topic that one of them mirrors (docs/mirror.md, Link flows)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench.launch.nodes import free_ports
from broker_cy import admin
from broker_cy.admin.metrics_listener import pages_of
from broker_cy.admin.records import Start
from broker_cy.metrics.events import Event
from broker_cy.replication.mirror_view import MirrorView
from tests.support.broker import BrokerProcess
from tests.support.kafka_peer import KafkaPeer
from tests.support.wait import until

TOPIC = "orders"
PARTITIONS = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LINK, PAUSED, SOURCE_ID = "brokercy.mirror.link", "brokercy.mirror.paused", "brokercy.mirror.source.topic.id"
SOURCE_TOPIC = "brokercy.mirror.source.topic"
WAIT_S = 60.0
E = TypeVar("E", bound=Event)


class Side:
    """A broker and its clients. `topic` may be changed by a test."""

    def __init__(
        self,
        directory: Path,
        kind: type[BrokerProcess] | type[KafkaPeer] = BrokerProcess,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = TOPIC
        self.links = directory / "links"
        self.links.mkdir(parents=True)
        own = {}
        if kind is BrokerProcess:
            (port,) = free_ports(1)
            own = {"brokercy.mirror.links.dir": str(self.links), "brokercy.metrics.listener": f"127.0.0.1:{port}"}
        self.broker = kind(directory, {**own, **(settings or {})})
        self.broker.start()
        self.admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})

    def link(self, name: str, bootstrap: str, **settings: str) -> None:
        lines = [f"{key}={value}\n" for key, value in {"bootstrap.servers": bootstrap, **settings}.items()]
        (self.links / f"{name}.properties").write_text("".join(lines))

    def mirrors(self) -> list[MirrorView]:
        """The mirror partitions of the topic that its brokers report."""

        async def ask() -> list[MirrorView]:
            async with admin.AdminClient(self.broker.bootstrap) as client:
                pages = await pages_of(client.caller, "/mirrors")
            rows = [MirrorView(**row) for page in pages.values() for row in json.loads(page)["partitions"]]
            return sorted(row for row in rows if row.topic == self.topic)

        return asyncio.run(ask())

    def causes(self) -> set[tuple[str, str]]:
        """(state, cause) of the partitions of the topic."""
        return {(part.state, part.cause) for part in self.mirrors()}

    def becomes(self, state: str, cause: str = "", reason: str = "") -> list[MirrorView]:
        """Wait until all partitions have this state and cause, and a reason with this text; returns them."""

        def found() -> list[MirrorView]:
            parts = self.mirrors()
            is_so = {(part.state, part.cause, reason in part.reason) for part in parts} == {(state, cause, True)}
            return parts if is_so else []

        return until(found, f"{state} {cause} {reason}")

    def create(self, **settings: str) -> None:
        topic = NewTopic(self.topic, PARTITIONS, 1, config=settings)
        self.admin.create_topics([topic])[self.topic].result(WAIT_S)

    def alter(self, name: str, value: str | None) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, self.topic, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(WAIT_S)

    def settings(self) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, self.topic)
        (future,) = self.admin.describe_configs([resource]).values()
        return {name: entry.value for name, entry in future.result(WAIT_S).items()}

    def producer(self, **settings: str) -> Producer:
        return Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": "5", "log_level": "2", **settings})

    def ends(self, isolation: str = "read_uncommitted") -> list[int]:
        return [end for _, end in self.bounds(isolation)]

    def starts(self) -> list[int]:
        return [start for start, _ in self.bounds()]

    def bounds(self, isolation: str = "read_uncommitted") -> list[tuple[int, int]]:
        """The first offset and the end of each partition."""
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "ends", "isolation.level": isolation}
        )
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(self.topic, each), WAIT_S) for each in range(PARTITIONS)
            ]
        finally:
            consumer.close()

    def segments(self) -> dict[str, bytes]:
        """The bytes of the segment files of each partition."""
        found = {}
        for partition in range(PARTITIONS):
            files = sorted((self.broker.data_dir / f"{self.topic}-{partition}").glob("*.log"))
            found[f"{self.topic}-{partition}"] = b"".join(file.read_bytes() for file in files)
        return found

    def read(self) -> list[tuple[int, int, bytes | None]]:
        """(partition, offset, value) of all committed records."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "read",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(self.topic, each, 0) for each in range(PARTITIONS)])
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


def fill(side: Side, count: int) -> None:
    """Write records with every codec, with and without transactions; every third one is aborted."""
    for number, codec in enumerate(CODECS):
        share = count // len(CODECS)
        plain = side.producer(**{"compression.type": codec})
        for each in range(share // 2):
            plain.produce(side.topic, b"%s %d" % (codec.encode(), each), partition=each % PARTITIONS)
        plain.flush(WAIT_S)
        atomic = side.producer(**{"compression.type": codec, "transactional.id": codec})
        atomic.init_transactions(WAIT_S)
        for turn in range(3):
            atomic.begin_transaction()
            for each in range(share // 6):
                atomic.produce(side.topic, b"%s %d %d" % (codec.encode(), turn, each), partition=each % PARTITIONS)
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
        side.topic,
        value,
        partition=0,
        on_delivery=lambda error, message: answers.append(error.name() if error is not None else message),
    )
    producer.flush(WAIT_S)
    (answer,) = answers
    return answer


def events(side: Side, kind: type[E]) -> list[E]:
    """Wait for an event of a type about the topic, and return those that were written, in their order."""

    async def read() -> list[E]:
        async with admin.AdminClient(side.broker.bootstrap) as client:
            entries = await client.events.read_range(0, (await client.events.span(Start.latest())).end)
        found = [each.item.event for each in entries or () if each.item is not None]
        return [each for each in found if isinstance(each, kind) and each.key == side.topic]

    return until(lambda: asyncio.run(read()), f"events {kind.TYPE}", tolerate=(admin.ClientError,))
