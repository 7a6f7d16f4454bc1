"""Several broker-cy nodes as processes of one cluster, on the loopback interface."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from bench.launch import cluster_nodes
from broker_cy.client.address import Address
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError
from broker_cy.client.outgoing import MACHINE
from broker_cy.client.pool import Peer, Pool
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.codec import Message
from tests.support.forking import Forking
from tests.support.raw_wire import METADATA, Connection, array
from tests.support.wait import until

R = TypeVar("R", bound=Message)
Listener = Address | int
"""The address of a listener, or its port on the loopback interface."""

# Brokers whose end is noticed soon; all other settings have the broker's defaults. Shorter timeouts of the quorum cause
# elections while other programs take the machine.
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
}
# For three nodes that fail: Kafka's defaults instead of the short timeouts of brokers, and replicas that survive the
# loss of one node.
DISTURBED = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
}
# Long enough for elections and registrations on a busy machine.
READY_S = 60.0


class ClusterNode(Forking, cluster_nodes.ClusterNode):
    """One node, with the settings QUICK unless its own override them."""

    def __init__(self, directory: Path, node_id: int, roles: str, settings: Mapping[str, str]) -> None:
        super().__init__(directory, node_id, roles, {**QUICK, **settings})
        self.ready_timeout_s = READY_S

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    def brokers(self) -> int:
        """The number of brokers that clients of this node see; 0 if it cannot be reached."""
        with suppress(OSError, EOFError), Connection((self.host, self.port)) as connection:
            return connection.ask(METADATA, 1, array([])).i32()
        return 0


class DynamicNode(ClusterNode):
    """A node whose voters are, or will be, in the log: nodes find each other at bootstrap servers."""

    def write_servers(self, servers: str) -> None:
        self.write_properties("")
        lines = self.properties.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("controller.quorum.voters=")]
        self.properties.write_text("\n".join([*kept, f"controller.quorum.bootstrap.servers={servers}", ""]))

    @property
    def controller(self) -> str:
        """The address of its controller listener."""
        return f"{self.host}:{self.controller_port}"


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
    with running(nodes):
        yield nodes


@contextmanager
def joined_voters(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[list[DynamicNode]]:
    """Start three nodes: the first one starts as a single-voter quorum, and the others join it as voters by themselves.
    Yield them when all are voters and clients of each see all brokers.
    """
    joining = {"controller.quorum.auto.join.enable": "true", **(settings or {})}
    nodes = [DynamicNode(directory / f"node-{number}", number, "broker,controller", joining) for number in (1, 2, 3)]
    for node in nodes:
        node.choose_ports()
    try:
        for node in nodes:
            node.write_servers(",".join(each.controller for each in nodes))
            node.format("--standalone" if node is nodes[0] else "--no-initial-controllers")
            node.launch()
        until(
            lambda: len(quorum(nodes[0].port).current_voters) == len(nodes),
            "three voters",
            READY_S,
            tolerate=(ClientError, AssertionError),
        )
        until(lambda: all(node.brokers() == len(nodes) for node in nodes), "three brokers", READY_S)
        yield nodes
    finally:
        for node in nodes:
            node.close()


@contextmanager
def running(nodes: Sequence[ClusterNode]) -> Iterator[None]:
    """Format and start nodes that have their ports, as static voters, and wait until clients of each broker see all
    brokers; end them afterwards.
    """
    voters = ",".join(
        f"{each.node_id}@{each.host}:{each.controller_port}" for each in nodes if "controller" in each.roles
    )
    try:
        for node in nodes:
            node.write_properties(voters)
            node.format()
        for node in nodes:
            node.launch()
        brokers = [node for node in nodes if "broker" in node.roles]
        until(lambda: all(node.brokers() == len(brokers) for node in brokers), "all brokers", READY_S)
        yield
    finally:
        for node in nodes:
            node.close()


def ask(listener: Listener, request: Message, response: type[R], client_id: str = "test") -> R:
    """Send a request to a listener in the newest version. Raises ClientError."""
    address = listener if isinstance(listener, Address) else Address("127.0.0.1", listener)

    async def work() -> R:
        pool = Pool(client_id, MACHINE)
        try:
            found, _ = await pool.ask(Peer(address), request, response, Deadline(30.0))
        finally:
            await pool.close()
        return found

    return asyncio.run(work())


def quorum(listener: Listener) -> Any:
    """The state of the metadata log from DescribeQuorum. Raises ClientError."""
    part = messages.DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = messages.DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[part])
    found = ask(listener, messages.DescribeQuorumRequest(topics=[topic]), messages.DescribeQuorumResponse)
    assert found.error_code == 0, found
    return found.topics[0].partitions[0]


def create_topic(listener: Listener, name: str, partitions: int = 1, replicas: int = 1) -> ErrorCode:
    topic = messages.CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas
    )
    request = messages.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    return ErrorCode(ask(listener, request, messages.CreateTopicsResponse).topics[0].error_code)


def topics(listener: Listener) -> dict[str, Any]:
    """The topics that clients of a broker see, by name."""
    found = ask(listener, messages.MetadataRequest(topics=None), messages.MetadataResponse)
    return {topic.name or "": topic for topic in found.topics}


def in_sync(listener: Listener, topic: str, replicas: int) -> bool:
    """Whether a broker shows this many in-sync replicas for each partition; False if it does not list the topic yet."""
    found = topics(listener).get(topic)
    return found is not None and all(len(part.isr_nodes) == replicas for part in found.partitions)
