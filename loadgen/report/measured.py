"""The figures of a result: the measurements of each operation, over the whole run and by second."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Latencies:
    """A histogram. With few values, a high percentile is the highest value: see `bench.report.measured.reported`."""

    count: int
    negative: int  # values below zero, in no percentile: an error of the clock
    mean_ms: float
    p50_ms: float
    p75_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    p9999_ms: float
    max_ms: float
    hdr: str


@dataclass(frozen=True)
class OperationFigures:
    """One operation over the whole run. `latency` counts from the due time, `service` from the sending."""

    requests: int
    records: int
    bytes: int
    failures: int
    errors: dict[str, int]
    unsent: int  # that were due and never begun
    error_share: float  # what failed or was never sent, of all that was due
    requests_per_s: float
    records_per_s: float
    mb_per_s: float
    latency: Latencies | None
    service: Latencies | None


@dataclass(frozen=True)
class OperationSeries:
    """One operation over time: columns as long as `Series.t_s`; None if no operation was answered in that second."""

    requests_per_s: tuple[float, ...]
    records_per_s: tuple[float, ...]
    p50_ms: tuple[float | None, ...]
    p99_ms: tuple[float | None, ...]
    max_ms: tuple[float | None, ...]
    errors: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)  # by name: (second, count)


@dataclass(frozen=True)
class Series:
    """The run by second."""

    t_s: tuple[int, ...] = ()
    operations: dict[str, OperationSeries] = field(default_factory=dict)
    queued: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()  # those that reported
