"""Nodes with several data directories: the same directories with Apache Kafka and with this broker, and disks that fail
or are replaced.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import KafkaException

from broker_cy.core.errors import ErrorCode
from broker_cy.core.properties import parse_properties
from broker_cy.storage_tool import command as storage_tool
from broker_cy.wire import messages
from tests.support import needs
from tests.support.broker import BrokerProcess, Target
from tests.support.cluster import ClusterNode, ask, create_topic, in_sync, running, topics
from tests.support.confluent import read_all, send
from tests.support.dead_disk import DyingDirectory
from tests.support.kafka_peer import KafkaPeer
from tests.support.topics import create_topic as create_single_topic
from tests.support.wait import until

WAIT_S = 60.0
PARTITIONS = 6
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
    # A disk is replaced: the replicas there must come back without an operator.
    "broker.heartbeat.interval.ms": "500",
    # A producer that waits for a replica without a disk fails the test.
    "replica.lag.time.max.ms": "600000",
}


def places(*paths: Path, topic: str = "t") -> dict[str, int]:
    """The directory of each partition of a topic, by its number in `paths`."""
    found = [(each.name, number) for number, path in enumerate(paths) for each in path.glob(f"{topic}-[0-9]*")]
    found = [(name, number) for name, number in found if "." not in name]
    assert len(dict(found)) == len(found), "a partition is in two directories"
    return dict(found)


def described(port: int) -> dict[str, set[str]]:
    """Return the report of a broker on its directories: the partitions of t and u by path."""
    answer = ask(port, messages.DescribeLogDirsRequest(topics=None), messages.DescribeLogDirsResponse)
    return {
        each.log_dir: {
            f"{topic.name}-{part.partition_index}"
            for topic in each.topics
            for part in topic.partitions
            if topic.name in ("t", "u")
        }
        for each in answer.results
    }


def values(broker: KafkaPeer | BrokerProcess, topic: str, partitions: int = PARTITIONS) -> list[list[bytes | None]]:
    """The values of each partition, once the broker leads them all."""
    found: list[list[bytes | None]] = []

    def read() -> bool:
        found[:] = [read_all(broker.bootstrap, topic, index) for index in range(partitions)]
        return True

    until(read, "leaders", WAIT_S, tolerate=(KafkaException,))
    return found


@pytest.mark.full
@needs.kafka
def test_kafkas_directories_there_and_back(tmp_path: Path) -> None:
    """If this fails, a cluster of Kafka with several disks cannot be migrated without copying its data, or not back."""
    paths = tmp_path / "a", tmp_path / "b"
    settings = {"log.dirs": ",".join(map(str, paths))}
    kafka = KafkaPeer(tmp_path / "kafka", settings, paths[0])
    expected = [[b"%d of Kafka in %d" % (number, index) for number in range(50)] for index in range(PARTITIONS)]
    try:
        kafka.start()
        create_single_topic(kafka.bootstrap, "t", PARTITIONS)
        for index in range(PARTITIONS):
            send(kafka, "t", [each for each in expected[index] if each is not None], index)
        assert kafka.stop() == 0
        before = places(*paths)
        assert set(before.values()) == {0, 1}

        ours = BrokerProcess(tmp_path / "ours", settings, paths[0])
        try:
            ours.start()
            assert values(ours, "t") == expected
            assert described(ours.port) == {
                str(path): {name for name, at in before.items() if at == number} for number, path in enumerate(paths)
            }
            for index in range(PARTITIONS):
                more = [b"%d of ours in %d" % (number, index) for number in range(50)]
                send(ours, "t", more, index)
                expected[index] += more
            create_single_topic(ours.bootstrap, "u", PARTITIONS)
            for index in range(PARTITIONS):
                send(ours, "u", [b"%d" % index], index)
            new = places(*paths, topic="u")
            assert set(new.values()) == {0, 1}
            assert ours.stop() == 0
        finally:
            ours.close()
        assert places(*paths) == before

        kafka.restart()
        assert values(kafka, "t") == expected
        assert values(kafka, "u") == [[b"%d" % index] for index in range(PARTITIONS)]
        assert described(kafka.port) == {
            str(path): {name for name, at in {**before, **new}.items() if at == number}
            for number, path in enumerate(paths)
        }
        send(kafka, "u", [b"once more"])
        assert kafka.stop() == 0
        assert {**places(*paths), **places(*paths, topic="u")} == {**before, **new}
    finally:
        kafka.close()


@pytest.fixture
def disk() -> Iterator[list[DyingDirectory]]:
    made: list[DyingDirectory] = []
    yield made
    for each in made:
        each.close()


def led_by(nodes: list[ClusterNode], port: int) -> dict[int, int]:
    """The leader of each partition of t, as the node at `port` reports it."""
    return {part.partition_index: part.leader_id for part in topics(port)["t"].partitions}


@needs.compiler
def test_a_node_loses_and_gets_a_disk(disk: list[DyingDirectory], tmp_path: Path) -> None:
    """If this fails, a broker with several disks ends or stands still when one of them fails; it does not start without
    it; or the replicas there do not come back with a new disk.
    """
    nodes = []
    for number in (1, 2, 3):
        own = tmp_path / f"node-{number}"
        node = ClusterNode(own, number, "broker,controller", {**SETTINGS, "log.dirs": f"{own}/data,{own}/more"})
        node.choose_ports()
        nodes.append(node)
    victim, paths = nodes[0], (tmp_path / "node-1/data", tmp_path / "node-1/more")
    disk.append(DyingDirectory(victim.directory, paths[1]))
    victim.wrapper = disk[0].wrapper
    with running(nodes):
        assert create_topic(nodes[1].port, "t", PARTITIONS, 3) is ErrorCode.NONE
        until(lambda: in_sync(nodes[1].port, "t", 3), "the topic", WAIT_S)
        # The metadata name replicas in sync whose logs are not created yet.
        until(lambda: len(set().union(*described(victim.port).values())) == PARTITIONS, "the logs", WAIT_S)
        before = places(*paths)
        assert set(before.values()) == {0, 1}
        lost = {int(name.partition("-")[2]) for name, at in before.items() if at == 1}
        disk[0].die()
        until(lambda: 1 not in {led_by(nodes, nodes[1].port)[each] for each in lost}, "other leaders", WAIT_S)
        for index in range(PARTITIONS):
            send(cast("Target", nodes[1]), "t", [b"without the disk"], index)
        until(lambda: in_sync_of(nodes[1].port, 1) == set(range(PARTITIONS)) - lost, "the other replicas", WAIT_S)
        assert victim.alive()
        # The disk is gone at the next start.
        assert victim.stop() == 0
        victim.wrapper = []
        shutil.rmtree(paths[1])
        victim.restart()
        until(lambda: in_sync_of(nodes[1].port, 1) == set(range(PARTITIONS)) - lost, "the node", WAIT_S)
        assert places(*paths) == {name: at for name, at in before.items() if at == 0}
        assert not paths[1].exists()
        # It is replaced.
        assert victim.stop() == 0
        cluster_id = parse_properties((paths[0] / "meta.properties").read_text())["cluster.id"]
        arguments = ["format", "-c", str(victim.properties), "-t", cluster_id, "--ignore-formatted"]
        assert storage_tool.run(arguments) == 0
        victim.restart()
        until(lambda: in_sync(nodes[1].port, "t", 3), "all replicas", WAIT_S)
        after = places(*paths)
        assert set(after) == set(before)
        for index in lost:
            assert b"without the disk" in read_all(nodes[1].bootstrap, "t", index)


def in_sync_of(port: int, node_id: int) -> set[int]:
    """The partitions of t that have the node in sync."""
    return {part.partition_index for part in topics(port)["t"].partitions if node_id in part.isr_nodes}
