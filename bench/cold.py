"""Producers' latency while one consumer reads, from its far end, a backlog that left the page cache.

The backlog is written once for each target, brought to disk and evicted by this process. Then the same open load is
measured in turn without and with a consumer that fetches 1 MB after the other. That its reads were cold is not taken
on trust: the kernel counts what the target's process made the disk read.
"""

import os
import shutil
import threading
from pathlib import Path

from bench import proc, protocol
from bench.histogram import Histogram
from bench.raw import Driver, LoadError
from bench.targets import Target, TargetError
from bench.window import GB, Metrics
from bench.workloads import MIB, NO_TIME_LIMIT_S, Latency, Scale

BACKLOG_BATCH_BYTES = 64 << 10
PIECE_S = 0.5  # the open load runs in pieces, so that only what lies within the consumer's time is counted
COLD_SHARE_MIN = 0.9  # of the bytes that were consumed; with less from the disk, the run says nothing
SPARE_BYTES = 2 * GB  # that the disk must have besides the backlog: the producers' own, warming, the system


def evict(directory: Path) -> None:
    """Bring every file below `directory` to disk and drop it from the page cache; raises OSError."""
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


class Consumer:
    """Reads partition 0 of `topic` once, from offset 0 to `end`, in a thread of its own; for `seconds` at the most."""

    def __init__(self, target: Target, topic: str, end: int, fetches: int, seconds: float) -> None:
        self.driver = Driver(target.address, [[protocol.fetch_request(topic, 0, MIB)]], fetching=True, wrap_at={0: end})
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self._run, args=(fetches, seconds), name="cold consumer")
        self.thread.start()

    def _run(self, fetches: int, seconds: float) -> None:
        try:
            self.driver.run_closed(depth=1, requests=fetches, seconds=seconds)
        except Exception as error:  # told to the thread that waits
            self.failure = error

    @property
    def reads(self) -> bool:
        """Whether it has not come to its end yet."""
        return self.thread.is_alive()

    def finish(self) -> Driver:
        """Wait for its end; raises what it met."""
        self.thread.join()
        self.driver.close()
        if self.failure is not None:
            raise self.failure
        return self.driver


class Cold(Latency):
    """`latency` without and with a consumer of a cold backlog of `scale.cold_bytes` in one partition."""

    name = "cold"
    topic = "bench-cold-backlog"
    has_floor = False  # it has one set of partitions, and nothing it could look up

    def __init__(self, scale: Scale) -> None:
        super().__init__(scale)
        self.ends: dict[str, int] = {}

    def prepare(self, target: Target) -> None:
        need = self.scale.cold_bytes + SPARE_BYTES
        if (free := shutil.disk_usage(target.directory).free) < need:
            raise TargetError(f"{need / GB:.1f} GB must be free in {target.directory}, there are {free / GB:.1f}")
        target.create_topic(self.topic, 1)
        batch, count = protocol.largest_batch(1024, BACKLOG_BATCH_BYTES)
        template = protocol.produce_request(self.topic, 0, batch, count)
        driver = Driver(target.address, [[template]])
        try:
            driver.run_closed(depth=5, requests=self.scale.cold_bytes // len(batch), seconds=NO_TIME_LIMIT_S)
            self.ends[target.name] = driver.next_offsets(1)[0]
        finally:
            driver.close()

    def measure(self, target: Target) -> Metrics:
        self.round += 1
        with self.load(target, f"bench-cold-{self.round}") as driver:
            evict(target.directory / f"{self.topic}-0")
            proc.warm_memory(target.directory, int(self.rate * self.scale.latency_s * 2400), 1200)
            metrics = self._load(driver, "alone", None)
            before = proc.usage(target.pid)
            # A fetch brings what fits of whole batches, and the driver goes on at the first that did not.
            fetches = self.scale.cold_bytes // (MIB - BACKLOG_BATCH_BYTES)
            consumer = Consumer(target, self.topic, self.ends[target.name], fetches, self.scale.latency_s)
            try:
                metrics |= self._load(driver, "cold", consumer)
            finally:
                read = consumer.finish()
            used = proc.usage(target.pid) - before
        metrics["disk_share"] = used.read_bytes / read.bytes
        metrics["disk_gb"] = used.read_bytes / GB
        metrics["consumed_mb_per_s"] = read.bytes / read.seconds / 1e6
        metrics["cores"] = used.cpu_s / read.seconds
        for percentile in ("p50", "p99", "p999"):
            metrics[f"{percentile}_ratio"] = metrics[f"{percentile}_cold_ms"] / metrics[f"{percentile}_alone_ms"]
        if metrics["disk_share"] < COLD_SHARE_MIN:
            raise LoadError(
                f"{target.name}: {read.bytes / GB:.2f} GB were consumed, but only {metrics['disk_gb']:.2f} GB came"
                f" from the disk: {target.directory} is in memory, or its pages are in use"
            )
        return metrics

    def _load(self, driver: Driver, name: str, consumer: Consumer | None) -> Metrics:
        """The open load for `scale.latency_s`, or for as long as the consumer reads; percentiles named by `name`."""
        latency, lateness = Histogram(), Histogram()
        seconds = 0.0
        while seconds < self.scale.latency_s:
            driver.run_open(rate=self.rate, seconds=PIECE_S)
            if consumer is not None and not consumer.reads and latency.count:
                break  # it ended within this piece
            latency.merge(driver.latency)
            lateness.merge(driver.lateness)
            seconds += PIECE_S
        return {
            f"p50_{name}_ms": latency.percentile(50) / 1e6,
            f"p99_{name}_ms": latency.percentile(99) / 1e6,
            f"p999_{name}_ms": latency.percentile(99.9) / 1e6,
            f"max_{name}_ms": latency.highest / 1e6,
            f"late_p99_{name}_ms": lateness.percentile(99) / 1e6,
            f"{name}_s": seconds,
        }

    def clean(self, target: Target) -> None:
        target.delete_topic(self.topic)
