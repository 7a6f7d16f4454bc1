"""A single node, as `broker-cy start` formats it, becomes a cluster of three, without copying anything by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.launch.nodes import broker_command, free_ports
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from broker_cy.launch.processes import run
from broker_cy.wire import messages
from tests.support.cluster import ClusterNode, DynamicNode, ask, create_topic, quorum, topics
from tests.support.wait import until

RECORDS = 300
# The broker's own topics, created for a group and for telemetry.
INTERNAL = ("__consumer_offsets", "__cluster_events", "__broker_metrics")


def broker_cy(node: ClusterNode, *arguments: str) -> str:
    """The output of a command about the cluster."""
    return run([*broker_command(), *arguments, "--bootstrap", node.bootstrap], timeout_s=90).stdout.decode()


def start_alone(node: DynamicNode) -> None:
    """Start an unformatted node with only a listener for clients."""
    values = {
        "offsets.topic.num.partitions": "8",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port}",
        "log.dirs": str(node.data_dir),
    }
    node.properties.write_text("".join(f"{name}={value}\n" for name, value in (values | node.settings).items()))
    node.launch()
    until(lambda: node.brokers() == 1, "the node", 60)


def produce(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 60_000})
    for number in numbers:
        producer.produce("t", str(number).encode(), partition=number % 2)
    assert producer.flush(90) == 0


def consumed(bootstrap: str, count: int) -> set[int]:
    """Read the records from the beginning, as a group that commits its offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", index, 0) for index in range(2)])
    found: set[int] = set()

    def everything() -> bool:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            found.add(int(message.value() or b"-1"))
        return len(found) >= count

    try:
        until(everything, f"{count} records", 60)
        consumer.commit(offsets=[TopicPartition("t", 0, count // 2)], asynchronous=False)
    finally:
        consumer.close()
    return found


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    try:
        return int(consumer.committed([TopicPartition("t", 0)], 60)[0].offset)
    finally:
        consumer.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[DynamicNode]]:
    found = [DynamicNode(tmp_path / f"node-{number}", number, "broker,controller", {}) for number in (1, 2, 3)]
    for node in found:
        node.choose_ports()
    try:
        yield found
    finally:
        for node in found:
            node.close()


def voters(port: int) -> list[int]:
    return sorted(voter.replica_id for voter in quorum(port).current_voters)


@pytest.mark.full
def test_a_single_node_becomes_a_cluster(nodes: list[DynamicNode]) -> None:
    """If this fails, a user who began with one node has to copy everything to a new cluster, or loses records while
    growing.
    """
    first, *others = nodes
    start_alone(first)
    assert create_topic(first.port, "t", 2) is ErrorCode.NONE
    produce(first.bootstrap, range(RECORDS))
    assert consumed(first.bootstrap, RECORDS) == set(range(RECORDS))
    # Other nodes could not reach this voter.
    refused = run(
        [*broker_command(), "quorum", "upgrade", "--yes", "--bootstrap", first.bootstrap], timeout_s=60, check=False
    )
    assert refused.returncode != 0
    assert b"add a listener of controller.listener.names" in refused.stderr
    cluster_id = ask(first.port, messages.DescribeClusterRequest(), messages.DescribeClusterResponse).cluster_id
    assert first.stop() == 0

    servers = ",".join(node.controller for node in nodes)
    first.write_servers(servers)
    first.launch()
    until(lambda: first.brokers() == 1, "the node again", 60)
    assert "kraft.version is 1 now" in broker_cy(first, "quorum", "upgrade", "--yes")
    for node in others:
        node.write_servers(servers)
        node.format("--no-initial-controllers", cluster_id=cluster_id)
        node.launch()
    until(lambda: all(node.brokers() == 3 for node in nodes), "three brokers", 60)
    # An address without a listener cannot become a voter.
    wrong = ["quorum", "add", "2", "--endpoint", f"CONTROLLER://127.0.0.1:{free_ports(1)[0]}", "--yes"]
    refused = run(
        [*broker_command(), *wrong, "--bootstrap", first.bootstrap, "--timeout", "3"], timeout_s=90, check=False
    )
    assert refused.returncode != 0
    assert b"does not answer at 127.0.0.1:" in refused.stderr, refused.stderr
    assert voters(first.port) == [1]
    for node in others:
        broker_cy(first, "quorum", "add", str(node.node_id), "--endpoint", f"CONTROLLER://{node.controller}", "--yes")
    assert voters(others[0].port) == [1, 2, 3]

    names = [name for name in ("t", *INTERNAL) if name in topics(first.port)]
    assert "__consumer_offsets" in names
    moves = first.directory / "moves.json"
    moves.write_text(json.dumps({"version": 1, "partitions": spread(first.port, names)}))
    broker_cy(first, "reassign", "apply", str(moves), "--concurrent", "50", "--yes")
    bootstrap = ",".join(node.bootstrap for node in nodes)

    def in_sync() -> bool:
        parts = [part for name in names for part in topics(others[0].port)[name].partitions]
        return all(len(part.isr_nodes) == 3 for part in parts)

    until(in_sync, "three replicas in sync", 60, tolerate=(ClientError,))
    produce(bootstrap, range(RECORDS, 2 * RECORDS))

    # The first node, with all the original data, can be removed.
    first.kill()
    left = ",".join(node.bootstrap for node in others)
    until(lambda: quorum(others[0].port).leader_id in (2, 3), "another controller", 60, tolerate=(ClientError,))
    until(lambda: all(node.brokers() == 2 for node in others), "two brokers", 60)
    assert committed(left) == RECORDS // 2
    assert consumed(left, 2 * RECORDS) == set(range(2 * RECORDS))
    first.restart()
    until(lambda: all(node.brokers() == 3 for node in nodes), "three brokers again", 60)
    assert voters(first.port) == [1, 2, 3]
    assert [node.stop() for node in nodes] == [0, 0, 0]


def spread(port: int, names: list[str]) -> list[dict[str, Any]]:
    """Give each partition of these topics three replicas."""
    return [
        {"topic": name, "partition": part.partition_index, "replicas": [1, 2, 3]}
        for name in names
        for part in topics(port)[name].partitions
    ]
