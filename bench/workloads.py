"""The steady workloads: each measures one target once and gives metrics by name. Sizes are in `Scale`.

Metrics are CPU of the target's process alone (bench.proc), over a window that begins after a warm-up and with warm
memory.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bench import proc, protocol
from bench.protocol import Template
from bench.raw import Driver, LoadError
from bench.targets import Target
from bench.window import Metrics, Window

PARTITIONS = 4
KIB16 = 16 << 10
MIB = 1 << 20
NO_TIME_LIMIT_S = 600.0
PIECE_BYTES = 256 << 20  # warmed and written well within the two seconds after which a host takes free pages back
PIECE_S = 1.0  # of an open loop


@dataclass(frozen=True)
class Scale:
    """How much one measured window does."""

    produce16k_requests: int = 100_000  # 1.6 GB
    onerecord_requests: int = 400_000
    produce1m_bytes: int = 2_000_000_000
    consume_data_bytes: int = 1_000_000_000
    consume_bytes: int = 6_000_000_000
    latency_s: float = 20.0
    cold_bytes: int = 20_000_000_000
    warm_share: float = 0.5  # of a window, the first time a process meets a workload: a JVM compiles meanwhile
    through_bytes: int = 10_000_000_000
    idle_connections: int = 10_000
    starts: int = 5
    committed_offsets: int = 100_000


QUICK = Scale(20_000, 60_000, 500_000_000, 500_000_000, 1_500_000_000, 4.0, 2_000_000_000, 0.5, 1_000_000_000, 1_000, 3)


def produce_plan(topic: str, value_bytes: int, batch_bytes: int, connections: int) -> list[Sequence[Template]]:
    """Per connection, one Produce request for each of its partitions; no partition has two connections."""
    batch, count = protocol.largest_batch(value_bytes, batch_bytes)
    return [
        [protocol.produce_request(topic, p, batch, count) for p in range(PARTITIONS) if p % connections == c]
        for c in range(connections)
    ]


class Workload:
    """One kind of load: `measure` may be called again and again between `prepare` and `clean`."""

    name = ""
    has_floor = True  # whether the bare system calls can be measured beside it

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.round = 0

    def prepare(self, target: Target) -> None:
        """Before the first measurement of this target."""

    def measure(self, target: Target) -> Metrics:
        """One measurement."""
        raise NotImplementedError

    def clean(self, target: Target) -> None:
        """After the last measurement of this target."""


class Produce(Workload):
    """Closed loop of equal Produce requests, acks=all; `shape`: bytes of a value, and of a batch at the most."""

    def __init__(
        self, scale: Scale, name: str, shape: tuple[int, int], connections: int, depth: int, requests: int
    ) -> None:
        super().__init__(scale)
        self.value_bytes, self.batch_bytes = shape
        self.name, self.connections, self.depth, self.requests = name, connections, depth, requests

    def measure(self, target: Target) -> Metrics:
        self.round += 1
        topic = f"bench-{self.name}-{self.round}"
        plan = produce_plan(topic, self.value_bytes, self.batch_bytes, self.connections)
        target.create_topic(topic, PARTITIONS)
        first = self.name not in target.warmed
        warm = int(self.requests * (self.scale.warm_share if first else 0.05))
        target.warmed.add(self.name)
        driver = Driver(target.address, plan)
        try:
            driver.run_closed(depth=self.depth, requests=warm, seconds=NO_TIME_LIMIT_S)
            window = Window(driver, target.pid)
            batch_bytes = plan[0][0].batch_bytes
            left = self.requests
            while left > 0:
                requests = min(left, max(1, PIECE_BYTES // batch_bytes))
                proc.warm_memory(target.directory, requests * batch_bytes, batch_bytes)
                window.run(partial(driver.run_closed, depth=self.depth, requests=requests, seconds=NO_TIME_LIMIT_S))
                left -= requests
            if first:
                read_back(target, topic, driver.next_offsets(PARTITIONS), plan[0][0])
            return window.metrics()
        finally:
            driver.close()
            target.delete_topic(topic)


def read_back(target: Target, topic: str, ends: dict[int, int], written: Template) -> None:
    """Fetch everything that was acknowledged and check every checksum: an answer alone is not a write."""
    driver = Driver(
        target.address, [[protocol.fetch_request(topic, p, MIB) for p in ends]], fetching=True, wrap_at=ends
    )
    a_fetch = max(written.batch_bytes, MIB - written.batch_bytes)  # bytes that one fetch brings at the least
    fetches = max(ends.values()) // written.records * written.batch_bytes // a_fetch + 2
    try:
        driver.run_closed(depth=1, requests=fetches * len(ends), seconds=NO_TIME_LIMIT_S, check_crc=True)
    finally:
        driver.close()
    if driver.records < sum(ends.values()):
        raise LoadError(f"{target.name}: {sum(ends.values())} records were acknowledged, {driver.records} came back")


class Consume(Workload):
    """Fetches of 1 MB, one in flight on each of two connections, round and round over data in the page cache."""

    name = "consume"
    topic = "bench-consume"

    def __init__(self, scale: Scale) -> None:
        super().__init__(scale)
        self.ends: dict[str, dict[int, int]] = {}
        self.batches = 0

    def prepare(self, target: Target) -> None:
        target.create_topic(self.topic, PARTITIONS)
        plan = produce_plan(self.topic, 1024, MIB, 2)
        self.batches = max(PARTITIONS, self.scale.consume_data_bytes // plan[0][0].batch_bytes)
        driver = Driver(target.address, plan)
        try:
            driver.run_closed(depth=5, requests=self.batches, seconds=NO_TIME_LIMIT_S)
            self.ends[target.name] = driver.next_offsets(PARTITIONS)
        finally:
            driver.close()

    def measure(self, target: Target) -> Metrics:
        plan = [[protocol.fetch_request(self.topic, p, MIB) for p in range(PARTITIONS) if p % 2 == c] for c in range(2)]
        driver = Driver(target.address, plan, fetching=True, wrap_at=self.ends[target.name])
        once = self.batches + 2 * PARTITIONS  # a little more than one round: the connections do not keep step
        try:
            if self.name not in target.warmed:  # every byte once, with its checksum
                target.warmed.add(self.name)
                driver.run_closed(depth=1, requests=once, seconds=NO_TIME_LIMIT_S, check_crc=True)
            driver.run_closed(depth=1, requests=once, seconds=NO_TIME_LIMIT_S)
            window = Window(driver, target.pid)
            requests = self.scale.consume_bytes // MIB
            window.run(partial(driver.run_closed, depth=1, requests=requests, seconds=NO_TIME_LIMIT_S))
            return window.metrics()
        finally:
            driver.close()

    def clean(self, target: Target) -> None:
        target.delete_topic(self.topic)


class Latency(Workload):
    """5,000 requests/s of one 1 KB record over four connections, on a schedule; latency from the due time."""

    name = "latency"
    rate = 5_000.0

    def measure(self, target: Target) -> Metrics:
        self.round += 1
        with self.load(target, f"bench-latency-{self.round}") as driver:
            proc.warm_memory(target.directory, int(self.rate * self.scale.latency_s * 1200), 1200)
            window = Window(driver, target.pid)
            for _ in range(int(self.scale.latency_s / PIECE_S)):
                window.run(partial(driver.run_open, rate=self.rate, seconds=PIECE_S))
            return window.metrics() | window.lateness_metrics()

    @contextlib.contextmanager
    def load(self, target: Target, topic: str) -> Iterator[Driver]:
        """The driver of this load on a topic of its own, warmed up: for long where the process meets it first."""
        target.create_topic(topic, PARTITIONS)
        driver = Driver(target.address, produce_plan(topic, 1024, 0, PARTITIONS))
        try:
            first = self.name not in target.warmed
            target.warmed.add(self.name)
            driver.run_open(rate=self.rate, seconds=self.scale.latency_s * (1 if first else 0.1))
            yield driver
        finally:
            driver.close()
            target.delete_topic(topic)


def steady(scale: Scale) -> list[Workload]:
    """The workloads that run in turn on targets that stay up."""
    from bench.cold import Cold  # it builds on this module

    return [
        Produce(scale, "produce16k", (100, KIB16), connections=2, depth=5, requests=scale.produce16k_requests),
        Produce(scale, "onerecord", (100, 0), connections=4, depth=20, requests=scale.onerecord_requests),
        Produce(scale, "produce1m", (1024, MIB), connections=2, depth=5, requests=scale.produce1m_bytes // MIB),
        Consume(scale),
        Latency(scale),
        Cold(scale),
    ]
