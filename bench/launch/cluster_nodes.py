"""Nodes of one cluster, each broker and controller or one of the two: ours, and Apache Kafka's.

`formed` creates the nodes with one set of static voters; `launch` starts them. A quorum needs a majority of its voters,
so all nodes are launched before the first wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.launch.nodes import CLUSTER_ID, BrokerCy, Kafka, broker_command, free_ports
from bench.launch.shards import STEP, Guard, free_range, running
from broker_cy.launch.processes import Child, ProcessError

FORMAT_S: Final = 60.0
BOTH: Final = "broker,controller"
NODES: Final = 3
# Settings of a cluster of three that are 1 on a single node: both systems get the same values.
THREE: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class ClusterNode(BrokerCy):
    """One of our nodes; its settings are in `properties`, because it has several listeners.

    With `shards` above 1 it is a parent process with this many brokers; the first broker has `port` and the controller.
    """

    def __init__(
        self,
        directory: Path,
        node_id: int,
        roles: str = BOTH,
        settings: Mapping[str, str] | None = None,
        shards: int = 1,
    ) -> None:
        super().__init__(directory, settings)
        self.node_id = node_id
        self.roles = roles
        self.shards = shards
        self.controller_port = 0
        self._guard: Guard | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def pids(self) -> tuple[int, ...]:
        """Return all processes of the node, the parent of its shards first."""
        return (*super().pids, *(running(self.data_dir).values() if self.shards > 1 else ()))

    @property
    def log_dirs(self) -> list[Path]:
        if self.shards == 1:
            return [Path(each) for each in self.settings.get("log.dirs", str(self.data_dir)).split(",")]
        return [self.data_dir / f"shard-{shard}" for shard in range(self.shards)]

    def broker_pid(self, broker_id: int) -> int:
        if self.shards == 1:
            return super().broker_pid(broker_id)
        return running(self.data_dir)[broker_id // STEP]

    def choose_ports(self) -> None:
        (self.controller_port,) = free_ports(1)
        self.port = free_range(self.shards)

    def command(self) -> Sequence[str | Path]:
        return [*broker_command(), "start", "--config", self.properties, *self._sharded]

    @property
    def _sharded(self) -> list[str]:
        return ["--shards", str(self.shards)] if self.shards > 1 else []

    def launch(self) -> Child:
        if self.shards > 1 and self._guard is None:
            self._guard = Guard(self.data_dir)
        return super().launch()

    def kill(self) -> None:
        """Kill the node with all its processes: shards outlive their parent."""
        super().kill()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def write_properties(self, voters: str) -> None:
        """Write server.properties; `voters` as in controller.quorum.voters."""
        listeners = []
        if "broker" in self.roles:
            listeners.append(f"PLAINTEXT://{self.host}:{self.port}")
        if "controller" in self.roles:
            listeners.append(f"CONTROLLER://{self.host}:{self.controller_port}")
        values = {
            "process.roles": self.roles,
            "node.id": str(self.node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data_dir),
            **self.settings,
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    def format(self, *options: str, cluster_id: str = CLUSTER_ID) -> None:
        """Format the data directory. Raises ProcessError."""
        arguments = ["format", "-c", str(self.properties), "-t", cluster_id, *self._sharded, *options]
        child = self.new_child([*self.wrapper, *broker_command(), "storage", *arguments], self.directory, "format")
        if (code := child.wait(FORMAT_S)) != 0:
            raise ProcessError(f"storage {' '.join(arguments)}: exit code {code}\n{child.stdout()}{child.stderr()}")


def voters_of(nodes: Iterable[ClusterNode | Kafka]) -> str:
    """Return controller.quorum.voters of nodes with the ids from 1 on and chosen ports."""
    return ",".join(f"{number}@{node.host}:{node.controller_port}" for number, node in enumerate(nodes, 1))


def ours(
    directory: Path, settings: Mapping[str, str], hosts: Sequence[str], shards: int = 1, disks: int = 1
) -> list[ClusterNode]:
    """Return nodes of ours with the ids from 1 on, one at each address of `hosts`, formatted, each with `disks` data
    directories. Raises ProcessError.
    """
    nodes = [
        ClusterNode(directory / f"node-{number}", number, BOTH, {**THREE, **settings}, shards)
        for number in range(1, len(hosts) + 1)
    ]
    for node, host in zip(nodes, hosts, strict=True):
        node.host = host
        if disks > 1:
            paths = [node.data_dir, *(node.directory / f"data-{number}" for number in range(2, disks + 1))]
            node.settings["log.dirs"] = ",".join(map(str, paths))
        node.choose_ports()
    voters = voters_of(nodes)
    for node in nodes:
        node.write_properties(voters)
        node.format()
    return nodes


def kafkas(
    directory: Path, settings: Mapping[str, str], hosts: Sequence[str], jvm_flags: Sequence[str] = ()
) -> list[Kafka]:
    """Return nodes of Apache Kafka with the ids from 1 on, one at each address of `hosts`, formatted.

    Raises ProcessError.
    """
    nodes = [Kafka(directory / f"node-{number}", settings, None, jvm_flags) for number in range(1, len(hosts) + 1)]
    for node, host in zip(nodes, hosts, strict=True):
        node.host = host
        node.choose_ports()
    voters = voters_of(nodes)
    for number, node in enumerate(nodes, 1):
        node.settings = {**THREE, **node.settings, "node.id": str(number), "controller.quorum.voters": voters}
        node.prepare()
    return nodes


def launch(nodes: Sequence[ClusterNode | Kafka]) -> None:
    """Start all nodes, and wait until each of them is ready. Raises ProcessError."""
    for node in nodes:
        node.launch()
    for node in nodes:
        node.wait_until_ready()
