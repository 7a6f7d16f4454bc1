"""Conversion of the counts of a driver and the kernel to the figures, series and verdicts of a result document.

A run with lost or failed records only has the reason: none of its figures may be quoted.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.drivers.base import GENERATOR_LIMIT, DriverResult
from bench.measuring import hdr, proc
from bench.measuring.histogram import Histogram
from bench.report import stats
from bench.report.metrics import PERCENTILES
from bench.report.result import Errors, Latencies, Number, Pair, Run, Series

NS_PER_MS = 1e6
MB = 1e6
GB = 1e9
LATE_SHARE = 0.25  # of the p99: a generator that sends later than this is part of the latency that it measures
COLD_SHARE = 0.01  # of the consumed bytes: if more than this came from the disk, reads were cold
CURVE_STEPS = 10  # points for each further nine of a percentile


@dataclass(frozen=True)
class Spent:
    """Resources that the target's process used in a window, and samples of it during the window."""

    usage: proc.Usage
    samples: Sequence[proc.Sampled] = ()
    resident_peak_bytes: int = 0
    files: int = 0
    died: bool = False
    began_s: float = 0.0  # of the window, time.monotonic

    @classmethod
    def of(cls, usage: proc.Usage, sampler: proc.Sampler, began_s: float) -> "Spent":
        """Combine a stopped sampler and the difference of two `proc.usage`."""
        return cls(usage, tuple(sampler.samples), sampler.resident_peak_bytes, sampler.files, sampler.died, began_s)


def run_of(
    result: DriverResult,
    *,
    target: str,
    started: str,
    spent: Spent | None = None,
    pair: int = 0,
    label: str = "",
    consuming: bool = False,
    lost: int = 0,
    failed: str | None = None,
    extra: Mapping[str, Number] | None = None,
) -> Run:
    """Return one window as a Run.

    `spent` is None if the target's process is not on this host. `consuming`: the workload only consumes, so that the
    result's records are those received. `lost`: number of acknowledged records that were not read back. `failed`:
    another failure. `extra`: figures that the mode itself measured, such as start_s.
    """
    errors = Errors(result.errors, result.first_error)
    if reason := failed or failure(result, spent, lost):
        return Run(target, started, pair, label, reason, errors=errors, verdicts=(f"failed: {reason}",))
    return Run(
        target,
        started,
        pair,
        label,
        None,
        {**figures(result, spent, consuming), **(extra or {})},
        series(result, spent),
        latencies(result.latency),
        latencies(result.lateness),
        latencies(result.end_to_end),
        latencies(result.commit),
        errors,
        tuple(verdicts(result, spent, consuming)),
    )


def failure(result: DriverResult, spent: Spent | None = None, lost: int = 0) -> str | None:
    """Return the reason why no figure of this window may be quoted, or None."""
    if result.errors:
        return f"{result.errors} error{'s' if result.errors > 1 else ''}, the first: {result.first_error or 'no text'}"
    if lost:
        return f"{lost} acknowledged record{'s' if lost > 1 else ''} could not be read back"
    if spent is not None and spent.died:
        return "the target's process ended during the run"
    if result.seconds <= 0 or not (result.records or result.consumed_records or result.starts):
        return "no record was acknowledged or received"
    return None


def figures(result: DriverResult, spent: Spent | None, consuming: bool = False) -> dict[str, Number]:
    """Return every known metric of a window that did not fail."""
    seconds = result.seconds
    found: dict[str, Number] = {"generator_share": result.generator_share, **percentile_figures(result.latency)}
    if result.starts:
        found["starts_per_s"] = result.starts / seconds
    else:
        found["records_per_s"] = result.records / seconds
        found["mb_per_s"] = result.bytes / seconds / MB
        found["requests_per_s"] = result.requests / seconds
    if result.transactions:
        found["transactions_per_s"] = result.transactions / seconds
        found["retries_per_transaction"] = result.retries / result.transactions
        found |= percentile_figures(result.commit, "commit_")
    if result.consumed_records and not consuming:
        consumed_s = result.consumed_s or seconds
        found["consumed_records_per_s"] = result.consumed_records / consumed_s
        found["consumed_mb_per_s"] = result.consumed_bytes / consumed_s / MB
    if typical := [sample.latency.percentile(99) for sample in result.samples if sample.latency.count]:
        found["p99_typical_ms"] = statistics.median(typical) / NS_PER_MS
    if result.lateness.count:
        found["late_p99_ms"] = result.lateness.percentile(99) / NS_PER_MS
    if result.end_to_end is not None:
        found |= percentile_figures(result.end_to_end, "e2e_")
    return found | (spent_figures(result, spent, consuming) if spent is not None else {})


def percentile_figures(histogram: Histogram, prefix: str = "") -> dict[str, Number]:
    """Return p50_ms ... max_ms and avg_ms: only percentiles with enough values; nothing for an empty histogram."""
    if histogram.count == 0:
        return {}
    found: dict[str, Number] = {
        f"{prefix}{name}_ms": histogram.percentile(percent) / NS_PER_MS
        for name, percent in PERCENTILES.items()
        if reported(percent, histogram.count)
    }
    return found | {f"{prefix}max_ms": histogram.highest / NS_PER_MS, f"{prefix}avg_ms": histogram.mean() / NS_PER_MS}


def spent_figures(result: DriverResult, spent: Spent, consuming: bool = False) -> dict[str, Number]:
    """Return the figures of the target's process; GB and records are the sum of those produced and consumed."""
    usage = spent.usage
    through, records = result.bytes, result.records
    if not consuming:
        through, records = through + result.consumed_bytes, records + result.consumed_records
    ticks = usage.user_s + usage.system_s  # ticks of 10 ms give the shares, the nanosecond clock gives the sum
    user = usage.user_s / ticks if ticks else 0.5
    found: dict[str, Number] = {
        "broker_cpu_s": usage.cpu_s,
        "broker_user_s": usage.cpu_s * user,
        "broker_system_s": usage.cpu_s * (1 - user),
        "minor_faults": usage.minor_faults,
        "major_faults": usage.major_faults,
        "switches_voluntary": usage.voluntary_switches,
        "switches_involuntary": usage.involuntary_switches,
        "disk_read_mb": usage.read_bytes / MB,
        "disk_written_mb": usage.disk_written_bytes / MB,
    }
    if through:
        found["cpu_s_per_gb"] = usage.cpu_s / (through / GB)
    if records:
        found["cpu_s_per_m_records"] = usage.cpu_s / (records / 1e6)
    if result.transactions:
        found["cpu_s_per_k_transactions"] = usage.cpu_s / result.transactions * 1000
    if result.requests:
        found["cpu_us_per_request"] = usage.cpu_s / result.requests * 1e6
    if (share := disk_share(result, spent, consuming)) is not None:
        found["read_from_disk_share"] = share
    if spent.samples:
        found["rss_mb"] = spent.samples[-1].resident_bytes / MB
        found["rss_peak_mb"] = spent.resident_peak_bytes / MB
        found["file_descriptors"] = spent.files
    return found


def disk_share(result: DriverResult, spent: Spent | None, consuming: bool) -> float | None:
    """Return bytes read from disk per byte consumed; None if nothing was consumed or the process is unknown."""
    consumed = result.bytes if consuming else result.consumed_bytes
    return spent.usage.read_bytes / consumed if spent is not None and consumed else None


def verdicts(result: DriverResult, spent: Spent | None, consuming: bool = False) -> list[str]:
    """Return remarks that a reader needs in addition to the figures."""
    found = []
    if result.generator_share > GENERATOR_LIMIT:
        found.append(f"the generator was the limit: it used {result.generator_share:.2f} of a core per process")
    if result.lateness.count and result.latency.count:
        late, p99 = result.lateness.percentile(99), result.latency.percentile(99)
        if late > LATE_SHARE * p99:
            found.append(
                f"the generator was the limit: it sent {late / NS_PER_MS:.3f} ms late at p99, "
                f"where the latency's p99 is {p99 / NS_PER_MS:.3f} ms"
            )
    if (share := disk_share(result, spent, consuming)) is not None:
        found.append(f"reads were cold: {share:.1%} came from the disk" if share > COLD_SHARE else "reads were hot")
    negative = result.latency.negative + (result.end_to_end.negative if result.end_to_end is not None else 0)
    if negative:
        found.append(f"negative latencies: {negative}")
    if result.unmatched:
        found.append(f"the end-to-end latency of {result.unmatched} batches is unknown: they were consumed too late")
    return found


def latencies(histogram: Histogram | None) -> Latencies | None:
    """Convert a histogram for the document; None if it is empty, unless it has negative values."""
    if histogram is None or not (histogram.count or histogram.negative):
        return None
    curve = [(percent, histogram.percentile(percent) / NS_PER_MS) for percent in ladder(histogram.count)]
    return Latencies(histogram.count, histogram.negative, tuple(curve), hdr.hdr_base64(histogram))


def reported(percent: float, count: int) -> bool:
    """Return whether `count` values are enough for a percentile: at least one is expected to be above it."""
    return round(count * (100 - percent), 6) >= 100  # 100 - 99.9 is a little less than 0.1


def ladder(count: int) -> list[float]:
    """Return the percents to draw in a curve of `count` values: evenly in log 1/(1-p) up to the last value, and 100."""
    if count == 0:
        return []
    steps = range(1, math.floor(math.log10(count) * CURVE_STEPS) + 1)
    curve = {round(100 * (1 - 10 ** (-step / CURVE_STEPS)), 9) for step in steps}
    known = {percent for percent in PERCENTILES.values() if reported(percent, count)}
    return sorted({percent for percent in curve | known if 0 < percent < 100} | {100.0})


def series(result: DriverResult, spent: Spent | None) -> Series:
    """Return the driver's samples with the resources that the target's process used in the same intervals."""
    if not result.samples:
        return _process_series(spent)
    times = [sample.t_s for sample in result.samples]
    widths = [end - begin for begin, end in zip([0.0, *times], times, strict=False)]
    pairs = list(zip(result.samples, widths, strict=True))
    cores, resident = _aligned(spent, times)
    beside = any(sample.consumed_records for sample in result.samples)
    return Series(
        tuple(times),
        tuple(sample.records / width if width > 0 else None for sample, width in pairs),
        tuple(sample.bytes / width / MB if width > 0 else None for sample, width in pairs),
        tuple(_percentile_ms(sample.latency, 50) for sample in result.samples),
        tuple(_percentile_ms(sample.latency, 99) for sample in result.samples),
        cores,
        resident,
        tuple(sample.consumed_records / width if beside and width > 0 else None for sample, width in pairs),
        tuple(sample.consumed_bytes / width / MB if beside and width > 0 else None for sample, width in pairs),
    )


def _percentile_ms(histogram: Histogram, percent: float) -> float | None:
    """Return a percentile in ms; None if no request was answered in the interval, as when a target stalls."""
    return histogram.percentile(percent) / NS_PER_MS if histogram.count else None


def _process_series(spent: Spent | None) -> Series:
    """Return the samples of the process alone, for a driver without samples (Kafka's own tools)."""
    times = [sample.at_s - spent.began_s for sample in spent.samples] if spent is not None else []
    times = [time_s for time_s in times if time_s > 0]
    nothing: tuple[float | None, ...] = (None,) * len(times)
    cores, resident = _aligned(spent, times)
    return Series(tuple(times), nothing, nothing, nothing, nothing, cores, resident, nothing, nothing)


def _aligned(spent: Spent | None, times: Sequence[float]) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Return cores and resident MB in the intervals that end at `times`, interpolated linearly between samples."""
    if spent is None or len(spent.samples) < 2:
        return (None,) * len(times), (None,) * len(times)
    at = [sample.at_s - spent.began_s for sample in spent.samples]
    ends = np.array([0.0, *times])
    used = np.diff(np.interp(ends, at, [sample.cpu_s for sample in spent.samples]))
    widths, seen = np.diff(ends), np.diff(np.clip(ends, at[0], at[-1]))  # values outside its samples are unknown
    resident = np.interp(times, at, [sample.resident_bytes / MB for sample in spent.samples])
    cores = tuple(
        float(cpu_s / covered) if covered > 0 and covered >= width / 2 else None
        for cpu_s, width, covered in zip(used, widths, seen, strict=True)
    )
    return cores, tuple(float(value) for value in resident)


def _sides(
    sides: tuple[Mapping[int, Run], Mapping[int, Run]], names: tuple[str, str], label: str, metrics: Sequence[str]
) -> list[Pair]:
    """Return the ratio of each metric between two sides, whose runs are keyed by their pairs."""
    left, right = sides
    found = []
    for metric in metrics:
        values = [
            (left[pair].figures[metric], right[pair].figures[metric])
            for pair in sorted(left.keys() & right.keys())
            if metric in left[pair].figures and right[pair].figures.get(metric)
        ]
        if values:
            ours, theirs = [a for a, _ in values], [b for _, b in values]
            ratio = stats.pair_ratio(ours, theirs)
            found.append(
                Pair(
                    metric,
                    *names,
                    ratio.ratios,
                    ratio.median,
                    ratio.interval,
                    ratio.confidence,
                    label,
                    ratio.note,
                    statistics.median(ours),
                    statistics.median(theirs),
                )
            )
    return found


def _by_pair(runs: Sequence[Run], target: str, label: str) -> dict[int, Run]:
    return {run.pair: run for run in runs if run.target == target and run.label == label}


def workload_pairs_of(runs: Sequence[Run], targets: Sequence[str], metrics: Sequence[str]) -> list[Pair]:
    """Return the ratio first workload / other workload on each target; workloads are the runs' labels."""
    first, *others = dict.fromkeys(run.label for run in runs)
    return [
        pair
        for target in targets
        for other in others
        for pair in _sides(
            (_by_pair(runs, target, first), _by_pair(runs, target, other)), (first, other), target, metrics
        )
    ]


def pairs_of(runs: Sequence[Run], a: str, b: str, metrics: Sequence[str]) -> list[Pair]:
    """Return the ratio a/b of each metric over the pairs with two runs that did not fail, for each label.

    Pairs without a ratio (b is 0) are left out, and so are metrics without pairs.
    """
    found = []
    for label in dict.fromkeys(run.label for run in runs):
        found += _sides((_by_pair(runs, a, label), _by_pair(runs, b, label)), (a, b), label, metrics)
    return found
