"""The figures the project promises, and whether a measured value reaches them."""

from dataclasses import dataclass

OURS, PEER, FLOOR = "ours", "peer", "floor"


@dataclass(frozen=True)
class Figure:
    """One line of the table: a metric of a workload, in `unit`, with the bound it must reach (None: shown only)."""

    workload: str
    metric: str
    what: str
    unit: str
    bound: float | None = None
    at_least: bool = False  # the value must not be below the bound; else it must not be above
    per_floor: bool = False  # the bound is for value / floor of the same run
    digits: int = 2

    def target(self) -> str:
        """The bound as text."""
        if self.bound is None:
            return ""
        sign = "≥" if self.at_least else "≤"
        unit = "x floor" if self.per_floor else self.unit
        return f"{sign} {self.bound:,g} {unit}"

    def missed_by(self, value: float) -> float:
        """How far `value` is on the wrong side of the bound, as a share of it; 0 or less where it is reached."""
        assert self.bound is not None
        return (self.bound - value if self.at_least else value - self.bound) / self.bound


@dataclass(frozen=True)
class Row:
    """A figure with the medians measured in this run; None where a side was not measured."""

    figure: Figure
    ours: float | None
    peer: float | None
    floor: float | None
    note: str = ""

    def verdict(self) -> str:
        """`met`, `missed by N %`, or empty where there is no bound or nothing to hold against it."""
        value, figure = self.ours, self.figure
        if value is None or figure.bound is None:
            return ""
        if figure.per_floor:
            if not self.floor:
                return "no floor in this run"
            value /= self.floor
        missed = figure.missed_by(value)
        text = "met" if missed <= 0 else f"missed by {missed * 100:.1f} %"
        if figure.per_floor:
            return f"{value:.2f}x floor, {text}"
        if missed > 0 and self.floor is not None and figure.missed_by(self.floor) > 0:
            return f"{text}; the floor missed it, too"  # a hint that the machine was busy with something else
        return text

    @property
    def missed(self) -> bool:
        """Whether there is a bound that was held against a value and not reached."""
        return "missed" in self.verdict()


FIGURES = [
    Figure("produce16k", "cpu_us", "CPU for one 16 KiB produce request, acks=all, 5 in flight", "us", 20, digits=1),
    Figure("produce16k", "per_second", "  requests", "/s", digits=0),
    Figure("onerecord", "per_second", "one-record requests of 100 B, 4 connections, 20 in flight", "/s", 100_000, True,
           digits=0),
    Figure("onerecord", "cpu_us", "  CPU each", "us", 9),
    Figure("produce1m", "cpu_s_per_gb", "produce 1 KB records in 1 MB batches", "CPU-s/GB", 0.75),
    Figure("produce1m", "mb_per_s", "  rate", "MB/s", digits=0),
    Figure("consume", "cpu_s_per_gb", "consume from page cache, 1 MB fetches", "CPU-s/GB", 1.2, per_floor=True,
           digits=3),
    Figure("consume", "mb_per_s", "  rate", "MB/s", digits=0),
    Figure("latency", "p50_ms", "latency at 5,000 requests/s of 1 KB, open loop: p50", "ms", digits=3),
    Figure("latency", "p99_ms", "  p99", "ms", 0.4, digits=3),
    Figure("latency", "p999_ms", "  p99.9", "ms", 1.0, digits=3),
    Figure("latency", "p99_typical_ms", "  p99 of the median second", "ms", digits=3),
    Figure("latency", "late_p99_ms", "  the generator itself was late: p99", "ms", digits=3),
    Figure("cold", "p50_alone_ms", "5,000 requests/s, {cold} of cold log that nobody reads: p50", "ms", digits=3),
    Figure("cold", "p99_alone_ms", "  p99", "ms", digits=3),
    Figure("cold", "p999_alone_ms", "  p99.9", "ms", digits=3),
    Figure("cold", "p50_cold_ms", "  a consumer reads its far end: p50", "ms", digits=3),
    Figure("cold", "p99_cold_ms", "  p99", "ms", digits=3),
    Figure("cold", "p999_cold_ms", "  p99.9", "ms", digits=3),
    Figure("cold", "p99_ratio", "  p99 with / without the consumer", "x"),
    Figure("cold", "late_p99_cold_ms", "  the generator itself was late: p99", "ms", digits=3),
    Figure("cold", "consumed_mb_per_s", "  consumed", "MB/s", digits=0),
    Figure("cold", "disk_share", "  share of it that the disk read", ""),
    Figure("start", "first_answer_s", "start to first answer", "s", 0.3),
    Figure("start", "cpu_s", "  CPU until then", "CPU-s"),
    Figure("through", "idle_mb", "resident memory idle", "MB", 45, digits=1),
    Figure("through", "through_mb", "  after {through} went through", "MB", 90, digits=1),
    Figure("idle", "kb_each", "{connections} idle connections", "KB each", 6),
    Figure("through", "first_answer_s", "kill -9 with {through} of logs, to first answer", "s", 1.0),
    Figure("through", "first_write_s", "  to first acknowledged write", "s"),
    Figure("offsets", "load_s", "kill -9 with {offsets} committed offsets, all known again", "s", 1.0),
]  # fmt: skip
