"""Processes that are killed on other hosts than the nodes that notice it.

A connection to 127.0.0.2 comes from 127.0.0.1, so nodes with such addresses consider each other to be on other hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from tests.support.cluster import ClusterNode, create_topic, in_sync, quorum, running, topics
from tests.support.wait import until

WAIT_S = 60.0
PARTITIONS = 3
# No broker is fenced, and no controller replaced, because of a timeout.
SETTINGS = {
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "600000",
    "controller.quorum.fetch.timeout.ms": "600000",
}


@contextmanager
def hosts(directory: Path, count: int) -> Iterator[list[ClusterNode]]:
    """This many brokers, each on its own host and leading a partition of `t`; the first three are also controllers."""
    nodes = []
    for number in range(1, count + 1):
        roles = "broker,controller" if number <= 3 else "broker"
        node = ClusterNode(directory / f"node-{number}", number, roles, SETTINGS)
        node.choose_ports()
        node.host = f"127.0.0.{number + 1}"
        nodes.append(node)
    with running(nodes):
        assert create_topic(nodes[0].address, "t", PARTITIONS, 3) is ErrorCode.NONE
        for node in nodes:
            until(lambda node=node: in_sync(node.address, "t", 3), "replicas", WAIT_S, tolerate=(ClientError,))  # type: ignore[misc]
        yield nodes


def leaders(node: ClusterNode) -> set[int]:
    return {part.leader_id for part in topics(node.address)["t"].partitions}


def controller(node: ClusterNode) -> int:
    return int(quorum(node.address).leader_id)


def without(nodes: list[ClusterNode], gone: ClusterNode) -> bool:
    """Whether all other nodes show other leaders."""
    return all(not leaders(node) & {gone.node_id, -1} for node in nodes if node is not gone)


@pytest.mark.full
def test_a_killed_leader_has_successors_before_its_session_ends(tmp_path: Path) -> None:
    """If this fails, clients wait for the session of a broker that was killed on another host to expire."""
    with hosts(tmp_path, 3) as nodes:
        active = controller(nodes[0])
        victim = next(node for node in nodes if node.node_id != active)
        assert victim.node_id in leaders(victim)
        victim.kill()
        until(lambda: without(nodes, victim), "other leaders", WAIT_S, tolerate=(ClientError,))
        assert {controller(node) for node in nodes if node is not victim} == {active}
        # Its successor does not wait for a session either.
        victim.restart()
        until(lambda: in_sync(victim.address, "t", 3), "three replicas in sync", WAIT_S, tolerate=(ClientError,))


@pytest.mark.full
def test_a_killed_controller_has_a_successor_before_the_fetch_timeout_ends(tmp_path: Path) -> None:
    """If this fails, the cluster has no active controller for seconds after it was killed on another host."""
    with hosts(tmp_path, 3) as nodes:
        victim = nodes[controller(nodes[0]) - 1]
        victim.kill()
        until(lambda: without(nodes, victim), "other leaders", WAIT_S, tolerate=(ClientError,))
        others = [node for node in nodes if node is not victim]
        assert len({controller(node) for node in others} - {victim.node_id, -1}) == 1
