"""What is measured: our broker, Apache Kafka, the bare-system-call floor, or a broker that is running already."""

import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench import proc, protocol
from bench.spec.target import BROKER_SETTINGS

START_TIMEOUT_S = 30.0  # on an empty directory
RECOVERY_TIMEOUT_S = 600.0  # on one with a log, which may have to be read whole
ATTACH_TIMEOUT_S = 30.0  # for a target that is said to run
STOP_TIMEOUT_S = 60
FILES_PER_PARTITION = 5  # log, two indexes, and what a roll opens
Address = tuple[str, int]


class TargetError(Exception):
    """A target could not be started, or is not there."""


class Target:
    """A broker process with its address, pid and data directory."""

    name = "target"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.address: Address = ("", 0)
        self.pid = 0
        self.first_answer_s = 0.0
        self.warmed: set[str] = set()  # workloads whose code paths this process has run before

    def version(self) -> str:
        """What to print as the target's version."""
        return ""

    def start(self) -> None:
        """Start the process and wait for its first ApiVersions answer; sets address, pid and first_answer_s."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the process in an orderly way; the data stay."""

    def kill(self) -> None:
        """End the process with SIGKILL; the data stay."""
        raise TargetError(f"{self.name}: a process that was not started here is not killed")

    def alive(self) -> bool:
        """Whether it may answer: only of a process of this host is known that it ended."""
        return not self.pid or Path(f"/proc/{self.pid}").exists()

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until each partition takes a record."""
        with protocol.Client(self.address) as client:
            client.create_topic(topic, partitions, settings or {})
        self.probe(topic, partitions)

    def probe(self, topic: str, partitions: int) -> dict[int, int]:
        """Write a record to each partition, as soon as each takes one; their offsets."""
        record = protocol.record_batch(1, 1)
        with protocol.Client(self.address) as client:
            return {
                partition: client.produce_when_ready(protocol.produce_request(topic, partition, record, 1))
                for partition in range(partitions)
            }

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        with protocol.Client(self.address) as client:
            client.delete_topic(topic)

    @contextlib.contextmanager
    def running(self) -> Iterator["Target"]:
        """Started, and stopped at the end; its data directory is removed."""
        try:
            self.start()
            yield self
        finally:
            try:
                self.stop()
            finally:
                shutil.rmtree(self.directory, ignore_errors=True)


class Attached(Target):
    """A broker that somebody else started: `--target HOST:PORT --pid PID`."""

    name = "target"

    def __init__(self, address: Address, pid: int | None) -> None:
        super().__init__(Path(os.environ.get("TMPDIR", "/tmp")))
        self.address, self.pid = address, pid or 0  # 0: on another host, or nobody said

    def start(self) -> None:
        host, port = self.address
        try:
            if self.pid:
                proc.usage(self.pid)  # that there is such a process
            with protocol.Client(self.address, ATTACH_TIMEOUT_S) as client:
                client.api_versions()
        except OSError as error:
            process = f", or there is no process {self.pid}" if self.pid else ""
            raise TargetError(f"{host}:{port} does not answer{process}: {error}") from error

    @contextlib.contextmanager
    def running(self) -> Iterator[Target]:
        """Already running, and left running."""
        self.start()
        yield self


class Spawned(Target):
    """A target that is a child process; subclasses say how to start it."""

    tells_address = True  # on stdout, in one line and nothing else: nobody reads that pipe afterwards

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self.settings = BROKER_SETTINGS if settings is None else settings
        self.process: subprocess.Popen[bytes] | None = None
        self.start_timeout_s = START_TIMEOUT_S

    def command(self) -> list[str]:
        """The command line; the listener may be on port 0."""
        raise NotImplementedError

    def find_address(self, deadline: float) -> Address:
        """HOST:PORT from the first line of stdout that has one."""
        assert self.process is not None
        assert self.process.stdout is not None
        pending = b""
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.process.stdout], [], [], left)[0]:
                continue
            part = os.read(self.process.stdout.fileno(), 4096)
            if not part:
                raise TargetError(f"{self.name} ended before it was ready: {self.log_tail()}")
            pending += part
            while b"\n" in pending:
                line, _, pending = pending.partition(b"\n")
                if found := address_in(line.decode(errors="replace")):
                    return found
        raise TargetError(f"{self.name} printed no address within {self.start_timeout_s:g} s: {self.log_tail()}")

    def log_path(self) -> Path:
        return self.directory.with_name(self.directory.name + ".log")

    def log_tail(self) -> str:
        try:
            return " | ".join(self.log_path().read_text(errors="replace").splitlines()[-5:])
        except OSError:
            return ""

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.warmed.clear()
        self.start_timeout_s = RECOVERY_TIMEOUT_S if any(self.directory.glob("*/*.log")) else START_TIMEOUT_S
        with open(self.log_path(), "ab") as log:
            begun = time.monotonic()
            self.process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE if self.tells_address else log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C in a terminal is for us, who stop it in order
            )
        self.pid = self.process.pid
        deadline = begun + self.start_timeout_s
        try:
            self.address = self.find_address(deadline)
            self.wait_for_answer(deadline)
        except BaseException:
            self.kill()
            raise
        self.first_answer_s = time.monotonic() - begun

    def wait_for_answer(self, deadline: float) -> None:
        """Ask for ApiVersions until there is an answer."""
        while True:
            try:
                with protocol.Client(self.address, timeout_s=max(0.1, deadline - time.monotonic())) as client:
                    client.api_versions()
                return
            except OSError as error:
                if self.process is not None and self.process.poll() is not None:
                    raise TargetError(f"{self.name} ended before it was ready: {self.log_tail()}") from error
                if time.monotonic() > deadline:
                    raise TargetError(f"{self.name} did not answer within {self.start_timeout_s:g} s") from error
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
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None


class BrokerCy(Spawned):
    """Our broker, from this source tree."""

    name = "broker-cy"

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "broker_cy.cli", "start", "--data-dir", str(self.directory)]
        command += ["--listener", "127.0.0.1:0"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def version(self) -> str:
        command = [sys.executable, "-m", "broker_cy.cli", "--version"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class Floor(Spawned):
    """recv, crc32c, pwrite, send and sendfile, and nothing else: what the same bytes cost a server at the least."""

    name = "floor"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.floor_server", str(self.directory)]

    def version(self) -> str:
        return "bare system calls"

    def create_topic(self, topic: str, partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """It has one set of partitions, new after each start."""

    def delete_topic(self, topic: str) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        warmed = set(self.warmed)
        self.start()
        self.warmed = warmed


def address_in(line: str) -> Address | None:
    """The first HOST:PORT in a line, or None."""
    for word in line.replace(",", " ").split():
        host, colon, port = word.rpartition("//")[2].rpartition(":")
        if colon and host and port.isdigit() and not host.isdigit():
            return host, int(port)
    return None


def raise_file_limit(wanted: int) -> int:
    """Let this process and its children open `wanted` files, or as many as the system allows; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (max(wanted, hard), hard):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, max(wanted, soft)), limit))
            break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
