"""Nodes with shards: a parent and its brokers as processes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.request import urlopen

from bench.launch.nodes import BrokerCy, broker_command, free_ports
from bench.launch.shards import Guard, free_range, running
from broker_cy.launch.processes import Child
from tests.support.cluster import QUICK, READY_S
from tests.support.forking import Forking

# Ports from a node's first port on; the controller and the metrics have separate ports.
PORTS = 2


class ShardedNode(Forking, BrokerCy):
    """A parent with `count` shards. The ports and the directory stay the same over restarts."""

    name = "sharded"
    target = "broker-cy"

    def __init__(
        self, directory: Path, count: int = PORTS, settings: Mapping[str, str] | None = None, *, host: str = "127.0.0.1"
    ) -> None:
        super().__init__(directory, settings)
        directory.mkdir(parents=True, exist_ok=True)
        self.count = count
        self.host = host
        self.ready_timeout_s = READY_S
        self._guard: Guard | None = None

    def choose_ports(self) -> None:
        self.port = free_range(self.count, self.host)
        self.metrics_port, self.controller_port = free_ports(2)
        self.write()

    def write(self) -> None:
        """Write server.properties."""
        values = {
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller_port}",
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data_dir),
            "brokercy.metrics.listener": f"127.0.0.1:{self.metrics_port}",
            **QUICK,
            **self.settings,
        }
        if not {"controller.quorum.voters", "controller.quorum.bootstrap.servers"} & values.keys():
            values["controller.quorum.voters"] = f"{values['node.id']}@{self.host}:{self.controller_port}"
        if "controller" not in values["process.roles"]:
            values["listeners"] = f"PLAINTEXT://{self.host}:{self.port}"
        lines = [f"{name}={value}\n" for name, value in values.items()]
        (self.directory / "server.properties").write_text("".join(lines))

    def command(self) -> Sequence[str | Path]:
        properties = self.directory / "server.properties"
        return [*broker_command(), "start", "--config", properties, "--shards", str(self.count)]

    def ready(self, child: Child) -> bool:
        return "ready on" in child.stdout().rpartition("\n")[0]

    def shard_pid(self, shard: int) -> int:
        """The process of a shard; 0 if it has none at present."""
        return running(self.data_dir).get(shard, 0)

    def kill_shard(self, shard: int) -> int:
        """Kill the process of a shard, and return its id."""
        pid = self.shard_pid(shard)
        assert pid, f"shard {shard} does not run"
        os.kill(pid, signal.SIGKILL)
        return pid

    def page(self, path: str = "/metrics") -> str:
        """The page that the parent serves over HTTP."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=30) as response:
            return str(response.read().decode())

    def sample(self, name: str) -> float:
        """The value of one line of the metrics, `name` with its labels; -1 if the line does not exist."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.page(), re.MULTILINE)
        return float(found[1]) if found else -1.0

    def launch(self) -> Child:
        child = super().launch()
        if self._guard is None:
            self._guard = Guard(self.data_dir)
        return child

    def close(self) -> None:
        """Leave no process, also if the parent was killed."""
        super().close()
        if self._guard is not None:
            self._guard.close()
            self._guard = None
