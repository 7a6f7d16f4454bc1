"""Apache Kafka 4.3.1 on a data directory that this broker wrote, and this broker on it again."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from broker_cy.controller.create_topics import CreateTopics
from broker_cy.wire import codec, messages
from tests.broker_cy.handlers.metadata_broker import MetadataBroker, until
from tests.support import raw_wire
from tests.support.kafka_dump import dump_log_segments
from tests.support.kafka_peer import kafka_on

METADATA_API = 3
SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": "1500"}
TOPICS = [f"t{i}" for i in range(6)]


def create(name: str) -> CreateTopics:
    topic = messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=5, replication_factor=1)
    topic.configs = [messages.CreateTopicsRequest.CreatableTopicConfig(name="retention.ms", value="12345")]
    return CreateTopics(messages.CreateTopicsRequest(topics=[topic]))


def ask(port: int) -> messages.MetadataResponse:
    """Return the metadata of all topics."""
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        raw_wire.send_request(sock, METADATA_API, 8, codec.encode(messages.MetadataRequest(topics=None), 8))
        return codec.decode(messages.MetadataResponse, 8, raw_wire.receive_frame(sock)[4:])


def test_kafka_reads_and_continues_our_metadata(tmp_path: Path) -> None:
    """If this fails, a user could not return to Apache Kafka, nor inspect the data with its tools."""
    data = tmp_path / "data"
    log_directory = data / "__cluster_metadata-0"

    async def write() -> None:
        async with MetadataBroker(data, SETTINGS) as broker:
            for name in TOPICS:
                await broker.controller.submit(create(name))
            await broker.controller.next_producer_id()
            await until(lambda: any(log_directory.glob("*-*.checkpoint")))
        # A second start, so that there is a second epoch.
        async with MetadataBroker(data):
            pass

    asyncio.run(write())
    files = [log_directory / "00000000000000000000.log", data / "bootstrap.checkpoint"]
    dump = dump_log_segments([*files, *log_directory.glob("*-*.checkpoint")], "--cluster-metadata-decoder")
    assert dump.count('"type":"TOPIC_RECORD"') > len(TOPICS)  # in the log and in the snapshot
    assert "LeaderChange" in dump
    assert "SnapshotFooter" in dump

    with kafka_on(data, tmp_path / "kafka") as peer:
        response = ask(peer.port)
        assert sorted(topic.name or "" for topic in response.topics) == TOPICS
        assert {len(topic.partitions) for topic in response.topics} == {5}
        assert {p.leader_id for topic in response.topics for p in topic.partitions} == {1}

    async def read() -> None:
        async with MetadataBroker(data) as broker:
            assert sorted(topic.name for topic in broker.image.topics) == TOPICS
            assert broker.image.configs.topic("t0") == {"retention.ms": "12345"}
            assert broker.controller.epoch == 4
            assert all(p.leader == 1 for topic in broker.image.topics for p in topic.partitions.values())
            assert await broker.controller.next_producer_id() >= 1000

    asyncio.run(read())
