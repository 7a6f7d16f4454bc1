"""Three nodes whose metadata logs are on separate disks; the data disk of one of them dies, or loses one directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from broker_cy.core.errors import ErrorCode
from tests.support import needs
from tests.support.cluster import ClusterNode, cluster, create_topic, in_sync, running, topics
from tests.support.dead_disk import DyingDirectory, DyingFileSystem
from tests.support.steady_client import SteadyClient
from tests.support.wait import until

PARTITIONS = 3
WAIT_S = 60.0
# Kafka's defaults: a broker that is merely silent keeps its leadership for nine seconds.
SETTINGS = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}

Disk = DyingDirectory | DyingFileSystem


@pytest.fixture
def disks() -> Iterator[list[Disk]]:
    """Creates the disks of a test."""
    made: list[Disk] = []
    yield made
    for each in made:
        each.close()


def nodes_on(disks: list[Disk], make: Callable[[Path, Path], Disk], directory: Path) -> list[ClusterNode]:
    nodes = []
    for number in (1, 2, 3):
        own = directory / f"node-{number}"
        node = ClusterNode(own, number, "broker,controller", {**SETTINGS, "metadata.log.dir": str(own / "metadata")})
        node.choose_ports()
        disks.append(make(own, node.data_dir))
        node.wrapper = disks[-1].wrapper
        nodes.append(node)
    return nodes


def others_lead(nodes: Sequence[ClusterNode], victim: ClusterNode, topic: str) -> bool:
    """Whether every other node names a leader for each partition, and never the victim."""
    found = [topics(node.port)[topic].partitions for node in nodes if node is not victim]
    return all(part.leader_id not in (-1, victim.node_id) for partitions in found for part in partitions)


def led_by(leader: ClusterNode, nodes: Sequence[ClusterNode]) -> set[int]:
    """The partitions that `leader` leads according to some node."""
    found = [part for node in nodes for part in topics(node.port)["t"].partitions]
    return {part.partition_index for part in found if part.leader_id == leader.node_id}


def survives_a_dead_disk(disks: list[Disk], make: Callable[[Path, Path], Disk], directory: Path) -> None:
    nodes = nodes_on(disks, make, directory)
    with running(nodes):
        assert create_topic(nodes[0].port, "t", PARTITIONS, 3) is ErrorCode.NONE
        for node in nodes:
            until(lambda node=node: in_sync(node.port, "t", 3), "a topic", WAIT_S)  # type: ignore[misc]
        servers = ",".join(node.bootstrap for node in nodes)
        client = SteadyClient("librdkafka", servers, "t", PARTITIONS, directory)
        try:
            client.go_on(WAIT_S)
            number = topics(nodes[0].port)["t"].partitions[0].leader_id - 1
            victim = nodes[number]
            client.longest_gap_s = 0.0
            disks[number].die()
            until(lambda: others_lead(nodes, victim, "t"), "other leaders", WAIT_S)
            client.go_on(WAIT_S)
            assert victim.child.wait(WAIT_S) == 1, victim.child.stderr()
            last = victim.child.stderr().strip().splitlines()[-1]
            assert last.startswith(f"broker-cy: the data directory {victim.data_dir} failed"), last
            client.finish()
            print(f"the longest time of a partition without an acknowledgement: {client.longest_gap_s:.2f} s")
            assert client.reported == []
            leaders = sorted(topics(nodes[number - 1].port)["t"].partitions, key=lambda part: part.partition_index)
            client.check([nodes[part.leader_id - 1].port for part in leaders])
        finally:
            client.close()


@needs.compiler
def test_clients_go_on_when_a_data_disk_dies(disks: list[Disk], tmp_path: Path) -> None:
    """If this fails, a leader whose data disk died keeps leading until its process ends: producers time out although
    two other replicas are in sync.
    """
    survives_a_dead_disk(disks, DyingDirectory, tmp_path)


@pytest.mark.full
@needs.dying_disk()
def test_clients_go_on_when_the_kernel_shuts_a_file_system_down(disks: list[Disk], tmp_path: Path) -> None:
    """The same with the errors of a real file system."""
    survives_a_dead_disk(disks, DyingFileSystem, tmp_path)


@pytest.mark.full
def test_clients_go_on_when_the_directory_of_a_partition_is_removed(tmp_path: Path) -> None:
    """If this fails, a broker goes on to lead a partition whose files were removed, and acknowledged records are
    lost; or it gives up its other partitions, too.
    """
    # So that the broker soon has to write a file there.
    settings = {**SETTINGS, "log.flush.offset.checkpoint.interval.ms": "500"}
    with cluster(tmp_path, settings=settings) as nodes:
        assert create_topic(nodes[0].port, "t", 2 * PARTITIONS, 3) is ErrorCode.NONE
        for node in nodes:
            until(lambda node=node: in_sync(node.port, "t", 3), "a topic", WAIT_S)  # type: ignore[misc]
        client = SteadyClient("librdkafka", ",".join(node.bootstrap for node in nodes), "t", 2 * PARTITIONS, tmp_path)
        try:
            client.go_on(WAIT_S)
            lost = topics(nodes[0].port)["t"].partitions[0]
            index, victim = lost.partition_index, nodes[lost.leader_id - 1]
            kept = led_by(victim, nodes) - {index}
            shutil.rmtree(victim.data_dir / f"t-{index}")
            until(lambda: index not in led_by(victim, nodes), "another leader", WAIT_S)
            client.go_on(WAIT_S)
            assert led_by(victim, nodes) == kept
            client.finish()
            assert client.reported == []
            leaders = sorted(topics(nodes[0].port)["t"].partitions, key=lambda part: part.partition_index)
            client.check([nodes[part.leader_id - 1].port for part in leaders])
            # The next start finds no log, and copies that of the new leader.
            assert not (victim.data_dir / f"t-{index}").exists()
            victim.stop()
            victim.start()
            until(lambda: in_sync(nodes[0].port, "t", 3), "all replicas in sync", WAIT_S)
        finally:
            client.close()
