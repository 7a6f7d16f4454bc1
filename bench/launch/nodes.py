"""Our broker, and Apache Kafka 4.3.1, each as a process of one node on the loopback interface.

`start` returns when the node is ready; `stop` (SIGTERM) and `kill` (SIGKILL) keep the data, and `restart` starts the
node again with the same port and data. Failures are raised as ProcessError, with the node's last output.
"""

from __future__ import annotations

import contextlib
import random
import re
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from bench.launch import kafka_dist
from bench.launch.private import write_private
from broker_cy.launch.processes import Child, ProcessError

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
PORTS_FROM, PORTS_LEAST = 10_000, 1_000
# Attempts of a node's first start, each with other ports, in case another program takes the ports that were just free.
START_ATTEMPTS = 3
_POLL_S = 0.002
# The reports of Kafka and of our broker.
_PORT_TAKEN = re.compile(r"Address already in use|is in use: stop the program that listens there")
_PROBE_TIMEOUT_S = 1.0
# ApiVersions version 0: api key, version, correlation id, and a null client id, after the frame's length.
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)

CLUSTER_ID = "vPeWCWqNQ0eGGvvK5wD1kg"
# The flags of kafka-run-class.sh and kafka-server-start.sh.
JVM_FLAGS = (
    "-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
# Kafka's defaults for its internal topics need three brokers.
_SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
}


class _Share:
    """The part of the ports that this process hands out, and the ports handed out so far: at most all of them."""

    index, count = 0, 1
    given: ClassVar[set[int]] = set()


def share_ports(index: int, count: int) -> None:
    """Hand out only the ports of part `index` of `count`: other processes hand out the others at the same time."""
    _Share.index, _Share.count = index, count


def free_ports(count: int) -> list[int]:
    """Return `count` different loopback ports that were just free, for programs that cannot choose one themselves.

    They are below the ports that the kernel uses for outgoing connections, which could take one at any time. A port is
    handed out a second time only when few others are left, because its program may be stopped only temporarily.
    """
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    end = max(first_outgoing, PORTS_FROM + PORTS_LEAST * _Share.count)
    ports = range(PORTS_FROM + _Share.index, end, _Share.count)
    if len(ports) - len(_Share.given) < PORTS_LEAST // 2:
        _Share.given.clear()
    found: list[int] = []
    for port in random.sample(ports, len(ports)):
        if port in _Share.given:
            continue
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            _Share.given.update(found)
            return found
    raise ProcessError(f"only {len(found)} of {len(ports)} ports from {PORTS_FROM} on are free")


def broker_command() -> list[str]:
    """Return the command for this interpreter's `broker-cy`: the installed one, else the module of a source tree."""
    installed = Path(sys.executable).parent / "broker-cy"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "broker_cy.cli"]


class Node:
    """A broker process. Its outputs are files in `directory`, its data are in `data_dir`."""

    name = "node"
    host = "127.0.0.1"

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, data_dir: Path | None = None
    ) -> None:
        self.directory = directory
        self.data_dir = data_dir or directory / "data"
        self.settings = dict(settings or {})
        self.port = 0  # 0: chosen at the first start, and then kept
        self.ready_timeout_s = READY_TIMEOUT_S
        # Prefix of the command line: nsenter, prlimit or valgrind with their arguments.
        self.wrapper: Sequence[str] = ()
        self.security = "PLAINTEXT"  # the protocol of its listener
        self.client_config: Path | None = None  # settings that its clients need: set when it is first prepared
        self._child: Child | None = None
        self._starts = 0
        self._secured: dict[str, str] = {}

    def command(self) -> Sequence[str | Path]:
        """Return the command line of the next start."""
        raise NotImplementedError

    def ready(self, child: Child) -> bool:
        """Return whether the node accepts requests; if the node chooses its port, this sets `port`.

        By default, a node is ready when a complete line of stdout contains its address.
        """
        complete = child.stdout().rpartition("\n")[0]
        if found := re.search(rf"\b{re.escape(self.host)}:(\d+)", complete):
            self.port = int(found[1])
        return found is not None

    @property
    def child(self) -> Child:
        """The process of the last start."""
        assert self._child is not None, f"{self.name} was not started"
        return self._child

    @property
    def bootstrap(self) -> str:
        assert self.port, "not started"
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """Return all processes of the node."""
        return (self.pid,)

    @property
    def log_dirs(self) -> list[Path]:
        """Return the directories with the logs."""
        return [self.data_dir]

    def broker_pid(self, broker_id: int) -> int:
        """Return the process of one of the node's brokers. Raises KeyError if it does not run."""
        return self.pid

    def alive(self) -> bool:
        """Return whether it was started and has not ended."""
        return self._child is not None and self._child.returncode is None

    def stdout(self) -> str:
        return self._child.stdout() if self._child else ""

    def stderr(self) -> str:
        return self._child.stderr() if self._child else ""

    def tail(self) -> str:
        """Return the last lines of stderr, in one line."""
        return self._child.tail() if self._child else ""

    def launch(self) -> Child:
        """Start the process, without waiting until it is ready."""
        self._starts += 1
        self._child = self.new_child([*self.wrapper, *self.command()], self.directory, f"{self.name}-{self._starts}")
        return self._child

    def new_child(self, argv: Sequence[str | Path], directory: Path, name: str) -> Child:
        """Start the process with this command line."""
        return Child(argv, directory, name)

    def choose_ports(self) -> None:
        """Choose the ports of a node that has not run yet."""
        (self.port,) = free_ports(1)

    def start(self) -> Self:
        """Start the process and wait until it is ready; a process that does not become ready is killed."""
        attempts = START_ATTEMPTS if self.port == 0 else 1
        for attempt in range(1, attempts + 1):
            if attempts > 1:
                self.choose_ports()
            try:
                return self._start_once()
            except ProcessError as error:
                if attempt == attempts or not _PORT_TAKEN.search(str(error)):
                    raise
        raise AssertionError("unreachable")

    def prepare(self) -> None:
        """Write the files that the process reads at startup; the ports are chosen."""

    def secure(self) -> dict[str, str]:
        """Return the settings of a secured listener, whose files are written at the first start."""
        if self.security == "PLAINTEXT":
            return {}
        # Imported here, because it needs a library for certificates.
        from bench.launch.secured import secure

        if self.client_config is None:
            self._secured, self.client_config = secure(self.directory / "security", self.security, self.host)
        return self._secured

    def _start_once(self) -> Self:
        self.prepare()
        self.launch()
        return self.wait_until_ready()

    def wait_until_ready(self) -> Self:
        """Wait until the launched process is ready; one that does not become ready is killed. Raises ProcessError."""
        child = self.child
        deadline = time.monotonic() + self.ready_timeout_s
        try:
            while not self.ready(child):
                if child.returncode is not None:
                    raise ProcessError(
                        f"{self.name} ended with exit code {child.returncode} before it was ready: {child.tail()}"
                    )
                if time.monotonic() > deadline:
                    raise ProcessError(
                        f"{self.name} was not ready within {self.ready_timeout_s:g} s: {child.tail() or 'no output'}"
                    )
                time.sleep(_POLL_S)
        except BaseException:
            child.kill()
            raise
        return self

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM and return the exit code."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(timeout_s)

    def kill(self) -> None:
        """Send SIGKILL and reap the process; does nothing if it was not started."""
        if self._child is not None:
            self._child.kill()

    def restart(self) -> Self:
        """Start again after `stop` or `kill`, on the same port and data."""
        assert not self.alive()
        return self.start()

    close = kill


class BrokerCy(Node):
    """Our broker, as installed for this interpreter."""

    name = "broker-cy"

    def prepare(self) -> None:
        if secured := self.secure():
            listener = {"listeners": f"{self.security}://{self.host}:{self.port}"}
            text = "".join(f"{name}={value}\n" for name, value in {**listener, **secured}.items())
            write_private(self.directory / "server.properties", text)

    def command(self) -> Sequence[str | Path]:
        argv: list[str | Path] = [*broker_command(), "start", "--data-dir", self.data_dir]
        if self.security == "PLAINTEXT":
            argv += ["--listener", f"{self.host}:{self.port}"]
        else:
            argv += ["--config", self.directory / "server.properties"]
        for name, value in self.settings.items():
            argv += ["--set", f"{name}={value}"]
        return argv


class Kafka(Node):
    """Apache Kafka 4.3.1, broker and controller in one process (a quorum of one)."""

    name = "kafka"
    log_level = "ERROR"  # of Kafka's output on stderr
    run_tool = staticmethod(kafka_dist.run_tool)

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        jvm_flags: Sequence[str] = (),
    ) -> None:
        super().__init__(directory, settings, data_dir)
        self.jvm_flags = jvm_flags  # after JVM_FLAGS: of two contradictory flags, the JVM uses the last
        self.ready_timeout_s = 90.0
        self.controller_port = 0

    def choose_ports(self) -> None:
        self.port, self.controller_port = free_ports(2)

    def command(self) -> Sequence[str | Path]:
        flags = [*JVM_FLAGS, *self.jvm_flags, f"-Dkafka.logs.dir={self.directory}"]
        return [*kafka_dist.java(*flags, log_level=self.log_level), "kafka.Kafka", self._properties]

    def ready(self, child: Child) -> bool:
        """Return whether Kafka answers ApiVersions; it does not print its address."""
        try:
            with socket.create_connection((self.host, self.port), _PROBE_TIMEOUT_S) as connection:
                if "SSL" in self.security:
                    return True  # a client must begin with a handshake to get an answer
                connection.sendall(_API_VERSIONS)
                return len(connection.recv(64)) > 0
        except OSError:
            return False

    def prepare(self) -> None:
        """Write the properties, and format the data directory of the first start. Raises ProcessError."""
        if (sentence := kafka_dist.missing()) is not None:
            raise ProcessError(sentence)
        self._write_properties()
        if not (self.data_dir / "meta.properties").exists():
            arguments = ("format", "-t", CLUSTER_ID, "-c", self._properties, "--ignore-formatted")
            self.run_tool("kafka.tools.StorageTool", *arguments)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Send SIGTERM and return the exit code; Java's 128 + 15 after a clean shutdown is returned as 0."""
        code = super().stop(timeout_s)
        return 0 if code == 128 + signal.SIGTERM else code

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _write_properties(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        listener = f"{self.security}://{self.host}:{self.port}"
        merged = {
            **_SINGLE_NODE,
            "controller.quorum.voters": f"1@{self.host}:{self.controller_port}",
            "listeners": f"{listener},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": listener,
            "log.dirs": str(self.data_dir),
            **self.secure(),
            **self.settings,
        }
        write_private(self._properties, "".join(f"{name}={value}\n" for name, value in merged.items()))
