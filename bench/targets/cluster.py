"""A target of several nodes on this machine: topics have three replicas, and the figures are those of all nodes
together.
"""

import itertools
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from bench.launch import cluster_nodes, kafka_dist, nodes
from bench.launch.cluster_nodes import ClusterNode
from bench.launch.networks import Network
from bench.launch.shards import STEP
from bench.spec.target import TargetSpec
from bench.targets.brokers import Address, BrokerCy, Target, TargetError
from bench.wire import protocol
from bench.wire.cluster_requests import Metadata, metadata
from broker_cy.launch.processes import ProcessError

REPLICAS = 3
READY_S = 120.0  # until the nodes know each other, and until a topic is in sync: three JVMs on two cores
GONE_S = 60.0  # until the files of a deleted topic are gone
LOOK_S = 0.02
ASK_S = 10.0
LOOPBACK = "127.0.0.1"
T = TypeVar("T")


class Cluster(Target):
    """`spec.nodes` nodes of ours or of Kafka, each broker and controller, ours with `spec.shards` brokers. `address` is
    that of the first node. Node ids begin with 1; the other brokers of a node have higher ids (`broker_ids`).

    With a network each node is on its own host (bench.launch.networks); otherwise all are on the loopback interface.
    """

    def __init__(self, directory: Path, spec: TargetSpec, network: Network | None = None) -> None:
        super().__init__(directory)
        self.name = spec.name
        self.spec = spec
        self.network = network
        self.compiles = spec.kind == "kafka"
        self.nodes: list[ClusterNode | nodes.Kafka] = []

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(pid for node in self.nodes for pid in node.pids)

    @property
    def copies(self) -> int:
        return REPLICAS

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes in the form of clients."""
        return ",".join(node.bootstrap for node in self.nodes)

    def version(self) -> str:
        one = f"Apache Kafka {kafka_dist.VERSION}" if self.spec.kind == "kafka" else BrokerCy(self.directory).version()
        return f"{one}, {self.spec.nodes} nodes" + (f" of {self.spec.shards} shards" if self.spec.shards > 1 else "")

    def broker_ids(self, number: int) -> list[int]:
        """Return the ids of the brokers of node `number`, from 0 on; that of the controller is the first."""
        return [number + 1 + STEP * shard for shard in range(self.spec.shards)]

    def number_of(self, broker_id: int) -> int:
        """Return the number of the node, from 0 on, that has a broker."""
        return broker_id % STEP - 1

    def next_to(self, broker_id: int) -> int:
        """Return the same broker of the next node."""
        number = self.number_of(broker_id)
        return broker_id - number + (number + 1) % len(self.nodes)

    def broker_pid(self, broker_id: int) -> int:
        """Return the process of a running broker."""
        return self.nodes[self.number_of(broker_id)].broker_pid(broker_id)

    def made(self, hosts: Sequence[str]) -> list[ClusterNode | nodes.Kafka]:
        """Return the nodes, formatted, one at each address of `hosts`. Raises ProcessError."""
        if self.spec.kind == "kafka":
            return [*cluster_nodes.kafkas(self.directory, self.spec.settings, hosts, self.spec.jvm)]
        return [*cluster_nodes.ours(self.directory, self.spec.settings, hosts, self.spec.shards)]

    def start(self) -> None:
        """Start all nodes, and wait until each of them shows all of them."""
        hosts = self.network.hosts if self.network is not None else [LOOPBACK] * self.spec.nodes
        begun = time.monotonic()
        try:
            self.nodes = self.made(hosts)
            for number, node in enumerate(self.nodes):
                node.ready_timeout_s = READY_S
                if self.network is not None:
                    node.wrapper = self.network.wrapper(number)
            cluster_nodes.launch(self.nodes)
        except ProcessError as error:
            raise TargetError(f"{self.name}: {error}") from error
        self.address, self.pid = (self.nodes[0].host, self.nodes[0].port), self.nodes[0].pid
        self.wait(self.is_complete, f"{len(self.nodes)} nodes that know each other")
        self.first_answer_s = time.monotonic() - begun

    def stop(self) -> None:
        """Kill all nodes: their data is removed, and the last nodes of a quorum could not shut down cleanly without the
        others.
        """
        for node in self.nodes:
            node.kill()

    def kill(self) -> None:
        self.stop()

    @contextmanager
    def running(self) -> Iterator["Cluster"]:
        try:
            self.start()
            yield self
        finally:
            self.stop()
            shutil.rmtree(self.directory, ignore_errors=True)

    def alive(self) -> bool:
        return all(node.alive() for node in self.nodes)

    def wait(self, condition: Callable[[], T], what: str, timeout_s: float = READY_S) -> T:
        """Return the first true value; a node that does not answer is not ready yet. Raises TargetError."""
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(OSError, protocol.ProtocolError):
                if value := condition():
                    return value
            if time.monotonic() > deadline:
                tails = "; ".join(f"node {number}: {node.tail()}" for number, node in enumerate(self.nodes, 1))
                raise TargetError(f"{self.name}: no {what} within {timeout_s:g} s; {tails[-2000:]}")
            time.sleep(LOOK_S)

    def seen(self, number: int, topic: str = "") -> Metadata:
        """Return the view of the cluster and of a topic of node `number`, from 0 on. Raises OSError, ProtocolError."""
        node = self.nodes[number]
        with protocol.Client((node.host, node.port), ASK_S) as client:
            return metadata(client, topic)

    def is_complete(self) -> bool:
        """Whether each node shows all brokers."""
        count = len(self.nodes) * self.spec.shards
        return all(len(self.seen(number).brokers) == count for number in range(len(self.nodes)))

    def is_in_sync(self, topic: str, partitions: int) -> bool:
        """Whether each node shows all replicas of a topic in sync, and a leader of each partition."""
        for number in range(len(self.nodes)):
            found = self.seen(number, topic).partitions
            if len(found) != partitions or any(
                each.leader < 0 or len(each.in_sync) < len(each.replicas) for each in found.values()
            ):
                return False
        return True

    def leaders(self, topic: str, partitions: int) -> dict[int, Address]:
        """Return the address at which each partition is written and read. Raises TargetError if one has no leader."""

        def found() -> dict[int, Address]:
            seen = self.seen(0, topic)
            complete = len(seen.partitions) == partitions
            known = complete and all(each.leader in seen.brokers for each in seen.partitions.values())
            return {number: seen.brokers[each.leader] for number, each in seen.partitions.items()} if known else {}

        return self.wait(found, f"leaders of {topic}")

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic with REPLICAS, and wait until all are in sync and each partition accepts a record."""
        with protocol.Client(self.address) as client:
            client.create_topic(topic, partitions, settings or {}, REPLICAS)
        self.wait(lambda: self.is_in_sync(topic, partitions), f"in-sync replicas of {topic}")
        self.probe(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until its files are gone on all nodes."""
        super().delete_topic(topic)
        deadline = time.monotonic() + GONE_S
        directories = [each for node in self.nodes for each in node.log_dirs]
        while any(itertools.chain.from_iterable(each.glob(f"{topic}-*") for each in directories)):
            if time.monotonic() > deadline:
                raise TargetError(f"{self.name} kept the files of the deleted topic {topic} for {GONE_S:g} s")
            time.sleep(LOOK_S)
