"""The interface between the drivers and the engine.

Times are nanoseconds of this host's monotonic clock. Latency counts from the time at which a request was due, so that a
stall of the target counts for all requests that waited during it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Protocol

from bench.measuring.histogram import Histogram

SAMPLE_S = 0.25  # approximate interval of a driver's progress reports
GENERATOR_LIMIT = 0.95  # share of a core per generator process: above it the generator was the limit


class DriverError(Exception):
    """The load could not be generated, or the target answered with errors; the text says which and how many."""


@dataclass(frozen=True)
class Sample:
    """One interval of a window."""

    t_s: float  # end of the interval, since the window began
    records: int
    bytes: int
    requests: int
    errors: int
    latency: Histogram  # of this interval alone
    consumed_records: int = 0  # with concurrent producers, to which the records and bytes above belong
    consumed_bytes: int = 0


@dataclass
class DriverResult:
    """One window. Records and bytes are those acknowledged (producing) or received (consuming)."""

    records: int = 0
    bytes: int = 0  # of record batches for `raw`, of keys and values for clients
    requests: int = 0
    errors: int = 0
    first_error: str | None = None
    seconds: float = 0.0  # first due time to last response
    latency: Histogram = field(default_factory=Histogram)
    lateness: Histogram = field(default_factory=Histogram)  # how much later than due the generator sent
    end_to_end: Histogram | None = None  # from the due time of producing until consumed
    consumed_records: int = 0
    consumed_bytes: int = 0
    consumed_s: float = 0.0  # first due time until the last record was consumed, with concurrent producers
    unmatched: int = 0  # consumed batches with an unknown due time, which are not in end_to_end
    transactions: int = 0  # committed or aborted
    starts: int = 0  # transactional ids that got a producer id, if nothing else is measured
    retries: int = 0  # requests that were sent again because the target was not ready for them
    commit: Histogram = field(default_factory=Histogram)  # the time that the end of each transaction took
    cpu_s: float = 0.0  # of all processes of the generator
    processes: int = 1
    samples: list[Sample] = field(default_factory=list)
    reported: dict[str, float] = field(default_factory=dict)  # latencies and rates that another program printed

    @property
    def generator_share(self) -> float:
        """CPU time as a share of one core, per process of the generator."""
        return self.cpu_s / self.seconds / self.processes if self.seconds else 0.0

    def append(self, other: "DriverResult") -> None:
        """Add the next piece of the same window, measured after this one."""
        shift, consumed_s = self.seconds, self.consumed_s
        samples = [replace(sample, t_s=sample.t_s + shift) for sample in other.samples]
        earlier, self.samples, self.processes = self.samples, [], 0
        self.merge(replace(other, samples=[]))
        self.seconds = shift + other.seconds
        self.consumed_s = consumed_s + other.consumed_s
        self.samples = earlier + samples

    def merge(self, other: "DriverResult") -> None:
        """Add the measurements of another process over the same window; histograms merge exactly."""
        self.reported = _merge_reported(self, other)
        self.records += other.records
        self.bytes += other.bytes
        self.requests += other.requests
        self.errors += other.errors
        self.first_error = self.first_error or other.first_error
        self.seconds = max(self.seconds, other.seconds)
        self.latency.merge(other.latency)
        self.lateness.merge(other.lateness)
        if other.end_to_end is not None:
            if self.end_to_end is None:
                self.end_to_end = Histogram()
            self.end_to_end.merge(other.end_to_end)
        self.consumed_records += other.consumed_records
        self.consumed_bytes += other.consumed_bytes
        self.consumed_s = max(self.consumed_s, other.consumed_s)
        self.unmatched += other.unmatched
        self.transactions += other.transactions
        self.starts += other.starts
        self.retries += other.retries
        self.commit.merge(other.commit)
        self.cpu_s += other.cpu_s
        self.processes += other.processes
        self.samples = merge_samples(self.samples, other.samples)


def _merge_reported(ours: DriverResult, other: DriverResult) -> dict[str, float]:
    """Combine two printed summaries; percentiles are left out, because they cannot be combined."""
    if not (ours.reported and other.reported):
        return {**ours.reported, **other.reported}
    merged = {}
    if "max_ms" in ours.reported and "max_ms" in other.reported:
        merged["max_ms"] = max(ours.reported["max_ms"], other.reported["max_ms"])
    if "avg_ms" in ours.reported and "avg_ms" in other.reported and (records := ours.records + other.records):
        total_ms = ours.reported["avg_ms"] * ours.records + other.reported["avg_ms"] * other.records
        merged["avg_ms"] = total_ms / records
    return merged


def merge_samples(ours: list[Sample], others: list[Sample]) -> list[Sample]:
    """Merge the samples of two processes into one series: samples that end in the same SAMPLE_S are added."""
    slots: dict[int, Sample] = {}
    for sample in [*ours, *others]:
        slot = round(sample.t_s / SAMPLE_S)
        if (known := slots.get(slot)) is None:
            slots[slot] = sample
            continue
        latency = Histogram()
        latency.merge(known.latency)
        latency.merge(sample.latency)
        slots[slot] = Sample(
            max(known.t_s, sample.t_s),
            known.records + sample.records,
            known.bytes + sample.bytes,
            known.requests + sample.requests,
            known.errors + sample.errors,
            latency,
            known.consumed_records + sample.consumed_records,
            known.consumed_bytes + sample.consumed_bytes,
        )
    return [slots[slot] for slot in sorted(slots)]


class LoadDriver(Protocol):
    """A driver: `prepare` is called once, `run` any number of times, and `close` always."""

    def prepare(self) -> None:
        """Connect, encode, spawn; raises DriverError."""

    def run(
        self, seconds: float, on_sample: Callable[[Sample], None] | None = None, stop: Event | None = None
    ) -> DriverResult:
        """Generate the workload's load for `seconds`, or until `stop` is set; the target's failures are in `errors`."""

    def close(self) -> None:
        """End all processes and connections."""
