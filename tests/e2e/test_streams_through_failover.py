"""Kafka Streams with exactly_once_v2 counts records while the nodes of the cluster are killed one at a time."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from bench.launch import kafka_dist
from bench.steady_clients.programs import LineProgram
from broker_cy.core.errors import ErrorCode
from tests.e2e.test_clients_through_failover import AS_KAFKA, PARTITIONS, WAIT_S
from tests.support import kafka_streams, needs
from tests.support.cluster import ClusterNode, cluster, create_topic, topics
from tests.support.confluent import close_consumer, failures_to, new_consumer
from tests.support.wait import until

pytestmark = [
    needs.java,
    pytest.mark.soak,
]
KEYS = 20
EVERY_S = 0.01
DEATHS = 3  # each node once


class Streams(LineProgram):
    """The program of failover_clients/Streams.java."""

    def __init__(self, bootstrap: str, source: str, target: str, directory: Path, protocol: str) -> None:
        command = kafka_dist.program_command(
            Path(__file__).with_name("failover_clients") / "Streams.java", kafka_streams.streams_libs()
        )
        words = [bootstrap, source, target, str(directory / "state"), protocol]
        super().__init__([*command, *words], directory, "streams")


def counts(servers: str, name: str) -> dict[str, list[int]]:
    """The committed counts of each key, in the order of the topic."""
    consumer = new_consumer(servers, f"last-of-{name}", isolation_level="read_committed", enable_partition_eof=True)
    consumer.assign([TopicPartition(name, number, 0) for number in range(PARTITIONS)])
    found: dict[str, list[int]] = defaultdict(list)
    ended: set[int | None] = set()

    def read() -> bool:
        for message in consumer.consume(1000, 0.2):
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found[(message.key() or b"").decode()].append(int(message.value() or b"0"))
        return len(ended) == PARTITIONS

    until(read, f"the ends of {name}", WAIT_S)
    close_consumer(consumer)
    return found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_every_record_is_counted_once_while_nodes_die(tmp_path: Path, protocol: str) -> None:
    """If this fails, a stream processor with exactly_once_v2 counts records twice or loses some when a broker dies."""
    settings = {
        **AS_KAFKA,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
    }
    with cluster(tmp_path / "nodes", settings=settings) as nodes:
        servers = ",".join(node.bootstrap for node in nodes)
        for name in ("in", "out"):
            assert create_topic(nodes[0].port, name, PARTITIONS, 3) is ErrorCode.NONE
        for node in nodes:
            until(lambda node=node: {"in", "out"} <= set(topics(node.port)), "the topics", WAIT_S)  # type: ignore[misc]
        streams = Streams(servers, "in", "out", tmp_path / "streams", protocol)
        try:
            sent = feed(nodes, servers, streams)
            wanted = {key: list(range(1, count + 1)) for key, count in sent.items()}

            def all_counted() -> bool:
                found = counts(servers, "out")
                return all(len(found[key]) >= count for key, count in sent.items())

            until(all_counted, "all counts", WAIT_S, 1.0)
            streams.finish()
            found = counts(servers, "out")
        finally:
            streams.close()
        # A broken transaction would repeat a count, and a lost one would leave a gap.
        assert found == wanted
        errors = [line for line in streams.lines if line.startswith("error")]
        print(f"{sum(sent.values())} records, {len(errors)} errors of threads: {errors[:3]}")


def feed(nodes: list[ClusterNode], servers: str, streams: Streams) -> dict[str, int]:
    """Write records, and kill each node in turn meanwhile; return the number of records of each key."""
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 2})
    sent: dict[str, int] = defaultdict(int)

    def write(seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            key = f"k{sum(sent.values()) % KEYS}"
            producer.produce("in", b"", key.encode(), on_delivery=failures_to(failures))
            sent[key] += 1
            producer.poll(EVERY_S)

    until(lambda: "running" in streams.lines, "a running stream processor", 3 * WAIT_S)
    for turn in range(DEATHS):
        write(2)
        node = nodes[turn % len(nodes)]
        node.kill()
        # Longer than the session timeout of a broker, so that other brokers lead and coordinate meanwhile.
        write(12)
        node.restart()

        def in_sync(port: int = node.port) -> bool:
            return all(
                len(part.isr_nodes) == 3
                for each in topics(port).values()
                for part in each.partitions
                if len(part.replica_nodes) == 3
            )

        until(in_sync, "all replicas in sync", WAIT_S, 0.5, tolerate=(Exception,))
        print(f"node {node.node_id} died and came back; {sum(sent.values())} records", flush=True)
    assert producer.flush(WAIT_S) == 0
    assert not failures, failures[:3]
    return dict(sent)
