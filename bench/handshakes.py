"""What handshakes cost a broker: TLS 1.3 with certificates of P-256, without and with one of the client.

    python -m bench.handshakes [--count 2000] [--clients 2] [--target broker-cy|kafka]

Clients that connect, shake hands and close, as fast as they can, while another one produces over a connection that is
open. Printed are the CPU time of the broker for each handshake, what one core would do of them in a second, and how
long the producer waited, beside a run without handshakes.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench import proc, protocol
from bench.endpoint import Endpoint, check_config
from bench.launch import kafka_dist
from bench.targets import BrokerCy, Kafka, Target

TARGETS: dict[str, Callable[[Path, dict[str, str]], Target]] = {
    "broker-cy": lambda directory, settings: BrokerCy(directory, settings, "SSL"),
    "kafka": lambda directory, settings: Kafka(directory, settings, (), "SSL"),
}
AUTHENTICATION = {"TLS": "none", "mTLS": "required"}
WARM_UP = {"broker-cy": 0.1, "kafka": 2.0}  # handshakes before those that are measured, as a share of them
TOPIC = "handshakes"


def shake(address: Endpoint, count: int) -> None:
    """One client: each connection is answered once, so that the broker has also finished its part."""
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
    """CPU time of the first thread: of broker-cy, the loop; the others are workers."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


class Producer(threading.Thread):
    """Sends a record, waits for the answer, and sends the next."""

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

    def end(self) -> str:
        self.ending = True
        self.join()
        self._client.close()
        found = sorted(self.times_ms)
        return f"p50 {statistics.median(found):.2f} ms, p99 {found[len(found) * 99 // 100]:.2f} ms"


def measure(name: str, kind: str, count: int, clients: int) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        TARGETS[name](Path(directory) / "data", {"ssl.client.auth": AUTHENTICATION[kind]}).running() as target,
    ):
        assert isinstance(target.address, Endpoint)
        assert target.address.client_config is not None
        check_config(target.address.client_config)
        target.create_topic(TOPIC, 1)
        shake_all(target.address, int(count * WARM_UP[name]), clients)
        alone = Producer(target.address)
        alone.start()
        time.sleep(3.0)
        before = alone.end()
        used, used_by_loop, began_s = proc.usage(target.pid), first_thread_s(target.pid), time.monotonic()
        shake_all(target.address, count, clients)
        took_s, after = time.monotonic() - began_s, proc.usage(target.pid)
        loop_us = (first_thread_s(target.pid) - used_by_loop) / count * 1e6
        beside = Producer(target.address)
        beside.start()
        shake_all(target.address, count, clients)
        during = beside.end()
        cpu_us = (after.cpu_s - used.cpu_s) / count * 1e6
        print(
            f"{name:10} {kind:5} {cpu_us:7.0f} us of CPU each ({loop_us:.0f} in the first thread), "
            f"{1e6 / cpu_us:6.0f}/s a core; "
            f"{count / took_s:6.0f}/s in {took_s:.1f} s; producer alone {before}; beside them {during}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--target", action="append", choices=list(TARGETS))
    parser.add_argument("--kind", action="append", choices=list(AUTHENTICATION))
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    if "kafka" in names and (sentence := kafka_dist.missing()) is not None:
        print(sentence, file=sys.stderr)
        return 1
    for kind in options.kind or AUTHENTICATION:
        for name in names:
            measure(name, kind, options.count, options.clients)
    return 0


if __name__ == "__main__":
    sys.exit(main())
