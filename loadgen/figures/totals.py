"""The figures of all workers together: the sums of their intervals, and a series of seconds for the charts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from bench.measuring.histogram import Histogram

# Seconds of the series at most: two days. A longer run drops the first ones; the totals keep all.
SERIES_MAX = 172_800
NS_PER_MS = 1_000_000
# Rounding of the measured time.
SLACK_S = 0.001


@dataclass
class Operation:
    """The sums of one operation."""

    requests: int = 0
    records: int = 0
    bytes: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    latency: Histogram = field(default_factory=Histogram)
    service: Histogram = field(default_factory=Histogram)

    def add(self, state: dict[str, Any]) -> None:
        """Add the result of `Meter.take`."""
        self.requests += state["requests"]
        self.records += state["records"]
        self.bytes += state["bytes"]
        for name, count in state["errors"].items():
            self.errors[name] = self.errors.get(name, 0) + count
        self.latency.merge(histogram_of(state["latency"]))
        self.service.merge(histogram_of(state["service"]))

    @property
    def failures(self) -> int:
        return sum(self.errors.values())


@dataclass
class WorkerFigures:
    """One worker's part."""

    index: int
    host: str = ""
    pid: int = 0
    cpu_s: float = 0.0
    seconds: float = 0.0
    requests: int = 0
    last_second: int = 0
    part: float = 0.0  # of the load of the run, from 0 to 1
    lost: str | None = None  # why its figures end early

    @property
    def cpu_share(self) -> float:
        """CPU time as a share of one core."""
        return self.cpu_s / self.seconds if self.seconds else 0.0


@dataclass
class Second:
    """One second of the run, over all workers."""

    operations: dict[str, Operation] = field(default_factory=dict)
    workers: int = 0
    queued: int = 0


class Totals:
    """Merges the intervals of workers; each is added once. Intervals before second 0 belong to the warm-up and are left
    out.
    """

    def __init__(self) -> None:
        self.operations: dict[str, Operation] = {}
        self.workers: dict[str, WorkerFigures] = {}
        self.series: dict[int, Second] = {}
        self.lateness, self.hub_lag = Histogram(), Histogram()
        self.queued = 0
        self.unsent_of: dict[str, int] = {}  # by entry of the scenario
        self.counts: dict[str, int] = {}

    @property
    def unsent(self) -> int:
        """Operations that were due and not begun when the run ended."""
        return sum(self.unsent_of.values())

    def late(self, name: str, seconds: float) -> Operation:
        """Return the counts of operations that were answered after the `seconds` of the run: they were due before, and
        waited.
        """
        found = Operation()
        for second, slot in self.series.items():
            if second >= math.ceil(seconds - SLACK_S) and (each := slot.operations.get(name)) is not None:
                found.requests += each.requests
                found.records += each.records
                found.bytes += each.bytes
        return found

    def add(self, worker: str, interval: dict[str, Any]) -> None:
        """Add the result of `Book.take` of a worker."""
        second = interval["second"]
        if second < 0:
            return
        of = self.workers.setdefault(worker, WorkerFigures(len(self.workers)))
        of.cpu_s += interval["cpu_s"]
        of.seconds += interval["seconds"]
        of.last_second = second
        slot = self.series.setdefault(second, Second())
        slot.workers += 1
        slot.queued += interval["queued"]
        for name, state in interval["operations"].items():
            of.requests += state["requests"]
            self.operations.setdefault(name, Operation()).add(state)
            slot.operations.setdefault(name, Operation()).add(state)
        self.lateness.merge(histogram_of(interval["lateness"]))
        self.hub_lag.merge(histogram_of(interval["hub_lag"]))
        self.queued += interval["queued"]
        for name, count in interval["unsent"].items():
            self.unsent_of[name] = self.unsent_of.get(name, 0) + count
        for name, count in interval["counts"].items():
            self.counts[name] = self.counts.get(name, 0) + count
        if len(self.series) > SERIES_MAX:
            del self.series[min(self.series)]


def percentile_ms(histogram: Histogram, percent: float) -> float | None:
    """Return a percentile of a histogram of ns; None if it is empty."""
    return histogram.percentile(percent) / NS_PER_MS if histogram.count else None


def histogram_of(state: Any) -> Histogram:
    """Return the histogram of a state that went through msgpack, which makes lists of tuples."""
    count, highest, buckets = state
    return Histogram.from_state((count, highest, tuple((at, number) for at, number in buckets)))
