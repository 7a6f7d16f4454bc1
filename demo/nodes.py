"""The demo's broker or its nodes: their settings, their ports, and their start."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from broker_cy.client.address import Address
from broker_cy.core.uuid import to_text
from demo.processes import READY, ROOT, START_TIMEOUT_S, DemoError, ReadyProcess

# A quorum of two stops as soon as one of them is killed. Each node is a process, and they share this machine.
NODES_MIN, NODES_MAX = 3, 9
FORMAT_TIMEOUT_S = 60.0
# Controllers listen at the port of the first node's clients plus this.
CONTROLLERS_AFTER: Final = 1_000
# The range for port 0: below the ports that the kernel uses for outgoing connections, because a port must be free again
# when a killed node restarts.
_PORTS_FROM, _PORTS_TRIED = 20_000, 200


class Node(ReadyProcess):
    """`broker-cy start`."""

    READY = READY

    def __init__(self, name: str, arguments: Sequence[str], directory: Path) -> None:
        super().__init__(name, ["broker_cy.cli", "start", *arguments], directory)
        self.ready_line = ""
        # The demo killed it, and will start it again.
        self.is_killed = False

    @property
    def address(self) -> str:
        """HOST:PORT of its clients, once it was ready."""
        found = READY.search(self.ready_line)
        if found is None:
            raise DemoError(f"no address in {self.ready_line!r}")
        return found[1]


def start_all(nodes: Sequence[Node], stop: threading.Event) -> None:
    """Start all together, because one alone finds no majority, and wait for each. Raises DemoError."""
    for node in nodes:
        node.start()
    until_s = time.monotonic() + START_TIMEOUT_S
    for node in nodes:
        node.ready_line = node.wait_until_ready(stop, until_s)


def one_broker(directory: Path, listener: str, metrics: str, settings: Sequence[str]) -> list[Node]:
    """A broker alone, with its data in `directory`/data."""
    arguments = ["--data-dir", str(directory / "data"), "--listener", listener]
    for each in [*([f"brokercy.metrics.listener={metrics}"] if metrics else []), *settings]:
        arguments += ["--set", each]
    return [Node("broker", arguments, directory)]


def several_nodes(
    count: int, directory: Path, listener: Address, metrics: Address | None, settings: Sequence[str]
) -> list[Node]:
    """Nodes that are broker and controller, formatted for one cluster. Node 2 has the port after that of node 1, and so
    on; with port 0 all are free ones. Raises DemoError.
    """
    _check_layout(directory, count)
    if listener.port:
        ports = [listener.port + number for number in range(count)]
        controllers = [port + CONTROLLERS_AFTER for port in ports]
    else:
        found = free_ports(listener.host, 2 * count)
        ports, controllers = found[:count], found[count:]
    voters = ",".join(f"{number}@{Address(listener.host, port)}" for number, port in enumerate(controllers, 1))
    nodes = []
    for number, (port, controller) in enumerate(zip(ports, controllers, strict=True), 1):
        home = directory / f"node-{number}"
        home.mkdir(exist_ok=True)
        values = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "broker.rack": f"rack-{number}",
            "listeners": f"PLAINTEXT://{Address(listener.host, port)},"
            f"CONTROLLER://{Address(listener.host, controller)}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(home / "data"),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }
        if metrics is not None:
            port = metrics.port and metrics.port + number - 1
            values["brokercy.metrics.listener"] = str(Address(metrics.host, port))
        values.update(each.partition("=")[::2] for each in settings)
        properties = home / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        if not (home / "data" / "meta.properties").exists():
            _format(properties, cluster_id(directory))
        nodes.append(Node(f"node-{number}", ["--config", str(properties)], directory))
    return nodes


def cluster_id(directory: Path) -> str:
    """The id of the cluster in `directory`, which the first run generates."""
    path = directory / "cluster-id"
    if not path.exists():
        path.write_text(f"{to_text(_drawn())}\n")
    return path.read_text().strip()


def _drawn() -> UUID:
    """A random id whose text does not begin with a dash, because it is an option's argument."""
    while to_text(found := uuid4()).startswith("-"):
        pass
    return found


def _check_layout(directory: Path, count: int) -> None:
    """Raise DemoError if an earlier run in `directory` had another number of nodes, which are its voters."""
    before = sum(each.is_dir() for each in directory.glob("node-*"))
    if before not in (0, count):
        raise DemoError(f"{directory} has the data of {before} nodes: run --nodes {before}, or choose another --dir")


def _format(properties: Path, wanted: str) -> None:
    command = [sys.executable, "-m", "broker_cy.cli", "storage", "format", "-c", str(properties), "-t", wanted]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=FORMAT_TIMEOUT_S, check=False)
    if done.returncode:
        raise DemoError(f"{properties.parent} cannot be formatted: {done.stderr.strip() or done.stdout.strip()}")


def free_ports(host: str, count: int) -> list[int]:
    """Different ports of `host` that are free now. Raises DemoError."""
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    below = int(re.split(r"\s+", text.strip())[0])
    found: list[int] = []
    for port in random.sample(range(_PORTS_FROM, max(below, _PORTS_FROM + _PORTS_TRIED)), _PORTS_TRIED):
        with suppress(OSError), socket.create_server((host, port)):
            found.append(port)
        if len(found) == count:
            return found
    raise DemoError(f"only {len(found)} of {_PORTS_TRIED} ports from {_PORTS_FROM} on are free at {host}")
