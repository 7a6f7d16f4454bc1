"""Text output: the columns of Kafka's own performance tools, and tables of the broker's resource usage and of pairs.

Texts and units are those of kafka-producer-perf-test and kafka-consumer-perf-test 4.3.1, so that numbers can be
compared: MB is 2^20 bytes there, and the producer reports every five seconds. There is one difference: the percentiles
of the producer's last line have two decimal places, where Kafka's clock has only whole milliseconds.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.markup import escape
from rich.table import Table

from bench.drivers.base import DriverResult, Sample
from bench.measuring.histogram import Histogram
from bench.measuring.perf import TOP
from bench.report.measured import NS_PER_MS
from bench.report.metrics import describe, sides, text
from bench.report.result import Pair, Profile, ProfileRow, Run, WarmUp, title

MIB = 1 << 20
INTERVAL_S = 5.0  # of kafka-producer-perf-test
CONSUMER_HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
SPENT = (
    "cpu_s_per_gb", "cpu_s_per_m_records", "cpu_s_per_k_transactions", "cpu_us_per_request",
    "broker_cpu_s", "broker_user_s", "broker_system_s",
    "rss_mb", "rss_peak_mb", "minor_faults", "major_faults", "switches_voluntary", "switches_involuntary",
    "disk_read_mb", "disk_written_mb", "read_from_disk_share", "file_descriptors", "generator_share",
)  # fmt: skip


def producer_lines(samples: Iterable[Sample], interval_s: float = INTERVAL_S) -> list[str]:
    """Return one line for each whole interval of a run; the rest at the end is only in `producer_total`."""
    lines = []
    began_s = 0.0
    records = size = 0
    latency = Histogram()
    for sample in samples:
        records += sample.records
        size += sample.bytes
        latency.merge(sample.latency)
        # Samples end approximately, not exactly, when they are due.
        if (elapsed_s := sample.t_s - began_s) >= interval_s * 0.99:
            lines.append(producer_line(records, size, elapsed_s, latency))
            began_s, records, size, latency = sample.t_s, 0, 0, Histogram()
    return lines


def producer_line(records: int, size_bytes: int, seconds: float, latency: Histogram) -> str:
    """Format a line that kafka-producer-perf-test prints while it runs."""
    mean_ms, max_ms = _mean_and_max(latency)
    return (
        f"{records} records sent, {records / seconds:.1f} records/sec ({size_bytes / seconds / MIB:.2f} MB/sec), "
        f"{mean_ms:.1f} ms avg latency, {max_ms:.1f} ms max latency."
    )


def producer_total(result: DriverResult) -> str:
    """Format the last line of kafka-producer-perf-test."""
    mean_ms, max_ms = _mean_and_max(result.latency)
    percentiles = ", ".join(
        f"{_percentile_ms(result.latency, percent):.2f} ms {name}"
        for percent, name in ((50, "50th"), (95, "95th"), (99, "99th"), (99.9, "99.9th"))
    )
    return (
        f"{result.records} records sent, {result.records / result.seconds:f} records/sec "
        f"({result.bytes / result.seconds / MIB:.2f} MB/sec), {mean_ms:.2f} ms avg latency, "
        f"{max_ms:.2f} ms max latency, {percentiles}."
    )


def consumer_row(started: datetime, records: int, size_bytes: int, seconds: float, rebalance_s: float = 0.0) -> str:
    """Format the row below CONSUMER_HEADER; `rebalance_s` is the part of `seconds` until partitions were assigned."""
    mib = size_bytes / MIB
    fetch_ms = round(seconds * 1000) - round(rebalance_s * 1000)
    fetch_s = max(fetch_ms, 1) / 1000
    return (
        f"{_moment(started)}, {_moment(started + timedelta(seconds=seconds))}, {mib:.4f}, {mib / seconds:.4f}, "
        f"{records}, {records / seconds:.4f}, {round(rebalance_s * 1000)}, {fetch_ms}, {mib / fetch_s:.4f}, "
        f"{records / fetch_s:.4f}"
    )


def _moment(moment: datetime) -> str:
    """Format as yyyy-MM-dd HH:mm:ss:SSS, the default of kafka-consumer-perf-test's --date-format."""
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03d}"


def _mean_and_max(latency: Histogram) -> tuple[float, float]:
    """Return mean and maximum in ms: NaN and 0, as Kafka's tools print, for an interval without a response."""
    return (latency.mean() / NS_PER_MS, latency.highest / NS_PER_MS) if latency.count else (float("nan"), 0.0)


def _percentile_ms(latency: Histogram, percent: float) -> float:
    return latency.percentile(percent) / NS_PER_MS if latency.count else float("nan")


def spending_table(runs: Sequence[Run]) -> Table:
    """Return the table of resource usage: a column for each run under load, a row for each figure of any run."""
    table = Table(title="Resource usage of the broker", title_justify="left")
    table.add_column("")
    shown = [run for run in runs if run.failed or any(name in run.figures for name in SPENT)]
    for run in shown:
        table.add_column(title(run), justify="right")
    for name in SPENT:
        if any(name in run.figures for run in shown):
            unit = describe(name).unit
            label = describe(name).label + (f" ({unit})" if unit else "")
            table.add_row(label, *(text(name, run.figures[name]) if name in run.figures else "" for run in shown))
    for run in runs:
        if run.failed:
            table.caption = f"{table.caption}\n" if table.caption else ""
            table.caption = f"{table.caption}{title(run)} failed: {run.failed}"
    return table


def pairs_table(pairs: Sequence[Pair]) -> Table:
    """Return the table of each ratio's median, interval and pairs."""
    table = Table(title="Ratios, pair by pair", title_justify="left")
    for column in ("", "ratio"):
        table.add_column(column)
    for column in ("median", "interval", "absolute (medians)", "pairs"):
        table.add_column(column, justify="right")
    for pair in pairs:
        label = describe(pair.metric).label + (f", {pair.label}" if pair.label else "")
        table.add_row(
            label,
            f"{pair.a} / {pair.b}",
            f"{pair.median:.3f}",
            interval_text(pair),
            sides(pair.metric, pair.a_value, pair.b_value),
            "  ".join(f"{ratio:.3f}" for ratio in pair.ratios),
        )
    notes = dict.fromkeys(pair.note for pair in pairs if pair.note)
    if notes:
        table.caption = "\n".join(notes)
    return table


def profiles_table(profiles: Sequence[Profile], most: int = 20) -> Table:
    """Return the table of the heaviest functions of all targets: share and, if known, CPU seconds per GB of each."""
    table = Table(title="Where the time goes: share of CPU, and CPU-s/GB", title_justify="left")
    table.add_column("function")
    table.add_column("module")
    for profile in profiles:
        table.add_column(profile.target, justify="right")
    found = [{(row.module, row.function): row for row in profile.functions} for profile in profiles]
    for module, function in heaviest(profiles)[:most]:
        cells = (profile_cell(rows.get((module, function))) for rows in found)
        table.add_row(escape(function), escape(module), *cells)
    table.add_row(f"functions after the first {TOP}", "", *(f"{profile.rest:.1%}" for profile in profiles))
    table.caption = "\n".join(
        f"{profile.target}: {profile.samples} samples of {profile.event} in {profile.seconds:.1f} s"
        + "".join(f"; {note}" for note in profile.notes)
        for profile in profiles
    )
    return table


def profile_cell(row: ProfileRow | None) -> str:
    """Format as `12.3%  0.041`; empty for a function that is not among a target's heaviest."""
    if row is None:
        return ""
    return f"{row.share:.1%}" + (f"  {row.cpu_s_per_gb:.3f}" if row.cpu_s_per_gb is not None else "")


def heaviest(profiles: Sequence[Profile], modules: bool = False) -> list[tuple[str, str]]:
    """Return (module, function) of all targets' functions or modules, sorted by the highest share in any target."""
    highest: dict[tuple[str, str], float] = {}
    for profile in profiles:
        for row in profile.modules if modules else profile.functions:
            key = (row.module, row.function)
            highest[key] = max(highest.get(key, 0.0), row.share)
    return sorted(highest, key=lambda key: -highest[key])


def warm_up_line(warm_up: WarmUp) -> str:
    """Describe the warm-up of a target, and whether it became steady."""
    shown = describe(warm_up.metric)
    last = f"{text(warm_up.metric, warm_up.values[-1])} {shown.unit}".rstrip() if warm_up.values else "nothing"
    end = "steady" if warm_up.steady else f"not steady within the limit of {warm_up.bound_s:g} s"
    name = f"{warm_up.target} {warm_up.label}".rstrip()
    return f"{name}: warmed up for {warm_up.seconds:.1f} s, {end}; {shown.label} of the last window: {last}"


def interval_text(pair: Pair) -> str:
    """Format as `0.412 to 0.455 (95%)`, or `none`."""
    if pair.interval is None:
        return "none"
    return f"{pair.interval[0]:.3f} to {pair.interval[1]:.3f} ({pair.confidence:.0%})"
