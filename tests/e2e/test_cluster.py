"""Several processes of ours form one metadata quorum and one cluster."""

from __future__ import annotations

from pathlib import Path

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.support.cluster import ClusterNode, ask, cluster, create_topic, quorum, topics
from tests.support.wait import until


def seen_by_all(nodes: list[ClusterNode], *names: str) -> None:
    for node in nodes:
        until(lambda node=node: set(names) <= set(topics(node.port)), f"{names} at node {node.node_id}")  # type: ignore[misc]


def leader_of(nodes: list[ClusterNode]) -> int:
    """The active controller, as soon as these nodes have one."""

    def found() -> int:
        leader: int = quorum(nodes[0].port).leader_id
        return leader if any(node.node_id == leader for node in nodes) else 0

    return until(found, "an active controller", 60, tolerate=(ClientError, AssertionError))


def test_the_death_of_the_active_controller(tmp_path: Path) -> None:
    """If this fails, a cluster cannot be changed any more when one of its controllers dies, nodes show other topics,
    or a node that comes back stays outside.
    """
    with cluster(tmp_path) as nodes:
        for node in nodes:
            assert create_topic(node.port, f"by-{node.node_id}", 3, 3) is ErrorCode.NONE
        names = [f"by-{node.node_id}" for node in nodes]
        seen_by_all(nodes, *names)
        assert create_topic(nodes[0].port, "by-2") is ErrorCode.TOPIC_ALREADY_EXISTS
        first = leader_of(nodes)
        assert {quorum(node.port).leader_id for node in nodes} == {first}
        dead = nodes[first - 1]
        others = [node for node in nodes if node is not dead]

        dead.kill()
        second = leader_of(others)
        assert second != first
        for node in others:
            assert create_topic(node.port, f"after-{node.node_id}") is ErrorCode.NONE
        names += [f"after-{node.node_id}" for node in others]
        seen_by_all(others, *names)
        # Clients are no longer sent to it.
        for node in others:
            until(lambda node=node: node.brokers() == 2, "two brokers")  # type: ignore[misc]

        dead.restart()
        seen_by_all(nodes, *names)
        for node in nodes:
            until(lambda node=node: node.brokers() == 3, "three brokers")  # type: ignore[misc]
        found = quorum(dead.port)
        assert sorted(voter.replica_id for voter in found.current_voters) == [1, 2, 3]
        assert create_topic(dead.port, "again", 1, 3) is ErrorCode.NONE
        seen_by_all(nodes, "again")
        assert [node.stop() for node in nodes] == [0, 0, 0]


def test_an_orderly_stop_moves_leadership_first(tmp_path: Path) -> None:
    """If this fails, each restart of a broker takes its partitions from clients until its session ends."""
    with cluster(tmp_path, settings={"broker.session.timeout.ms": "60000"}) as nodes:
        assert create_topic(nodes[0].port, "t", 6, 3) is ErrorCode.NONE
        seen_by_all(nodes, "t")
        assert nodes[1].stop() == 0
        left = [nodes[0], nodes[2]]

        def moved() -> bool:
            leaders = {part.leader_id for part in topics(left[0].port)["t"].partitions}
            return bool(leaders) and leaders <= {1, 3}

        until(moved, "leaders among the others", 60, tolerate=(ClientError,))
        assert left[0].brokers() == 2


def test_controllers_and_brokers_of_their_own(tmp_path: Path) -> None:
    """If this fails, a cluster whose controllers are separate nodes does not start, or its brokers do not hear of
    changes, or settings that a broker forwards are lost.
    """
    with cluster(tmp_path, ("controller", "broker", "broker")) as nodes:
        brokers = nodes[1:]
        assert create_topic(brokers[0].port, "a", 2, 2) is ErrorCode.NONE
        seen_by_all(brokers, "a")
        change = messages.IncrementalAlterConfigsRequest
        request = change(
            resources=[
                change.AlterConfigsResource(
                    resource_type=2,
                    resource_name="a",
                    configs=[change.AlterableConfig(name="retention.ms", config_operation=0, value="12345")],
                )
            ]
        )
        answer = ask(brokers[1].port, request, messages.IncrementalAlterConfigsResponse)
        assert [each.error_code for each in answer.responses] == [0]
        described = quorum(brokers[0].port)
        assert [voter.replica_id for voter in described.current_voters] == [1]
        assert sorted(observer.replica_id for observer in described.observers) == [2, 3]
        request_ids = messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        ids = {ask(node.port, request_ids, messages.InitProducerIdResponse).producer_id for node in brokers}
        assert len(ids) == 2
        assert min(ids) >= 0
