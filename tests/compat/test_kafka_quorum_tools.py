"""Kafka's own tools on a quorum of ours, by brokers and by controllers: kafka-features, kafka-metadata-quorum,
kafka-cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from tests.support import kafka_tools, needs
from tests.support.cluster import DynamicNode, quorum
from tests.support.wait import until

pytestmark = needs.kafka


def tool(name: str, *arguments: str | Path, check: bool = True) -> str:
    """Return the output of the tool."""
    done = kafka_tools.run_tool(f"org.apache.kafka.tools.{name}", *arguments, check=check)
    return done.stdout.decode() + done.stderr.decode()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[DynamicNode]]:
    """A single node with static voters, and a node that follows it."""
    found = [DynamicNode(tmp_path / f"node-{number}", number, "broker,controller", {}) for number in (1, 2)]
    for node in found:
        node.choose_ports()
    try:
        for node in found:
            node.write_servers(found[0].controller)
        found[0].launch()
        until(lambda: found[0].brokers() == 1, "the first node", 60)
        cluster_id = re.search(r"cluster.id=(\S+)", (found[0].data_dir / "meta.properties").read_text())
        assert cluster_id is not None
        found[1].format("--no-initial-controllers", cluster_id=cluster_id[1])
        found[1].launch()
        until(lambda: all(node.brokers() == 2 for node in found), "two brokers", 60)
        yield found
    finally:
        for node in found:
            node.close()


@pytest.mark.timeout(300)
def test_voters_are_changed_with_kafkas_tools(nodes: list[DynamicNode]) -> None:
    """If this fails, operators cannot use Kafka's tools to change the voters of a broker-cy cluster."""
    first, second = nodes
    by_controller = ("--bootstrap-controller", first.controller)
    by_broker = ("--bootstrap-server", second.bootstrap)
    add = ("--command-config", second.properties, "add-controller")

    static = tool("MetadataQuorumCommand", *by_controller, *add, check=False)
    assert "UnsupportedVersionException" in static
    assert "kraft.version is 0; upgrade it to 1 first" in static
    assert "was upgraded to 1" in tool("FeatureCommand", *by_broker, "upgrade", "--feature", "kraft.version=1")
    features = tool("FeatureCommand", *by_controller, "describe")
    assert re.search(r"Feature: kraft.version\s+.*FinalizedVersionLevel: 1", features)
    down = tool("FeatureCommand", *by_broker, "downgrade", "--feature", "kraft.version=0", check=False)
    assert "Can't downgrade the version of this feature." in down

    assert "Added controller 2" in tool("MetadataQuorumCommand", *by_controller, *add)
    until(lambda: voters(second.port) == [1, 2], "two voters", 60, tolerate=(ClientError,))
    shown = tool("MetadataQuorumCommand", *by_controller, "describe", "--status")
    assert re.search(r'CurrentVoters:\s+\[\{"id": 1.*"CONTROLLER://.*"id": 2', shown), shown
    listed = tool("ClusterTool", "list-endpoints", *by_controller)
    for node in nodes:
        assert re.search(rf"{node.node_id}\s+127\.0\.0\.1\s+{node.controller_port}\s", listed), listed

    directory = re.search(r"directory.id=(\S+)", (second.data_dir / "meta.properties").read_text())
    assert directory is not None
    remove = ("remove-controller", "--controller-id", "2", "--controller-directory-id", directory[1])
    assert "Removed" in tool("MetadataQuorumCommand", *by_broker, *remove)
    until(lambda: voters(first.port) == [1], "one voter", 60, tolerate=(ClientError,))
    assert [node.stop() for node in reversed(nodes)] == [0, 0]


def voters(port: int) -> list[int]:
    return sorted(voter.replica_id for voter in quorum(port).current_voters)
