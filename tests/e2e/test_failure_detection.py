"""A broker whose process has ended is fenced because its sockets are closed, long before its session expires."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from tests.support.cluster import ClusterNode, cluster, create_topic, in_sync, quorum, topics
from tests.support.wait import until

# No session expires during this test.
SETTINGS = {"broker.session.timeout.ms": "600000"}
WAIT_S = 60.0


def active(nodes: list[ClusterNode]) -> int:
    def found() -> int:
        leader: int = quorum(nodes[0].port).leader_id
        return leader if any(node.node_id == leader for node in nodes) else 0

    return until(found, "an active controller", WAIT_S, tolerate=(ClientError, AssertionError))


def led_by(node: ClusterNode, leaders: set[int]) -> None:
    """Wait until the node shows one of these brokers as the leader of each partition."""

    def led() -> bool:
        # A node that has not replayed the creation of the topic does not list it yet.
        topic = topics(node.port).get("t")
        return topic is not None and {part.leader_id for part in topic.partitions} <= leaders

    until(led, f"leaders among {leaders}", WAIT_S, tolerate=(ClientError,))


def test_a_killed_broker_is_fenced_at_once(tmp_path: Path) -> None:
    """If this fails, clients wait for the session of a killed leader to expire, or its next start does."""
    with cluster(tmp_path, settings=SETTINGS) as nodes:
        assert create_topic(nodes[0].port, "t", 6, 3) is ErrorCode.NONE
        for node in nodes:
            led_by(node, {1, 2, 3})
        controller = active(nodes)
        victims = [next(node for node in nodes if node.node_id != controller), nodes[controller - 1]]
        # The second one is the active controller: its successor has to detect its death.
        for victim in victims:
            victim.kill()
            others = [node for node in nodes if node is not victim]
            for node in others:
                led_by(node, {each.node_id for each in others})
                until(lambda node=node: node.brokers() == 2, "two brokers", WAIT_S)  # type: ignore[misc]
            victim.restart()
            for node in nodes:
                until(lambda node=node: node.brokers() == 3, "three brokers", WAIT_S)  # type: ignore[misc]

        # Killed and restarted immediately, possibly before other nodes have noticed.
        victims[0].kill()
        victims[0].restart()
        for node in nodes:
            until(lambda node=node: node.brokers() == 3, "three brokers", WAIT_S)  # type: ignore[misc]

        until(lambda: in_sync(nodes[0].port, "t", 3), "three replicas in sync", WAIT_S)


def test_a_broker_that_stands_still_loses_its_leadership(tmp_path: Path) -> None:
    """If this fails, clients wait for the session of a frozen leader to expire."""
    with cluster(tmp_path, settings=SETTINGS) as nodes:
        assert create_topic(nodes[0].port, "t", 6, 3) is ErrorCode.NONE
        for node in nodes:
            led_by(node, {1, 2, 3})
        controller = active(nodes)
        # The second one is the active controller: the others elect another one.
        for frozen in (next(node for node in nodes if node.node_id != controller), nodes[controller - 1]):
            others = [node for node in nodes if node is not frozen]
            os.kill(frozen.pid, signal.SIGSTOP)
            try:
                for node in others:
                    led_by(node, {each.node_id for each in others})
            finally:
                os.kill(frozen.pid, signal.SIGCONT)
            for node in nodes:
                until(lambda node=node: node.brokers() == 3, "three brokers", WAIT_S)  # type: ignore[misc]


@pytest.mark.full
def test_a_broker_that_stands_still_may_be_left_to_its_session(tmp_path: Path) -> None:
    """If this fails, brokercy.liveness.interval.ms=0 does not give Kafka's behaviour."""
    settings = {**SETTINGS, "brokercy.liveness.interval.ms": "0"}
    with cluster(tmp_path, settings=settings) as nodes:
        assert create_topic(nodes[0].port, "t", 6, 3) is ErrorCode.NONE
        for node in nodes:
            led_by(node, {1, 2, 3})
        controller = active(nodes)
        frozen, killed = (node for node in nodes if node.node_id != controller)
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            # Metadata can still be committed: two of three controllers run.
            assert create_topic(nodes[controller - 1].port, "while", 1, 1) is ErrorCode.NONE
            until(lambda: "while" in topics(nodes[controller - 1].port), "the topic")
            assert nodes[controller - 1].brokers() == 3
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        until(lambda: "while" in topics(frozen.port), "the topic", WAIT_S)
        assert frozen.brokers() == 3
        # The same nodes still detect the end of a process.
        killed.kill()
        until(lambda: nodes[controller - 1].brokers() == 2, "two brokers", WAIT_S)
