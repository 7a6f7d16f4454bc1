"""Nodes of Apache Kafka 4.3.1 and of ours in one cluster: each is broker and controller, and all are voters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.launch import kafka_dist
from bench.launch.cluster_nodes import voters_of
from bench.launch.nodes import CLUSTER_ID
from tests.support.cluster import READY_S, ClusterNode
from tests.support.kafka_peer import KafkaPeer
from tests.support.wait import until

# The features whose protocols we do not serve yet: a cluster with them would refuse our brokers. The others have the
# levels that a new cluster of Kafka has, so that both kinds keep eligible leader replicas (KIP-966).
FEATURES = ("group.version=0", "share.version=0", "streams.version=0")

# Of the settings that tests make quick, those that have to suit Kafka's brokers, too.
AS_KAFKA = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    # Ours is elected whenever the active controller dies.
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.fetch.timeout.ms": "1000",
}


@contextmanager
def mixed_cluster(directory: Path, kinds: Sequence[str]) -> Iterator[list[KafkaPeer | ClusterNode]]:
    """Start one node for each of `kinds` ("kafka" or "ours"), with the ids from 1 on, and yield them when clients of
    each see all brokers.
    """
    nodes: list[KafkaPeer | ClusterNode] = []
    for number, kind in enumerate(kinds, 1):
        place = directory / f"node-{number}"
        nodes.append(KafkaPeer(place) if kind == "kafka" else ClusterNode(place, number, "broker,controller", AS_KAFKA))
    for node in nodes:
        node.choose_ports()
    voters = voters_of(nodes)
    with ThreadPoolExecutor(len(nodes)) as pool:
        try:
            for number, node in enumerate(nodes, 1):
                if isinstance(node, KafkaPeer):
                    node.settings |= {"node.id": str(number), "controller.quorum.voters": voters}
                    node._write_properties()
                    options = [part for feature in FEATURES for part in ("--feature", feature)]
                    arguments = ("format", "-t", CLUSTER_ID, "-c", str(node._properties), *options)
                    kafka_dist.run_tool("kafka.tools.StorageTool", *arguments)
                else:
                    node.write_properties(voters)
                    node.format()
            # A Kafka is ready only when most of the controllers have found each other.
            list(pool.map(lambda node: node.start(), nodes))
            until(lambda: all(_brokers(node) == len(nodes) for node in nodes), "all brokers", READY_S)
            yield nodes
        finally:
            for node in nodes:
                node.close()


def _brokers(node: KafkaPeer | ClusterNode) -> int:
    """How many brokers clients of this node see; 0 if it cannot be reached."""
    probe = ClusterNode(node.directory, 0, "broker", {})
    probe.port = node.port
    return probe.brokers()
