"""Five clients, each in a separate process with default settings, while the leader of a partition is killed.

No acknowledged record may be lost, and no client may report an error that it does not report with three nodes of Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.steady_clients.programs import CLIENTS, missing
from broker_cy.client.errors import ClientError
from broker_cy.core.errors import ErrorCode
from tests.support.cluster import ClusterNode, cluster, create_topic, topics
from tests.support.kafka_cluster import kafka_cluster
from tests.support.kafka_peer import KafkaPeer
from tests.support.steady_client import SteadyClient
from tests.support.wait import until

PARTITIONS = 3
WAIT_S = 150.0
# Kafka's defaults: those of tests/support/cluster.py are shorter.
AS_KAFKA = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "min.insync.replicas": "2",
}


def clients_of(names: Sequence[str]) -> list[str]:
    """The names of the clients that can run here; prints why others cannot."""
    found = []
    for name in names:
        reason = missing(name)
        if reason is None:
            found.append(name)
        else:
            print(f"{name}: {reason}")
    assert found, "no client"
    return found


def fail_over(
    nodes: Sequence[ClusterNode] | Sequence[KafkaPeer], names: Sequence[str], directory: Path, rounds: int
) -> dict[str, list[str]]:
    """Kill the leader of partition 0 of each client's topic in turn; returns what each client reported."""
    servers = ",".join(node.bootstrap for node in nodes)
    started: list[SteadyClient] = []
    try:
        for name in names:
            topic = f"of-{name}"
            assert create_topic(nodes[0].port, topic, PARTITIONS, 3) is ErrorCode.NONE
            for node in nodes:
                until(lambda node=node, topic=topic: topic in topics(node.port), f"topic {topic}", WAIT_S)  # type: ignore[misc]
            started.append(SteadyClient(name, servers, topic, PARTITIONS, directory))
        for client in started:
            client.go_on(WAIT_S)
        for turn in range(rounds):
            in_sync(nodes, started)
            victim = topics(nodes[0].port)[started[turn % len(started)].topic].partitions[0].leader_id
            for client in started:
                client.longest_gap_s = 0.0
            nodes[victim - 1].kill()
            for client in started:
                client.go_on(WAIT_S)
            gaps = ", ".join(f"{client.name} {client.longest_gap_s:.2f} s" for client in started)
            print(
                f"node {victim} was killed; the longest time of a partition without an acknowledgement: {gaps}",
                flush=True,
            )
            nodes[victim - 1].restart()
        in_sync(nodes, started)
        for client in started:
            client.finish()
        leaders = {client.name: topics(nodes[0].port)[client.topic].partitions for client in started}
        for client in started:
            ports = [
                nodes[part.leader_id - 1].port
                for part in sorted(leaders[client.name], key=lambda part: part.partition_index)
            ]
            client.check(ports)
            print(f"{client.name}: {len(client.acked)} acknowledged, {len(client.reported)} reported", flush=True)
        return {client.name: client.reported for client in started}
    finally:
        for client in started:
            client.close()


def in_sync(nodes: Sequence[ClusterNode] | Sequence[KafkaPeer], clients: Sequence[SteadyClient]) -> None:
    names = {client.topic for client in clients} | {"__consumer_offsets"}

    def full() -> bool:
        found = topics(nodes[0].port)
        return all(len(part.isr_nodes) == 3 for name in names for part in found[name].partitions)

    until(full, "all replicas in sync", WAIT_S, 0.2, tolerate=(ClientError, OSError))


def kinds_of(reported: Sequence[str]) -> set[str]:
    """The lines without numbers."""
    return {
        " ".join(word for word in line.split() if not any(letter.isdigit() for letter in word)) for line in reported
    }


@pytest.mark.full
@pytest.mark.timeout(600)
def test_no_client_loses_a_record_or_reports_an_error(tmp_path: Path) -> None:
    """If this fails, users of a client lose acknowledged records, or see errors, when a broker dies."""
    with cluster(tmp_path / "nodes", settings=AS_KAFKA) as nodes:
        reported = fail_over(nodes, clients_of(list(CLIENTS)), tmp_path / "clients", 1)
    assert not any(reported.values()), reported


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_clients_report_no_more_than_with_kafka(tmp_path: Path) -> None:
    """The same with more deaths, and with Kafka for comparison."""
    names = clients_of(list(CLIENTS))
    with kafka_cluster(tmp_path / "kafka") as peers:
        with_kafka = fail_over(peers, names, tmp_path / "with-kafka", 3)
    with cluster(tmp_path / "nodes", settings=AS_KAFKA) as nodes:
        ours = fail_over(nodes, names, tmp_path / "clients", 10)
    for name in names:
        more = kinds_of(ours[name]) - kinds_of(with_kafka[name])
        assert not more, f"{name}: {more}; with Kafka: {kinds_of(with_kafka[name])}"
