"""The measured targets: our broker, Apache Kafka, the bare-system-call floor, or a broker that is already running."""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.launch import kafka_dist, nodes
from bench.launch.nodes import Node
from bench.measuring import proc
from bench.spec.target import BROKER_SETTINGS
from bench.wire import protocol
from bench.wire.cluster_requests import metadata
from bench.wire.endpoint import Endpoint, config_of
from broker_cy.client.connection import reason_of
from broker_cy.client.errors import ClientError
from broker_cy.client.program import unreachable
from broker_cy.launch.processes import ProcessError

START_TIMEOUT_S = 90.0  # on an empty directory
RECOVERY_TIMEOUT_S = 600.0  # on one with a log, which may have to be read whole
ATTACH_TIMEOUT_S = 30.0  # for a target that should already run
LEADERS_S = 30.0  # until a new topic of a running cluster has leaders
ACCEPT_S = 60.0  # until each partition accepts a record
LED_S = 1.0  # after this time without success, a partition may have another leader
LOOK_S = 0.02
STOP_TIMEOUT_S = 60
FILES_PER_PARTITION = 5  # log, two indexes, and the files that a roll opens
Address = tuple[str, int]


class TargetError(Exception):
    """A target could not be started, or is not available."""


class Unreached(TargetError):
    """No broker answers at the address of a target; `told` is the failure as all programs report it."""

    def __init__(self, told: ClientError) -> None:
        super().__init__(str(told))
        self.told = told


class Target:
    """A broker process with its address, pid and data directory."""

    name = "target"
    replicas = 1  # of the topics that are made for a measurement
    compiles = True  # while it runs, like a Java virtual machine; also true if that is unknown

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address: Address = ("", 0)
        self.pid = 0
        self.first_answer_s = 0.0

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes whose resources are measured; none if they are not known."""
        return (self.pid,) if self.pid else ()

    @property
    def copies(self) -> int:
        """The number of copies of written data on this machine."""
        return 1

    def leaders(self, topic: str, partitions: int) -> dict[int, Address]:
        """Return the address at which each partition is written and read."""
        return dict.fromkeys(range(partitions), self.address)

    def version(self) -> str:
        """Return the text to print as the target's version."""
        return ""

    def start(self) -> None:
        """Start the process and wait for its first ApiVersions response; sets address, pid and first_answer_s."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the process in an orderly way; its data is kept."""

    def kill(self) -> None:
        """End the process with SIGKILL; its data is kept."""
        raise TargetError(f"{self.name}: a process that this tool did not start is not killed")

    def alive(self) -> bool:
        """Return whether it may answer; the end of a process is only known on this host."""
        return not self.pid or Path(f"/proc/{self.pid}").exists()

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until each partition accepts a record."""
        with protocol.Client(self.address) as client:
            client.create_topic(topic, partitions, settings or {}, self.replicas)
        self.probe(topic, partitions)

    def probe(self, topic: str, partitions: int) -> dict[int, int]:
        """Write a record to each partition, as soon as each accepts one; returns their offsets. The leaders of a
        cluster may change meanwhile. Raises ProtocolError after ACCEPT_S.
        """
        record = protocol.record_batch(1, 1)
        deadline = time.monotonic() + ACCEPT_S
        found: dict[int, int] = {}
        while len(found) < partitions:
            leaders = {each: at for each, at in self.leaders(topic, partitions).items() if each not in found}
            for address in dict.fromkeys(leaders.values()):
                with protocol.Client(address) as client:
                    for partition in [each for each, at in leaders.items() if at == address]:
                        request = protocol.produce_request(topic, partition, record, 1)
                        try:
                            found[partition] = client.produce_when_ready(request, LED_S)
                        except protocol.ProtocolError:
                            if time.monotonic() > deadline:
                                raise
                            break
        return found

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        with protocol.Client(self.address) as client:
            client.delete_topic(topic)

    @contextlib.contextmanager
    def running(self) -> Iterator["Target"]:
        """Start the target; at the end, stop it and remove its data directory."""
        try:
            self.start()
            yield self
        finally:
            try:
                self.stop()
            finally:
                shutil.rmtree(self.directory, ignore_errors=True)


class Attached(Target):
    """A broker or a cluster that already runs: `--target HOST:PORT --pid PID`. Topics have its default number of
    replicas, and each partition is written and read at its leader.
    """

    name = "target"
    replicas = protocol.USUAL_REPLICAS

    def __init__(self, address: Address, pid: int | None, client_config: Path | None = None) -> None:
        super().__init__(Path(os.environ.get("TMPDIR", "/tmp")))
        self.address, self.pid = Endpoint(*address, client_config), pid or 0  # 0: on another host, or not given

    def start(self) -> None:
        host, port = self.address
        try:
            if self.pid:
                proc.usage(self.pid)  # checks that the process exists
        except OSError as error:
            raise TargetError(f"{host}:{port}: there is no process {self.pid}: {error}") from error
        try:
            with protocol.Client(self.address, ATTACH_TIMEOUT_S) as client:
                client.api_versions()
        except OSError as error:
            if isinstance(error, ConnectionRefusedError) and error.errno is None:
                raise TargetError(f"{host}:{port}: {error}") from error  # the login
            raise Unreached(unreachable(reason_of(error), Endpoint(host, port).text)) from error

    def leaders(self, topic: str, partitions: int) -> dict[int, Address]:
        """Return the address at which each partition is written and read. Raises TargetError if one has no leader."""
        config = config_of(self.address)
        deadline = time.monotonic() + LEADERS_S
        while True:
            with protocol.Client(self.address, ATTACH_TIMEOUT_S) as client:
                seen = metadata(client, topic)
            led = {number: each.leader for number, each in seen.partitions.items() if each.leader in seen.brokers}
            if len(led) == partitions:
                return {number: Endpoint(*seen.brokers[leader], config) for number, leader in led.items()}
            if time.monotonic() > deadline:
                host, port = self.address
                shown = f"leaders of {len(led)} of {partitions} partitions of {topic}"
                raise TargetError(f"{host}:{port} shows {shown} after {LEADERS_S:g} s")
            time.sleep(LOOK_S)

    @contextlib.contextmanager
    def running(self) -> Iterator[Target]:
        """Check that the target runs; it stays running."""
        self.start()
        yield self


class Spawned(Target):
    """A target that is a child process. Its data directory is the node's; the node's outputs are next to it."""

    def __init__(self, node: Node, security: str = "PLAINTEXT") -> None:
        super().__init__(node.data_dir)
        self.node = node
        node.security = security

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        recovering = any(self.directory.glob("*/*.log"))
        self.node.ready_timeout_s = RECOVERY_TIMEOUT_S if recovering else START_TIMEOUT_S
        begun = time.monotonic()
        try:
            self.node.start()
        except ProcessError as error:
            raise TargetError(str(error)) from error
        self.pid, self.address = self.node.pid, Endpoint(self.node.host, self.node.port, self.node.client_config)
        try:
            self.wait_for_answer(begun + self.node.ready_timeout_s)
        except BaseException:
            self.kill()
            raise
        self.first_answer_s = time.monotonic() - begun

    def wait_for_answer(self, deadline: float) -> None:
        """Send ApiVersions until there is a response. Raises TargetError if there is none until `deadline`."""
        while True:
            try:
                with protocol.Client(self.address, timeout_s=max(0.1, deadline - time.monotonic())) as client:
                    client.api_versions()
                return
            except OSError as error:
                if not self.node.alive():
                    raise TargetError(f"{self.name} ended before it was ready: {self.node.tail()}") from error
                if time.monotonic() > deadline:
                    raise TargetError(f"{self.name} did not answer within {self.node.ready_timeout_s:g} s") from error
                time.sleep(0.002)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until its files are gone: pages still in use would leave the next window cold."""
        super().delete_topic(topic)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(self.directory.glob(f"{topic}-*")):
            if time.monotonic() > deadline:
                raise TargetError(f"{self.name} kept the files of the deleted topic {topic} for {STOP_TIMEOUT_S} s")
            time.sleep(0.05)

    def alive(self) -> bool:
        return self.node.alive()

    def stop(self) -> None:
        """Stop in order; a process that does not end within STOP_TIMEOUT_S is killed."""
        if self.node.alive():
            try:
                self.node.stop(STOP_TIMEOUT_S)
            except ProcessError:
                self.node.kill()

    def kill(self) -> None:
        self.node.kill()


def _outputs(directory: Path) -> Path:
    """Return the directory of the outputs of a node with this data directory."""
    return directory.with_name(directory.name + ".outputs")


class BrokerCy(Spawned):
    """Our broker, as installed for this interpreter."""

    name = "broker-cy"
    compiles = False

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, security: str = "PLAINTEXT") -> None:
        settings = BROKER_SETTINGS if settings is None else settings
        super().__init__(nodes.BrokerCy(_outputs(directory), settings, directory), security)

    def version(self) -> str:
        command = [*nodes.broker_command(), "--version"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class Kafka(Spawned):
    """Apache Kafka 4.3.1, one node that is broker and controller."""

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        jvm_flags: Sequence[str] = (),
        security: str = "PLAINTEXT",
    ) -> None:
        settings = BROKER_SETTINGS if settings is None else settings
        super().__init__(nodes.Kafka(_outputs(directory), settings, directory, jvm_flags), security)

    def version(self) -> str:
        return f"Apache Kafka {kafka_dist.VERSION}"


class _FloorNode(Node):
    """`python -m bench.targets.floor_server`, on a new port at each start."""

    name = "floor"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.targets.floor_server", str(self.data_dir)]


class Floor(Spawned):
    """recv, crc32c, pwrite, send and sendfile, and nothing else: the minimum cost of the same bytes for a server."""

    name = "floor"
    compiles = False

    def __init__(self, directory: Path) -> None:
        super().__init__(_FloorNode(_outputs(directory), data_dir=directory))

    def version(self) -> str:
        return "bare system calls"

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Do nothing: the floor has one set of partitions, which is new after each start."""

    def delete_topic(self, topic: str) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.start()


def raise_file_limit(wanted: int) -> int:
    """Let this process and its children open `wanted` files, or as many as the system allows; returns the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (max(wanted, hard), hard):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, max(wanted, soft)), limit))
            break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
