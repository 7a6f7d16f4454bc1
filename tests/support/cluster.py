"""Several nodes of ours as processes of one cluster, on the loopback interface."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from bench.launch.nodes import BrokerCy, broker_command, free_ports
from bench.launch.processes import run
from broker_cy.client.address import Address
from broker_cy.client.deadline import Deadline
from broker_cy.client.pool import Peer, Pool
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.codec import Message
from tests.support.raw_wire import METADATA, Connection, array
from tests.support.wait import until

R = TypeVar("R", bound=Message)

CLUSTER_ID = "vPeWCWqNQ0eGGvvK5wD1kg"
# A quorum that finds its leaders quickly; everything else has the broker's default.
QUICK = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
}
# Elections, registrations and a machine that does other things as well.
READY_S = 60.0


class ClusterNode(BrokerCy):
    """One node; its settings are in `properties`, because its listeners are more than one."""

    def __init__(self, directory: Path, node_id: int, roles: str, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings)
        self.node_id = node_id
        self.roles = roles
        self.controller_port = 0
        self.ready_timeout_s = READY_S
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    def choose_ports(self) -> None:
        self.port, self.controller_port = free_ports(2)

    def command(self) -> Sequence[str | Path]:
        return [*broker_command(), "start", "--config", self.properties]

    def write_properties(self, voters: str) -> None:
        listeners = []
        if "broker" in self.roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.port}")
        if "controller" in self.roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_port}")
        values = {
            "process.roles": self.roles,
            "node.id": str(self.node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data_dir),
            **QUICK,
            **self.settings,
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    def format(self, *options: str) -> None:
        arguments = ["format", "-c", str(self.properties), "-t", CLUSTER_ID, *options]
        run([*broker_command(), "storage", *arguments], timeout_s=60)

    def brokers(self) -> int:
        """How many brokers clients of this node see; 0 if it cannot be reached."""
        with suppress(OSError, EOFError), Connection((self.host, self.port)) as connection:
            return connection.ask(METADATA, 1, array([])).i32()
        return 0


@contextmanager
def cluster(
    directory: Path, roles: Sequence[str] = ("broker,controller",) * 3, settings: Mapping[str, str] | None = None
) -> Iterator[list[ClusterNode]]:
    """Start one node for each of `roles`, with the ids from 1 on and static voters, and yield them when clients of each
    broker see all brokers.
    """
    nodes = [
        ClusterNode(directory / f"node-{number}", number, role, settings or {}) for number, role in enumerate(roles, 1)
    ]
    for node in nodes:
        node.choose_ports()
    voters = ",".join(
        f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in nodes if "controller" in each.roles
    )
    try:
        for node in nodes:
            node.write_properties(voters)
            node.format()
        for node in nodes:
            node.launch()
        brokers = [node for node in nodes if "broker" in node.roles]
        until(lambda: all(node.brokers() == len(brokers) for node in brokers), "all brokers", READY_S)
        yield nodes
    finally:
        for node in nodes:
            node.close()


def ask(port: int, request: Message, response: type[R]) -> R:
    """Send a request to a listener on the loopback interface, in the newest version. Raises ClientError."""

    async def work() -> R:
        pool = Pool("test")
        try:
            found, _ = await pool.ask(Peer(Address("127.0.0.1", port)), request, response, Deadline(30.0))
        finally:
            await pool.close()
        return found

    return asyncio.run(work())


def quorum(port: int) -> Any:
    """What DescribeQuorum shows of the metadata log. Raises ClientError."""
    part = messages.DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = messages.DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[part])
    found = ask(port, messages.DescribeQuorumRequest(topics=[topic]), messages.DescribeQuorumResponse)
    assert found.error_code == 0, found
    return found.topics[0].partitions[0]


def create_topic(port: int, name: str, partitions: int = 1, replicas: int = 1) -> ErrorCode:
    topic = messages.CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas
    )
    request = messages.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    return ErrorCode(ask(port, request, messages.CreateTopicsResponse).topics[0].error_code)


def topics(port: int) -> dict[str, Any]:
    """The topics that clients of a broker see, by name."""
    found = ask(port, messages.MetadataRequest(topics=None), messages.MetadataResponse)
    return {topic.name or "": topic for topic in found.topics}
