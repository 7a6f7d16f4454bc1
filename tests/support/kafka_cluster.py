"""Three Apache Kafka 4.3.1 nodes, each broker and controller: for replicas, in-sync sets and a quorum of several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.launch.cluster_nodes import launch, voters_of
from bench.launch.nodes import CLUSTER_ID
from tests.support import kafka_tools
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
    voters = voters_of(nodes)
    for number, node in enumerate(nodes, 1):
        node.settings |= {
            "node.id": str(number),
            "broker.rack": f"rack-{number}",
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": str(NODES),
            "transaction.state.log.replication.factor": str(NODES),
            "transaction.state.log.min.isr": "2",
        }
    try:
        for node in nodes:
            node.prepare()
        launch(nodes)
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


class DynamicVoter(KafkaPeer):
    """A node whose voters are in the metadata log (kraft.version 1): the first one starts a single-voter quorum, and
    the others follow it as observers until they are added.
    """

    def __init__(self, directory: Path, number: int, first: DynamicVoter | None) -> None:
        super().__init__(directory)
        self.number = number
        self.first = first

    def _write_properties(self) -> None:
        port = (self.first or self).controller_port
        self.settings |= {
            "node.id": str(self.number),
            "controller.quorum.bootstrap.servers": f"{self.host}:{port}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port},"
            f"CONTROLLER://{self.host}:{self.controller_port}",
        }
        super()._write_properties()
        # Voters in the file would be the only ones.
        lines = self._properties.read_text().splitlines(keepends=True)
        self._properties.write_text("".join(line for line in lines if not line.startswith("controller.quorum.voters")))

    def prepare(self) -> None:
        if not (self.data_dir / "meta.properties").exists():
            self._write_properties()
            role = "--standalone" if self.first is None else "--no-initial-controllers"
            kafka_tools.run_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self._properties, role)
        super().prepare()


@contextmanager
def dynamic_quorum(directory: Path, nodes: int) -> Iterator[list[DynamicVoter]]:
    """Start node 1, the only voter, and the others as its observers; yield them once all brokers are known."""
    first = DynamicVoter(directory / "node-1", 1, None)
    every = [first, *(DynamicVoter(directory / f"node-{n}", n, first) for n in range(2, nodes + 1))]
    try:
        for node in every:
            node.start()
        until(lambda: all(_brokers_known_to(node) == nodes for node in every), f"{nodes} brokers", 60)
        yield every
    finally:
        for node in every:
            node.close()
