"""Measure the duration of a scrape of `/metrics` with many partitions, and the wait of other clients during it: `python
-m bench.studies.scrape` (goal: 100 ms with 10,000 partitions).

Each partition has records. A client sends ApiVersions continuously: its longest wait is reported for windows with a
scrape and for windows without one, because a shared machine has pauses that no scrape causes.
"""

import argparse
import asyncio
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.launch.nodes import free_ports
from bench.measuring import proc
from bench.targets.brokers import BrokerCy
from bench.wire import protocol
from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.topics import NewTopic
from broker_cy.wire.records import Record

REACH_MS = 100.0
PARTITIONS_A_TOPIC = 500


class Asker(threading.Thread):
    """Sends ApiVersions continuously, 0.5 ms after each response; `worst_s` is the longest wait since it was reset."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(name="asker", daemon=True)
        self._address = address
        self.worst_s = 0.0
        self.is_stopped = threading.Event()

    def run(self) -> None:
        with protocol.Client(self._address) as client:
            while not self.is_stopped.is_set():
                begun = time.perf_counter()
                client.api_versions()
                self.worst_s = max(self.worst_s, time.perf_counter() - begun)
                time.sleep(0.0005)


async def fill(bootstrap: str, partitions: int) -> None:
    """Create topics with a record in each partition."""
    names = [f"scrape-{number:03}" for number in range(partitions // PARTITIONS_A_TOPIC)]
    async with AdminClient(bootstrap, timeout_s=120) as client:
        # One call may not create all of them.
        for name in names:
            (await client.topics.create([NewTopic(name, PARTITIONS_A_TOPIC, 1)])).whole()
        producer = client.records.producer()
        keys = [TopicPartition(name, index) for name in names for index in range(PARTITIONS_A_TOPIC)]
        for at in range(0, len(keys), 200):
            await asyncio.gather(*(producer.send_batch(key, [Record(value=b"x")]) for key in keys[at : at + 200]))


def scrape(port: int) -> tuple[float, int]:
    """Scrape once; returns the seconds and the bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        begun = time.perf_counter()
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        page = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"/metrics answered {answer.status}")
        return time.perf_counter() - begun, len(page)
    finally:
        connection.close()


def measure(target: BrokerCy, port: int, partitions: int, repeats: int) -> dict[str, float]:
    """Fill the target and scrape it; returns medians, the longest scrape, and the mean CPU time."""
    asyncio.run(fill(f"{target.address[0]}:{target.address[1]}", partitions))
    scrape(port)
    asker = Asker(target.address)
    asker.start()
    took, waits, quiet, cpu = [], [], [], []
    size = 0
    try:
        for _ in range(repeats):
            asker.worst_s = 0.0
            time.sleep(0.15)
            quiet.append(asker.worst_s)
            asker.worst_s = 0.0
            seconds, size = scrape(port)
            took.append(seconds)
            waits.append(asker.worst_s)
    finally:
        asker.is_stopped.set()
        asker.join()
    # Without the probing client, because its requests cost the broker CPU time, too.
    for _ in range(repeats):
        before = proc.usage(target.pid)
        scrape(port)
        cpu.append((proc.usage(target.pid) - before).cpu_s)
    return {
        "partitions": partitions,
        "page_mb": size / 1e6,
        "scrape_ms": statistics.median(took) * 1000,
        "scrape_worst_ms": max(took) * 1000,
        "scrape_cpu_ms": sum(cpu) / len(cpu) * 1000,
        "others_wait_ms": statistics.median(waits) * 1000,
        "others_wait_without_ms": statistics.median(quiet) * 1000,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.studies.scrape", description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--json-file", dest="json", type=Path, metavar="FILE", help="also write the figures to this file"
    )
    given = parser.parse_args()
    if given.partitions < PARTITIONS_A_TOPIC or given.partitions % PARTITIONS_A_TOPIC:
        parser.error(f"--partitions {given.partitions}: a multiple of {PARTITIONS_A_TOPIC} is expected")
    with tempfile.TemporaryDirectory() as directory:
        port = free_ports(1)[0]
        target = BrokerCy(Path(directory) / "data", {"brokercy.metrics.listener": f"127.0.0.1:{port}"})
        target.start()
        try:
            figures = measure(target, port, given.partitions, given.repeats)
        finally:
            target.stop()
    for name, value in figures.items():
        print(f"{name:>24} {value:12,.2f}")
    print(f"scrape_ms {'reached' if figures['scrape_ms'] <= REACH_MS else 'missed'}: {REACH_MS:g}")
    if given.json:
        given.json.write_text(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
