"""Three nodes; the files of one replica of the leader cannot be read or written any more, although its disk works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.support import needs
from tests.support.broker import Target
from tests.support.cluster import ClusterNode, ask, create_topic, in_sync, running, topics
from tests.support.confluent import send
from tests.support.dead_disk import DyingDirectory
from tests.support.kafka_peer import KafkaPeer
from tests.support.mixed_cluster import MixedNode, let_lead, mixed_cluster
from tests.support.steady_client import SteadyClient
from tests.support.wait import until

WAIT_S = 60.0
# Kafka's defaults: a broker that is merely silent keeps its leadership for nine seconds.
SETTINGS = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}


@pytest.fixture
def disks() -> Iterator[list[DyingDirectory]]:
    made: list[DyingDirectory] = []
    yield made
    for each in made:
        each.close()


@needs.compiler
def test_others_lead_a_partition_whose_leader_has_damaged_files(disks: list[DyingDirectory], tmp_path: Path) -> None:
    """If this fails, one bad sector leaves a partition without a leader that can serve it, although two other replicas
    are in sync; or it takes the other partitions of the broker out of service.
    """
    nodes = []
    for number in (1, 2, 3):
        node = ClusterNode(tmp_path / f"node-{number}", number, "broker,controller", SETTINGS)
        node.choose_ports()
        disks.append(DyingDirectory(tmp_path / f"node-{number}", node.data_dir / "t-0"))
        node.wrapper = disks[-1].wrapper
        nodes.append(node)
    with running(nodes):
        for topic, partitions in (("t", 1), ("other", 3)):
            assert create_topic(nodes[0].port, topic, partitions, 3) is ErrorCode.NONE
        for node in nodes:
            until(lambda node=node: in_sync(node.port, "t", 3), "a topic", WAIT_S)  # type: ignore[misc]
            until(lambda node=node: in_sync(node.port, "other", 3), "a topic", WAIT_S)  # type: ignore[misc]
        client = SteadyClient("librdkafka", ",".join(node.bootstrap for node in nodes), "t", 1, tmp_path)
        try:
            client.go_on(WAIT_S)
            (before,) = topics(nodes[0].port)["t"].partitions
            victim = nodes[before.leader_id - 1]
            disks[before.leader_id - 1].die()

            def leads() -> int:
                (part,) = topics(next(node for node in nodes if node is not victim).port)["t"].partitions
                return int(part.leader_id)

            until(lambda: leads() not in (-1, victim.node_id), "another leader", WAIT_S)
            client.go_on(WAIT_S)
            client.finish()
            assert client.reported == []
            client.check([nodes[leads() - 1].port])
            # The broker goes on with all others.
            assert victim.child.returncode is None
            assert in_sync(victim.port, "other", 3)
        finally:
            client.close()


@pytest.mark.full
@pytest.mark.timeout(600)
@needs.kafka
@needs.compiler
def test_kafkas_controller_elects_another_leader(disks: list[DyingDirectory], tmp_path: Path) -> None:
    """If this fails, a controller of Kafka does not understand that a replica of this broker is lost."""

    def prepare(nodes: Sequence[MixedNode]) -> None:
        nodes[2].directory.mkdir(parents=True, exist_ok=True)
        disks.append(DyingDirectory(nodes[2].directory, nodes[2].data_dir / "t-0"))
        nodes[2].wrapper = disks[0].wrapper

    with mixed_cluster(
        tmp_path, ("kafka", "kafka", "ours"), {"offsets.topic.num.partitions": "2"}, prepare=prepare
    ) as nodes:
        let_lead(nodes, KafkaPeer)
        through, victim = nodes[0], nodes[2]
        kind = messages.CreateTopicsRequest
        place = kind.CreatableReplicaAssignment(partition_index=0, broker_ids=[3, 1, 2])
        wanted = kind.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[place])
        ask(through.port, kind(topics=[wanted], timeout_ms=30_000), messages.CreateTopicsResponse)
        until(lambda: in_sync(through.port, "t", 3), "the topic", WAIT_S)
        assert topics(through.port)["t"].partitions[0].leader_id == 3
        values = [b"%d" % number for number in range(100)]
        send(cast("Target", through), "t", values, 0)
        disks[0].die()
        send(cast("Target", through), "t", values, 0, **{"enable.idempotence": "true"})
        (part,) = topics(through.port)["t"].partitions
        assert (part.leader_id in (1, 2), sorted(part.isr_nodes)) == (True, [1, 2])
        assert victim.alive()
