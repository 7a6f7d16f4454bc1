"""The parts of `bench.studies.disks`: recovery, death of a disk, and moves."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench.drivers.base import DriverError, DriverResult, Sample
from bench.drivers.librdkafka import LibrdkafkaDriver
from bench.drivers.raw import RawDriver, list_offsets
from bench.launch import cluster_nodes
from bench.launch.dead_disk import DyingDirectory
from bench.launch.nodes import Kafka
from bench.measuring import proc
from bench.spec import workload as workloads
from bench.spec.target import BROKER_SETTINGS, TargetSpec
from bench.spec.workload import Rate, Workload
from bench.studies.goals import Figures
from bench.targets.brokers import FILES_PER_PARTITION, BrokerCy, Target, TargetError, raise_file_limit
from bench.targets.cluster import Cluster
from bench.wire import directory_requests, protocol
from bench.wire.protocol import LATEST, ProtocolError

WORKLOADS: Final = Path(__file__).parents[1] / "specs" / "workloads"
TOPIC: Final = "disks"
FILL_S: Final = 0.25
FILL_BATCH_BYTES: Final = 1 << 20
MS: Final = 1e6
MB: Final = 1e6
# Producers of the death: a partition for each of them on each directory of each node, and keys that use all of them.
PRODUCERS, PARTITIONS, KEYS = 4, 48, 10_000
WARM_UP_S: Final = 3.0
# A scheduled window beside a move ends with it, or then.
BESIDE_MOST_S: Final = 60.0
MOVE_MOST_S: Final = 300.0
LOOK_S: Final = 0.02
STEP_BYTES: Final = 8 << 20


class Disks(NamedTuple):
    """Directories on two disks."""

    first: Path
    second: Path

    def of(self, name: str, count: int = 2) -> list[Path]:
        """Data directories for a broker, one on each disk."""
        return [each / f"{name}-{number}" for number, each in enumerate(self[:count])]


@contextlib.contextmanager
def broker_on(paths: Sequence[Path]) -> Iterator[BrokerCy]:
    """A broker with these data directories, which are removed at the end. Raises TargetError."""
    settings = {**BROKER_SETTINGS, "log.dirs": ",".join(map(str, paths))}
    try:
        with BrokerCy(paths[0], settings).running() as broker:
            assert isinstance(broker, BrokerCy)
            yield broker
    finally:
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)


def fill(broker: Target, workload: Workload, size_bytes: int) -> Mapping[int, int]:
    """Create the topic and write so much as fast as possible; returns the end offset of each partition."""
    broker.create_topic(TOPIC, workload.partitions)
    leaders = partial(broker.leaders, TOPIC, workload.partitions)
    filling = replace(workload, producers=2, consumers=0, batch_bytes=FILL_BATCH_BYTES, in_flight=5)
    driver = RawDriver(broker.address, TOPIC, filling, leaders=leaders)
    try:
        driver.prepare()
        written = 0
        while written < size_bytes:
            written += sound(driver.run(FILL_S)).bytes
        return list_offsets(leaders(), TOPIC, LATEST)
    finally:
        driver.close()


def sound(result: DriverResult) -> DriverResult:
    """Raises TargetError if there were errors."""
    if result.errors:
        raise TargetError(f"{result.errors} errors, the first: {result.first_error}")
    return result


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Raise the errors of drivers and of the wire as TargetError."""
    try:
        yield
    except (DriverError, ProtocolError, OSError) as error:
        raise TargetError(f"{type(error).__name__}: {error}") from error


# --- recovery


def recoveries(disks: Disks, size_bytes: int, partitions: int, pairs: int) -> Figures:
    """kill -9 with the log on one disk and on two, in turn, A B B A ..."""
    raise_file_limit(FILES_PER_PARTITION * partitions + 10_000)
    workload = replace(workloads.load(WORKLOADS / "produce-1mb.toml"), partitions=partitions)
    found: dict[str, list[float]] = {}
    for pair in range(pairs):
        for name, count in [("one_disk", 1), ("two_disks", 2)][:: -1 if pair % 2 else 1]:
            with failures(), broker_on(disks.of(name, count)) as broker:
                for figure, value in _recovery(broker, workload, size_bytes).items():
                    found.setdefault(f"{name}_{figure}", []).append(value)
    return {**found}


def _recovery(broker: BrokerCy, workload: Workload, size_bytes: int) -> dict[str, float]:
    ends = fill(broker, workload, size_bytes)
    broker.kill()
    begun = time.monotonic()
    broker.start()
    first = broker.probe(TOPIC, 1)
    written_s = time.monotonic() - begun
    first |= broker.probe(TOPIC, workload.partitions)
    all_s = time.monotonic() - begun
    if lost := [(number, end) for number, end in ends.items() if first[number] < end]:
        raise TargetError(f"acknowledged records are missing after a kill: partition, end before: {lost[:3]}")
    return {"recovery_s": broker.first_answer_s, "first_write_s": written_s, "all_partitions_s": all_s}


# --- death of a disk


class DiskCluster(Cluster):
    """Three nodes with two data directories each; `disk` is the second one of the first node."""

    disk: DyingDirectory

    def made(self, hosts: Sequence[str]) -> list[cluster_nodes.ClusterNode | Kafka]:
        nodes = cluster_nodes.ours(self.directory, self.spec.settings, hosts, disks=2)
        self.disk = DyingDirectory(nodes[0].directory, nodes[0].log_dirs[1])
        nodes[0].wrapper = self.disk.wrapper
        return [*nodes]

    def stop(self) -> None:
        super().stop()
        if self.nodes:
            self.disk.close()


def deaths(disks: Disks, rate: int, seconds: float, rounds: int) -> Figures:
    """Producers of librdkafka with default settings: a window without a failure, then one in which a disk dies. `rate`
    is in requests per second.
    """
    workload = workloads.load(WORKLOADS / "client-produce-1kb.toml")
    # A request has one batch, and a batch the records of a partition that arrive within the linger time of its first.
    records = rate / (1 - min(rate * workload.linger_s / (PRODUCERS * PARTITIONS), 0.5))
    workload = replace(
        workload, partitions=PARTITIONS, producers=PRODUCERS, keys=KEYS, rate=Rate(records, records, "records")
    )
    found: dict[str, list[float]] = {}
    for number in range(rounds):
        cluster = DiskCluster(disks.first / f"death-{number}", TargetSpec("disks", "ours", nodes=3))
        with failures(), cluster.running():
            for figure, value in _death(cluster, workload, seconds).items():
                found.setdefault(figure, []).append(value)
    return {**found}


def _death(cluster: DiskCluster, workload: Workload, seconds: float) -> dict[str, float]:
    cluster.create_topic(TOPIC, workload.partitions)
    is_led = any(each.leader == 1 for each in cluster.seen(0, TOPIC).partitions.values())
    held = [each for each in cluster.disk.root.glob(f"{TOPIC}-*") if each.is_dir()]
    if not (is_led and held):
        raise TargetError("no replica is on the disk that dies")
    driver = LibrdkafkaDriver(cluster.address, TOPIC, workload)
    try:
        driver.prepare()
        sound(driver.run(WARM_UP_S))
        # A cluster that has just started elects again while its nodes learn of each other.
        cluster.wait(lambda: cluster.is_in_sync(TOPIC, workload.partitions), f"in-sync replicas of {TOPIC}")
        alone = sound(driver.run(seconds / 2))
        beside = driver.run(seconds, _at(seconds / 4, cluster.disk.die))
    finally:
        driver.close()
    if beside.first_error:
        print(f"the first of {beside.errors} errors: {beside.first_error}", flush=True)
    led_s = cluster.wait(lambda: _moved_away(cluster, held), "leaders on other disks")
    assert led_s
    return {
        "death_errors": float(beside.errors),
        "death_longest_ms": beside.latency.highest / MS,
        "death_p99_ms": beside.latency.percentile(99) / MS,
        "death_requests_per_s": beside.requests / beside.seconds,
        "alone_longest_ms": alone.latency.highest / MS,
        "alone_p99_ms": alone.latency.percentile(99) / MS,
    }


def _at(seconds: float, act: Callable[[], None]) -> Callable[[Sample], None]:
    """A listener that calls `act` once, so long after the begin of a window."""
    left = [act]

    def took(sample: Sample) -> None:
        if sample.t_s >= seconds and left:
            left.pop()()

    return took


def _moved_away(cluster: DiskCluster, held: Sequence[Path]) -> bool:
    """Whether the other nodes show other leaders for the partitions on the dead disk."""
    numbers = {int(path.name.rpartition("-")[2]) for path in held}
    seen = cluster.seen(1, TOPIC).partitions
    return all(seen[number].leader > 1 for number in numbers)


# --- moves


def moves(disks: Disks, size_bytes: int, moved: int, rate: int, pairs: int) -> Figures:
    """A synced copy, producers alone, and producers beside a move there and back, in turn."""
    workload = replace(workloads.load(WORKLOADS / "latency-1kb.toml"), rate=Rate(rate, rate, "requests"))
    filling = replace(workloads.load(WORKLOADS / "produce-1mb.toml"), partitions=moved)
    found: dict[str, list[float]] = {}
    with failures(), broker_on(disks.of("move")) as broker:
        fill(broker, filling, size_bytes)
        broker.create_topic("written", workload.partitions)
        leaders = partial(broker.leaders, "written", workload.partitions)
        driver = RawDriver(broker.address, "written", workload, leaders=leaders)
        try:
            driver.prepare()
            sound(driver.run(WARM_UP_S))
            paths = [str(each) for each in disks.of("move")]
            _move(broker, paths[0])
            _wait_for_removal(Path(paths[1]))
            for pair in range(pairs):
                for figure, value in _pair(broker, driver, paths[:: -1 if pair % 2 else 1]).items():
                    found.setdefault(figure, []).append(value)
        finally:
            driver.close()
    return {**found}


def _pair(broker: BrokerCy, driver: RawDriver, paths: Sequence[str]) -> dict[str, float]:
    """The moved topic is in the first of `paths`, and moves to the second one. Memory is warmed for the copy and for
    the move: the host of a virtual machine reclaims free pages after two seconds.
    """
    size_bytes = sum(path.stat().st_size for path in Path(paths[0]).glob(f"{TOPIC}-*/*.log"))
    os.sync()
    proc.warm_memory(Path(paths[1]), size_bytes, STEP_BYTES)
    copy_mb_per_s = copied_mb_per_s(Path(paths[0]), Path(paths[1]))
    os.sync()
    proc.warm_memory(Path(paths[1]), size_bytes, STEP_BYTES)
    ended = threading.Event()
    rates: list[float] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            rates.append(_move(broker, paths[1]))
        except Exception as error:
            errors.append(error)
        finally:
            ended.set()

    mover = threading.Thread(target=work)
    mover.start()
    try:
        beside = sound(driver.run(BESIDE_MOST_S, stop=ended))
    finally:
        mover.join()
    if errors:
        raise errors[0]
    _wait_for_removal(Path(paths[0]))
    os.sync()
    alone = sound(driver.run(max(beside.seconds, 5.0)))
    p99s_ms = [each.latency.percentile(99) / MS for each in (alone, beside)]
    return {
        "copy_mb_per_s": copy_mb_per_s,
        "move_mb_per_s": rates[0],
        "move_to_copy": rates[0] / copy_mb_per_s,
        "alone_p99_ms": p99s_ms[0],
        "beside_p99_ms": p99s_ms[1],
        "move_p99_to_alone": p99s_ms[1] / p99s_ms[0],
        "alone_longest_ms": alone.latency.highest / MS,
        "beside_longest_ms": beside.latency.highest / MS,
    }


def _move(broker: BrokerCy, path: str) -> float:
    """Move the topic to a data directory, and return the MB/s of the move. Raises TargetError."""
    with protocol.Client(broker.address) as client:
        there = [each for each in directory_requests.replicas(client) if each.topic == TOPIC]
        size_bytes = sum(each.size_bytes for each in there if each.directory != path)
        begun = time.monotonic()
        directory_requests.move_replicas(client, path, TOPIC, [each.partition for each in there])
        while any(
            each.is_copy or each.directory != path
            for each in directory_requests.replicas(client)
            if each.topic == TOPIC
        ):
            if time.monotonic() - begun > MOVE_MOST_S:
                raise TargetError(f"replicas were not in {path} after {MOVE_MOST_S:g} s")
            time.sleep(LOOK_S)
        return size_bytes / MB / (time.monotonic() - begun)


def _wait_for_removal(path: Path) -> None:
    """Wait until the logs that have moved away are removed, which would disturb the next window."""
    deadline = time.monotonic() + MOVE_MOST_S
    while any(path.glob(f"{TOPIC}-*")):
        if time.monotonic() > deadline:
            raise TargetError(f"replicas that have moved away were in {path} after {MOVE_MOST_S:g} s")
        time.sleep(LOOK_S)


def copied_mb_per_s(source: Path, target: Path) -> float:
    """Copy the records of the topic from one data directory to the other, all partitions at the same time as the broker
    moves them, and sync each step; returns the MB/s.
    """
    copy = target / "copy-of-bench"
    copy.mkdir()
    begun = time.monotonic()
    try:
        partitions = sorted(source.glob(f"{TOPIC}-*"))
        with ThreadPoolExecutor(len(partitions)) as pool:
            size_bytes = sum(pool.map(partial(_copied_bytes, copy), partitions))
        return size_bytes / MB / (time.monotonic() - begun)
    finally:
        shutil.rmtree(copy)


def _copied_bytes(copy: Path, partition: Path) -> int:
    size_bytes = 0
    for path in sorted(partition.glob("*.log")):
        with open(path, "rb", buffering=0) as read, open(copy / f"{partition.name}-{path.name}", "wb") as written:
            end = os.fstat(read.fileno()).st_size
            at = 0
            while at < end:
                at += os.sendfile(written.fileno(), read.fileno(), at, min(STEP_BYTES, end - at))
                os.fdatasync(written.fileno())
            size_bytes += end
    return size_bytes
