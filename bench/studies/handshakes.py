"""The cost of handshakes for a broker: TLS 1.3 with certificates of P-256, without and with a client certificate
(mTLS).

Clients connect, shake hands, send one request and close, as fast as they can. The figures are the broker's CPU time per
handshake, in total and of the workers alone. This is repeated while another client produces over an open connection:
its latency is compared with a run without handshakes.
"""

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.measuring import proc
from bench.studies.goals import Figures
from bench.targets.brokers import BrokerCy, Kafka, Target
from bench.wire import protocol
from bench.wire.endpoint import Endpoint

TARGETS: dict[str, Callable[[Path, dict[str, str]], Target]] = {
    "broker-cy": lambda directory, settings: BrokerCy(directory, settings, "SSL"),
    "kafka": lambda directory, settings: Kafka(directory, settings, (), "SSL"),
}
AUTHENTICATION = {"tls": "none", "mtls": "required"}
WARM_UP = {"broker-cy": 0.1, "kafka": 2.0}  # handshakes before the measured ones, as a share of them
TOPIC = "handshakes"
ALONE_S = 3.0


def shake(address: Endpoint, count: int) -> None:
    """One client: each connection gets one answer, so that the broker has also finished its part."""
    for _ in range(count):
        with protocol.Client(address) as client:
            client.api_versions()


def shake_all(address: Endpoint, count: int, clients: int) -> None:
    """Raises RuntimeError if a client fails."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=shake, args=(address, count // clients)) for _ in range(clients)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("a client failed")


def first_thread_s(pid: int) -> float:
    """CPU time of the first thread: in broker-cy this is the loop; the others are workers."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


class Producer(threading.Thread):
    """Sends a record, waits for the answer, and sends the next one."""

    def __init__(self, address: Endpoint) -> None:
        super().__init__(daemon=True)
        self.times_ms: list[float] = []
        self.ending = False
        self._client = protocol.Client(address)
        self._request = protocol.produce_request(TOPIC, 0, protocol.record_batch(100, 1), 1)

    def run(self) -> None:
        while not self.ending:
            began = time.perf_counter()
            self._client.produce(self._request)
            self.times_ms.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.002)

    def end(self) -> float:
        """Return the 99th percentile of its waits in ms."""
        self.ending = True
        self.join()
        self._client.close()
        return sorted(self.times_ms)[len(self.times_ms) * 99 // 100]


def measure(name: str, kind: str, count: int, clients: int) -> Figures:
    """Return the figures of one broker; `kind` is one of AUTHENTICATION."""
    with (
        tempfile.TemporaryDirectory() as directory,
        TARGETS[name](Path(directory) / "data", {"ssl.client.auth": AUTHENTICATION[kind]}).running() as target,
    ):
        assert isinstance(target.address, Endpoint)
        target.create_topic(TOPIC, 1)
        shake_all(target.address, int(count * WARM_UP[name]), clients)
        alone = Producer(target.address)
        alone.start()
        time.sleep(ALONE_S)
        before = alone.end()
        used, used_by_loop = proc.usage(target.pid).cpu_s, first_thread_s(target.pid)
        shake_all(target.address, count, clients)
        each_us = (proc.usage(target.pid).cpu_s - used) / count * 1e6
        loop_us = (first_thread_s(target.pid) - used_by_loop) / count * 1e6
        beside = Producer(target.address)
        beside.start()
        shake_all(target.address, count, clients)
        during = beside.end()
    if name == "kafka":
        return {f"kafka_{kind}_handshake_us": each_us}
    return {
        f"{kind}_handshake_us": each_us,
        f"{kind}_handshake_worker_us": each_us - loop_us,
        f"{kind}_handshakes_per_s_of_a_worker": 1e6 / (each_us - loop_us),
        f"{kind}_producer_p99_ms_alone": before,
        f"{kind}_producer_p99_ms_beside": during,
    }


def handshake_figures(count: int, clients: int) -> Figures:
    """Raises ProcessError if Kafka cannot run here."""
    found: Figures = {}
    for kind in AUTHENTICATION:
        for name in TARGETS:
            found |= measure(name, kind, count, clients)
    return found
