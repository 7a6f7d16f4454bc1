"""The load of real clients: confluent-kafka (librdkafka), a process for each client.

Values come from a seeded pool that is created in advance. Records are passed in batches, and results return in samples,
never one record at a time. Each record has its own delivery report, so that errors are exact. The measurement includes
the clients: `generator_share` may exceed 1, because librdkafka has additional threads in each process.
"""

import contextlib
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from multiprocessing import connection as mp
from pathlib import Path
from threading import Event
from typing import IO, Any

from bench.drivers.base import DriverError, DriverResult, Sample
from bench.drivers.client_parts import ClientSpec
from bench.drivers.deliveries import STAMP_BYTES
from bench.drivers.series import Series
from bench.spec.workload import Workload
from bench.wire.endpoint import Endpoint, for_librdkafka

PROCESSES_MAX = 64
READY_TIMEOUT_S = 60.0  # to start Python and get metadata
SETTLE_S = 0.2  # a group's assignment that has not changed for this long is final
LEAD_S = 0.02  # between the message and the start of a window, so that all start at the same time
FLUSH_S = 10.0
OVERDUE_S = 15.0  # in addition to the timeouts of the clients themselves
CLOSE_S = 2.0
_ROOT = Path(__file__).resolve().parents[2]


class _Client:
    """A child process and the socket to it."""

    def __init__(self, spec: ClientSpec) -> None:
        self.spec = spec
        self.partitions = 0  # of the topic; 0 until it is ready
        self.assigned: int | None = None
        self.done: tuple[DriverResult, int] | None = None
        ours, theirs = socket.socketpair()
        self.stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bench.drivers.client_process", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.stderr,
                env={**os.environ, "PYTHONPATH": path},
                process_group=0,  # Ctrl-C in a terminal is for the parent
            )
        self.connection = mp.Connection(ours.detach())

    @property
    def name(self) -> str:
        return f"{self.spec.role} {self.spec.index}"

    def send(self, message: tuple[Any, ...]) -> None:
        """Send a message. Raises DriverError if the process has ended."""
        try:
            self.connection.send(message)
        except OSError as error:
            raise DriverError(self.end_text()) from error

    def receive(self) -> tuple[Any, ...]:
        """Receive the next message. Raises DriverError for "failed", and if the process has ended."""
        try:
            message: tuple[Any, ...] = self.connection.recv()
        except (EOFError, OSError) as error:
            raise DriverError(self.end_text()) from error
        if message[0] == "failed":
            raise DriverError(f"{self.name}: {message[1]}")
        return message

    def end_text(self) -> str:
        """Describe why the process ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(CLOSE_S)
        self.stderr.seek(0)
        tail = self.stderr.read()[-2000:].decode(errors="replace").strip()
        return f"{self.name}: the client process ended with {self.process.poll()}" + (f": {tail}" if tail else "")

    def close(self) -> None:
        """Wait CLOSE_S for the process to end, then kill it."""
        self.connection.close()
        try:
            self.process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        finally:
            self.stderr.close()


class LibrdkafkaDriver:
    """See bench.drivers.base.LoadDriver. `flush_s`: how long after the window an acknowledgement may take."""

    def __init__(self, address: tuple[str, int], topic: str, workload: Workload, flush_s: float = FLUSH_S) -> None:
        self.address, self.topic, self.workload, self.flush_s = address, topic, workload, flush_s
        self._clients: list[_Client] = []

    def prepare(self) -> None:
        """Start the processes; wait until producers have metadata and consumers have partitions. Raises DriverError."""
        self._check()
        group = f"broker-bench-{uuid.uuid4()}"
        bootstrap = Endpoint(*self.address).text
        try:
            security = for_librdkafka(self.address)
            for role, count in (("consumer", self.workload.consumers), ("producer", self.workload.producers)):
                for index in range(count):
                    spec = ClientSpec(role, index, bootstrap, self.topic, self.workload, group, self.flush_s, security)
                    self._clients.append(_Client(spec))
                    self._clients[-1].connection.send(spec)
            self._await_ready()
        except BaseException:
            self.close()
            raise

    def run(
        self, seconds: float, on_sample: Callable[[Sample], None] | None = None, stop: Event | None = None
    ) -> DriverResult:
        """Measure one window on all clients. Raises DriverError if a client ends or does not answer."""
        try:
            return self._run(seconds, on_sample, stop or Event())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all processes."""
        clients, self._clients = self._clients, []
        for client in clients:
            client.connection.close()  # all of them end at the same time
        for client in clients:
            client.close()

    def _check(self) -> None:
        workload = self.workload
        if (count := workload.producers + workload.consumers) > PROCESSES_MAX:
            raise DriverError(
                f"librdkafka has a process for each client: {count} are too many (at most {PROCESSES_MAX})"
            )
        if workload.rate.unit == "requests" and not workload.rate.unlimited:
            raise DriverError(
                "librdkafka decides which records form a request: its rate is in records/s or B/s, not requests/s"
            )
        if workload.producers and workload.consumers and workload.record_size.least < STAMP_BYTES:
            raise DriverError(
                f"with consumers beside producers, each value contains the time at which it was due: records of "
                f"{workload.record_size.least} B are too small (at least {STAMP_BYTES} B)"
            )

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        consumers = [client for client in self._clients if client.spec.role == "consumer"]
        settled_at = math.inf
        while True:
            now = time.monotonic()
            ready = all(client.partitions for client in self._clients)
            shares = [client.assigned for client in consumers]
            shared_out = ready and (
                not consumers or (None not in shares and sum(filter(None, shares)) == consumers[0].partitions)
            )
            if shared_out and (not consumers or now >= settled_at):
                return
            if now > deadline:
                raise DriverError(
                    f"{'the group of consumers' if ready else 'a client'} was not ready within {READY_TIMEOUT_S:g} s"
                )
            settled_at = min(settled_at, now + SETTLE_S) if shared_out else math.inf
            for client, message in self._messages(0.05):
                if message[0] == "ready":
                    client.partitions = message[1]
                elif message[0] == "assigned":
                    client.assigned = message[1]
                    settled_at = math.inf

    def _messages(self, timeout_s: float) -> list[tuple[_Client, tuple[Any, ...]]]:
        found = mp.wait([client.connection for client in self._clients], timeout_s)
        return [(client, client.receive()) for client in self._clients if client.connection in found]

    def _run(self, seconds: float, on_sample: Callable[[Sample], None] | None, stop: Event) -> DriverResult:
        series = Series(len(self._clients), on_sample)
        numbers = {client: number for number, client in enumerate(self._clients)}
        start_ns = time.monotonic_ns() + int(LEAD_S * 1e9)
        for client in self._clients:
            client.done = None
            client.send(("run", start_ns, seconds))
        # Full queue, flush and purge of producers, and then the same time for consumers to catch up.
        deadline = time.monotonic() + 2 * seconds + 4 * self.flush_s + OVERDUE_S
        sent_stop = sent_finish = False
        while pending := [client for client in self._clients if client.done is None]:
            if time.monotonic() > deadline:
                raise DriverError(f"{pending[0].name} did not end its run in time")
            if stop.is_set() and not sent_stop:
                sent_stop = True
                self._send_all("stop")
            if not sent_finish and not any(client.spec.role == "producer" for client in pending):
                sent_finish = True
                self._send_all("finish")
            for client, message in self._messages(0.02):
                if message[0] == "sample":
                    series.add(numbers[client], message[1])
                elif message[0] == "done":
                    client.done = message[1], message[2]
                    series.end(numbers[client])
        result = DriverResult(processes=0)
        for client in reversed(self._clients):  # a producer's error is more useful than a consumer's lost connection
            assert client.done is not None
            result.merge(client.done[0])
        result.samples = series.samples()
        if not sent_stop:
            self._check_all_came(result)
        return result

    def _send_all(self, word: str) -> None:
        for client in self._clients:
            if client.done is None:
                client.send((word,))

    def _check_all_came(self, result: DriverResult) -> None:
        """Count acknowledged records that the live consumers did not receive as errors."""
        workload = self.workload
        if not (workload.producers and workload.consumers) or workload.acks == "0":
            return
        received = sum(client.done[1] for client in self._clients if client.done is not None)
        if (missing := result.records - received) > 0:
            result.errors += missing
            result.first_error = result.first_error or f"{missing} records acknowledged, but not received by consumers"
