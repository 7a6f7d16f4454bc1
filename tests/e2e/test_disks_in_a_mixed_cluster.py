"""Two nodes of Apache Kafka 4.3.1 and one of broker-cy, with two disks each: brokers of each kind report the places of
their replicas to a controller of the other kind, move replicas between their disks, and lose one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from broker_cy.core.errors import ErrorCode
from tests.support import kafka_tools, needs
from tests.support.acked import records_of
from tests.support.broker import Target
from tests.support.cluster import ClusterNode, create_topic, in_sync, topics
from tests.support.confluent import send
from tests.support.dead_disk import DyingDirectory
from tests.support.kafka_peer import KafkaPeer
from tests.support.mixed_cluster import MixedNode, let_lead, mixed_cluster
from tests.support.replicas import equal_replicas
from tests.support.two_disks import give_two_disks, paths_of, places, replace_second
from tests.support.wait import until

pytestmark = [pytest.mark.full, needs.kafka, needs.compiler]

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
WAIT_S = 60.0
PARTITIONS = 6
VALUES = [b"%d" % number for number in range(100)]
# A batch whose leader lost its disk is sent again.
ONCE = {"enable.idempotence": "true"}
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    # A leader of Kafka holds its high watermark so long for a follower that kept up until its disk failed.
    "replica.lag.time.max.ms": "10000",
}


@pytest.fixture
def disk() -> Iterator[list[DyingDirectory]]:
    made: list[DyingDirectory] = []
    yield made
    for each in made:
        each.close()


def move_all(nodes: Sequence[MixedNode], through: MixedNode, directory: Path) -> None:
    """Move every replica of t to the other disk of its broker with Kafka's tool."""
    before = {number: places(node, "t") for number, node in enumerate(nodes, 1)}
    targets = {number: {index: 1 - at for index, at in found.items()} for number, found in before.items()}
    partitions = [
        {
            "topic": "t",
            "partition": part.partition_index,
            "replicas": list(part.replica_nodes),
            "log_dirs": [
                str(paths_of(nodes[number - 1])[targets[number][part.partition_index]]) for number in part.replica_nodes
            ],
        }
        for part in topics(through.port)["t"].partitions
    ]
    file = directory / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    words = ("--bootstrap-server", through.bootstrap, "--reassignment-json-file", str(file))
    kafka_tools.run_tool(REASSIGN, *words, "--execute", timeout_s=WAIT_S)
    replicas = PARTITIONS * len(nodes)
    verified: list[str] = []

    def is_complete() -> bool:
        verified[:] = [kafka_tools.run_tool(REASSIGN, *words, "--verify", timeout_s=WAIT_S).stdout.decode()]
        return verified[0].count("completed successfully") == replicas

    until(is_complete, f"the moves ({verified})", WAIT_S)

    def is_over() -> bool:
        return {number: places(node, "t") for number, node in enumerate(nodes, 1)} == targets

    until(is_over, "one directory for each replica", WAIT_S)


def led_by(port: int, number: int) -> set[int]:
    """The partitions of t that a broker leads."""
    return {part.partition_index for part in topics(port)["t"].partitions if part.leader_id == number}


def in_sync_of(port: int, number: int) -> set[int]:
    """The partitions of t that have a broker in sync."""
    return {part.partition_index for part in topics(port)["t"].partitions if number in part.isr_nodes}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("controller", [KafkaPeer, ClusterNode], ids=["kafka-leads", "ours-leads"])
def test_disks_of_one_kind_under_a_controller_of_the_other(
    controller: type[MixedNode], disk: list[DyingDirectory], tmp_path: Path
) -> None:
    """If this fails, a cluster of Kafka with several disks cannot be migrated node by node: controllers of one kind do
    not know where the replicas of the other are, so that moves between disks never end, or partitions of a dead disk
    keep their leaders.
    """
    number = 3 if controller is KafkaPeer else 1

    def prepare(nodes: Sequence[MixedNode]) -> None:
        give_two_disks(nodes)
        victim = nodes[number - 1]
        victim.directory.mkdir(parents=True, exist_ok=True)
        disk.append(DyingDirectory(victim.directory, paths_of(victim)[1]))
        victim.wrapper = disk[0].wrapper

    with mixed_cluster(tmp_path, ("kafka", "kafka", "ours"), SETTINGS, prepare=prepare) as nodes:
        victim, through = nodes[number - 1], nodes[1]
        let_lead(nodes, controller)
        assert create_topic(through.port, "t", PARTITIONS, 3) is ErrorCode.NONE
        until(lambda: in_sync(through.port, "t", 3), "the topic", WAIT_S)
        every = set(range(PARTITIONS))
        until(lambda: all(set(places(node, "t")) == every for node in nodes), "the logs", WAIT_S)
        for node in nodes:
            assert set(places(node, "t").values()) == {0, 1}
        for index in every:
            send(cast("Target", through), "t", VALUES, index, **ONCE)

        move_all(nodes, through, tmp_path)
        assert in_sync(through.port, "t", 3)

        lost = {index for index, at in places(victim, "t").items() if at == 1}
        disk[0].die()
        # Kafka notices a dead disk when it writes there.
        for index in every:
            send(cast("Target", through), "t", VALUES, index, **ONCE)
        until(lambda: not lost & led_by(through.port, number), "other leaders", WAIT_S)
        until(lambda: in_sync_of(through.port, number) == every - lost, "the replicas of the other disk only", WAIT_S)
        for index in every:
            send(cast("Target", through), "t", VALUES, index, **ONCE)
        assert victim.alive()

        victim.stop()
        victim.wrapper = []
        replace_second(victim)
        victim.restart()
        until(lambda: in_sync(through.port, "t", 3), "all replicas", WAIT_S)
        assert set(places(victim, "t")) == every
        addresses = {at: (node.host, node.port) for at, node in enumerate(nodes, 1)}
        for index in every:
            content = equal_replicas(addresses, "t", index)
            assert [value for _, value in records_of(content)] == VALUES * 3
        assert "Traceback" not in nodes[-1].stderr(), nodes[-1].stderr()
