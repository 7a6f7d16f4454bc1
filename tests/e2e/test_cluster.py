"""Several broker-cy processes form one metadata quorum and one cluster."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from tests.support.cluster import ClusterNode, ask, cluster, create_topic, in_sync, quorum, topics
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


def metrics(node: ClusterNode) -> dict[str, str]:
    """The metrics of a node, by name with labels."""
    found = re.search(r"metrics on (http://[^ ]+)", node.child.stdout())
    assert found is not None, node.child.stdout()
    with urlopen(found[1], timeout=30) as page:
        lines = page.read().decode().splitlines()
    return dict(line.rpartition(" ")[::2] for line in lines if not line.startswith("#"))


def settings(port: int, resource_type: int, name: str) -> dict[tuple[str, str], str | None]:
    """The settings of a resource, as a listener describes them."""
    resource = messages.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    request = messages.DescribeConfigsRequest(resources=[resource])
    (found,) = ask(port, request, messages.DescribeConfigsResponse).results
    assert found.error_code == ErrorCode.NONE, found
    return {(name, each.name): each.value for each in found.configs}


def test_the_death_of_the_active_controller(tmp_path: Path) -> None:
    """If this fails, a cluster cannot be changed after one of its controllers dies, nodes show different topics, or a
    node that comes back does not rejoin.
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
        # Metadata no longer sends clients to it.
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
    """If this fails, each restart of a broker makes its partitions unavailable until its session expires."""
    with cluster(tmp_path, settings={"broker.session.timeout.ms": "600000"}) as nodes:
        assert create_topic(nodes[0].port, "t", 6, 3) is ErrorCode.NONE
        seen_by_all(nodes, "t")
        assert nodes[1].stop() == 0
        left = [nodes[0], nodes[2]]

        def moved() -> bool:
            leaders = {part.leader_id for part in topics(left[0].port)["t"].partitions}
            return bool(leaders) and leaders <= {1, 3}

        until(moved, "leaders among the others", 60, tolerate=(ClientError,))
        # The broker is fenced by a later record than those that move its partitions.
        until(lambda: left[0].brokers() == 2, "two brokers", 60)


@pytest.mark.full
def test_a_broker_that_was_unregistered_while_it_runs_comes_back(tmp_path: Path) -> None:
    """If this fails, a running broker that an operator unregistered too early never gets in sync again."""
    with cluster(tmp_path) as nodes:
        assert create_topic(nodes[0].port, "t", 3, 3) is ErrorCode.NONE
        until(lambda: in_sync(nodes[0].port, "t", 3), "three replicas in sync", 60)
        request = messages.UnregisterBrokerRequest(broker_id=2)
        assert ask(nodes[0].port, request, messages.UnregisterBrokerResponse).error_code == ErrorCode.NONE
        until(lambda: not in_sync(nodes[0].port, "t", 3), "that the broker was removed", 60)
        until(lambda: in_sync(nodes[0].port, "t", 3), "three replicas in sync again", 60)


def test_nothing_that_was_acknowledged_is_lost_with_a_leader(tmp_path: Path) -> None:
    """If this fails, records that all in-sync replicas acknowledged are lost with the leader of their partition."""
    with cluster(tmp_path, settings={"min.insync.replicas": "2"}) as nodes:
        assert create_topic(nodes[0].port, "t", 3, 3) is ErrorCode.NONE
        seen_by_all(nodes, "t")
        bootstrap = ",".join(node.bootstrap for node in nodes)
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000})
        acknowledged: set[bytes] = set()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acknowledged.add(message.value() or b"")

        def produce(numbers: range) -> None:
            for number in numbers:
                producer.produce("t", str(number).encode(), partition=number % 3, on_delivery=delivered)
            assert producer.flush(90) == 0

        produce(range(300))
        victim = nodes[topics(nodes[0].port)["t"].partitions[0].leader_id - 1]
        victim.kill()
        produce(range(300, 600))
        assert len(acknowledged) == 600

        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
        consumer.assign([TopicPartition("t", index, 0) for index in range(3)])
        found: set[bytes] = set()

        def everything() -> bool:
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found.add(message.value() or b"")
            return acknowledged <= found

        try:
            until(everything, "all records", 60)
        finally:
            consumer.close()
        victim.restart()

        until(lambda: in_sync(victim.port, "t", 3), "three replicas in sync", 60)


@pytest.mark.full
def test_a_wiped_controller_comes_back_by_a_snapshot(tmp_path: Path) -> None:
    """If this fails, a controller with a new disk cannot rejoin after the others have written a snapshot."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with cluster(tmp_path, settings=settings) as nodes:
        for number in range(20):
            assert create_topic(nodes[0].port, f"t{number}", 2, 1) is ErrorCode.NONE
        leader = leader_of(nodes)
        wiped = next(node for node in nodes if node.node_id != leader)
        log = nodes[leader - 1].data_dir / "__cluster_metadata-0"
        until(lambda: list(log.glob("*.checkpoint")), "a snapshot")
        assert wiped.stop() == 0
        shutil.rmtree(wiped.data_dir)
        wiped.format()
        wiped.restart()
        seen_by_all([wiped], *(f"t{number}" for number in range(20)))
        assert list((wiped.data_dir / "__cluster_metadata-0").glob("*.checkpoint"))
        assert create_topic(wiped.port, "after") is ErrorCode.NONE
        seen_by_all(nodes, "after")
        assert wiped.stop() == 0
        wiped.restart()
        seen_by_all([wiped], "t0", "after")


@pytest.mark.full
def test_controllers_and_brokers_of_their_own(tmp_path: Path) -> None:
    """If this fails, a cluster with separate controllers does not start, its brokers do not receive changes, or
    settings that a broker forwards are lost.
    """
    with cluster(tmp_path, ("controller", "broker", "broker"), {"brokercy.metrics.listener": "127.0.0.1:0"}) as nodes:
        brokers = nodes[1:]
        scraped = metrics(nodes[0])
        assert scraped["broker_cy_active_controller"] == "1"
        assert int(scraped['broker_cy_requests_total{api="Fetch"}']) > 0
        assert metrics(brokers[0])["broker_cy_quorum_leader"] == "1"
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
        # kafka-configs.sh --bootstrap-controller asks the controller.
        assert {("a", "retention.ms"): "12345"}.items() <= settings(nodes[0].controller_port, 2, "a").items()
        assert settings(nodes[0].controller_port, 4, "1")["1", "node.id"] == "1"
        # The only default for all brokers is the one that comes with eligible.leader.replicas.version 1 (KIP-966).
        assert settings(nodes[0].controller_port, 4, "") == {("", "min.insync.replicas"): "1"}
        described = quorum(brokers[0].port)
        assert [voter.replica_id for voter in described.current_voters] == [1]
        assert sorted(observer.replica_id for observer in described.observers) == [2, 3]
        request_ids = messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        ids = {ask(node.port, request_ids, messages.InitProducerIdResponse).producer_id for node in brokers}
        assert len(ids) == 2
        assert min(ids) >= 0


@pytest.mark.full
def test_a_broker_with_a_new_disk_leads_again_when_it_is_in_sync(tmp_path: Path) -> None:
    """If this fails, a broker whose disk was replaced never leads its former partitions: they have no leader when the
    other brokers fail, although it has every record. It must not lead before it has them.
    """
    with cluster(tmp_path, ("controller", "broker", "broker")) as nodes:
        _, other, replaced = nodes
        assert create_topic(other.port, "t", 4, 2) is ErrorCode.NONE
        until(lambda: in_sync(other.port, "t", 2), "two replicas in sync", 60)
        replaced.kill()
        shutil.rmtree(replaced.data_dir)
        replaced.format()
        replaced.restart()
        until(lambda: in_sync(other.port, "t", 2), "its replicas in sync again", 60, tolerate=(ClientError,))

        def led_by_replaced() -> bool:
            return {part.leader_id for part in topics(replaced.port)["t"].partitions} == {replaced.node_id}

        # Its new directory is registered shortly after it is in sync.
        elect = messages.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000)

        def leads_something() -> bool:
            ask(other.port, elect, messages.ElectLeadersResponse)
            return replaced.node_id in {part.leader_id for part in topics(other.port)["t"].partitions}

        until(leads_something, "preferred leaders on the new disk", 60, tolerate=(ClientError,))
        other.kill()
        until(led_by_replaced, "all leaders on the new disk", 60, tolerate=(ClientError,))
