"""Text output: the columns of Kafka's own performance tools, and tables of the broker's resource usage and of pairs.

Texts and units are those of kafka-producer-perf-test and kafka-consumer-perf-test 4.3.1, so that numbers can be
compared: MB is 2^20 bytes there, and the producer reports every five seconds. There is one difference: the percentiles
of the producer's last line have two decimal places, where Kafka's clock has only whole milliseconds.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.table import Table

from bench.drivers.base import DriverResult, Sample
from bench.measuring.histogram import Histogram
from bench.measuring.perf import TOP
from bench.report.measured import NS_PER_MS
from bench.report.metrics import describe, sides, text
from bench.report.result import Pair, Profile, ProfileRow, Run, WarmUp, title
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN
from broker_cy.reporting.rich_tables import rich_table
from broker_cy.reporting.tone import Tone

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


def _label(name: str) -> str:
    shown = describe(name)
    return f"{shown.label} ({shown.unit})" if shown.unit else shown.label


def spending_table(runs: Sequence[Run]) -> Table:
    """Return the table of resource usage: a column for each run under load, a row for each figure of any run."""
    shown = [run for run in runs if run.failed or any(name in run.figures for name in SPENT)]
    columns = [Column[str]("figure", "", _label), *(_of_run(run, at) for at, run in enumerate(shown))]
    rows = [name for name in SPENT if any(name in run.figures for run in shown)]
    failed = [f"{title(run)} failed: {run.failed}" for run in runs if run.failed]
    return rich_table("Resource usage of the broker", columns, rows, notes=failed)


def _of_run(run: Run, at: int) -> Column[str]:
    def shown(name: str) -> str:
        return text(name, run.figures[name]) if name in run.figures else UNKNOWN

    return Column(f"run {at}", title(run), run.figures.get, Kind.COUNT, text=shown)


def pair_columns(document: str = "") -> list[Column[Pair]]:
    """Return the columns of ratios; the name of their document is shown if there are several."""
    return [
        Column("ratio", "Ratio", lambda pair: pair_text(pair, document)),
        Column(
            "median", "Median", lambda pair: pair.median, Kind.COUNT, text=lambda pair: f"{pair.median:.3f}",
            tone=lambda pair: Tone.NOTED,
        ),
        Column("interval", "Interval", lambda pair: pair.interval, Kind.COUNT, text=interval_text),
        Column(
            "sides", "Absolute (medians)", lambda pair: pair.a_value, Kind.COUNT,
            text=lambda pair: sides(pair.metric, pair.a_value, pair.b_value) or UNKNOWN,
        ),
        Column(
            "pairs", "Pairs", lambda pair: pair.ratios, Kind.COUNT,
            text=lambda pair: "  ".join(f"{ratio:.3f}" for ratio in pair.ratios),
        ),
    ]  # fmt: skip


def pair_text(pair: Pair, document: str = "") -> str:
    """Describe the sides of a ratio, and which direction is better."""
    metric = describe(pair.metric)
    better = {True: "higher is better", False: "lower is better", None: ""}[metric.higher_is_better]
    words = [document, metric.label, pair.label, f"{pair.a} / {pair.b}", better]
    return ", ".join(word for word in words if word)


def pairs_table(pairs: Sequence[Pair]) -> Table:
    """Return the table of each ratio's median, interval and pairs."""
    notes = dict.fromkeys(pair.note for pair in pairs if pair.note)
    return rich_table("Ratios, pair by pair", pair_columns(), pairs, notes=notes)


# A function of a profile: its module and its name; REST is the sum of those that are not listed.
Function = tuple[str, str]
REST: Function = ("", f"functions after the first {TOP}")


def profile_columns(profiles: Sequence[tuple[str, Profile]]) -> list[Column[Function]]:
    """Return the columns of functions: one for each named profile."""
    return [
        Column("function", "Function (share, CPU-s/GB)", lambda function: function[1]),
        Column("module", "Module", lambda function: function[0]),
        *(_of_profile(name, profile) for name, profile in profiles),
    ]


def _of_profile(name: str, profile: Profile) -> Column[Function]:
    found = {(row.module, row.function): row for row in profile.functions}

    def shown(function: Function) -> str:
        return f"{profile.rest:.1%}" if function == REST else profile_cell(found.get(function))

    return Column(name, name, found.get, Kind.COUNT, text=shown)


def profiles_table(profiles: Sequence[Profile], most: int = 20) -> Table:
    """Return the table of the heaviest functions of all targets: share and, if known, CPU seconds per GB of each."""
    columns = profile_columns([(profile.target, profile) for profile in profiles])
    notes = [
        f"{profile.target}: {profile.samples} samples of {profile.event} in {profile.seconds:.1f} s"
        + "".join(f"; {note}" for note in profile.notes)
        for profile in profiles
    ]
    return rich_table("Where the time goes", columns, [*heaviest(profiles)[:most], REST], notes=notes)


def profile_cell(row: ProfileRow | None) -> str:
    """Format as `12.3%  0.041`; unknown for a function that is not among a target's heaviest."""
    if row is None:
        return UNKNOWN
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
