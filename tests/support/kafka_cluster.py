"""Three Apache Kafka 4.3.1 nodes, each broker and controller: for replicas, in-sync sets and a quorum of several."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka_peer import KafkaPeer
from tests.support.raw_wire import METADATA, Connection, array
from tests.support.wait import until

NODES = 3


@contextmanager
def kafka_cluster(directory: Path) -> Iterator[list[KafkaPeer]]:
    """Start the nodes 1 to 3, and yield them; each topic that a client creates may have three replicas."""
    nodes = [KafkaPeer(directory / f"node-{number}") for number in range(1, NODES + 1)]
    for node in nodes:
        node.choose_ports()
    voters = ",".join(f"{number}@{node.host}:{node._controller_port}" for number, node in enumerate(nodes, 1))
    for number, node in enumerate(nodes, 1):
        node.settings |= {
            "node.id": str(number),
            "broker.rack": f"rack-{number}",
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": str(NODES),
            "transaction.state.log.replication.factor": str(NODES),
            "transaction.state.log.min.isr": "2",
        }
    # Processes end with the thread that started them, so the threads stay until the end.
    with ThreadPoolExecutor(NODES) as pool:
        try:
            # A node is ready only when most of the controllers have found each other.
            list(pool.map(lambda node: node.start(), nodes))
            until(lambda: all(_brokers_known_to(node) == NODES for node in nodes), "three brokers", 60)
            yield nodes
        finally:
            for node in nodes:
                node.close()


def _brokers_known_to(node: KafkaPeer) -> int:
    try:
        with Connection((node.host, node.port)) as connection:
            return connection.ask(METADATA, 1, array([])).i32()
    except (OSError, EOFError):
        return 0
