"""The tables of a result's page; they are also the alternative to its charts for users who cannot see them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

from bench.report.measured import reported
from broker_cy.reporting.charts import highest, mean
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.measures import figure, milliseconds, part
from broker_cy.reporting.numbers import UNKNOWN, fixed, share
from broker_cy.reporting.tables import html
from broker_cy.reporting.tone import Tone
from loadgen.report.measured import Latencies, OperationFigures
from loadgen.report.result import DEFECTS, Check, Event, Partition, Result, ThresholdVerdict, Worker
from loadgen.run.search import Step
from loadgen.scenario.thresholds import bounds_text, value_text

# Rows of the table of seconds: each is some seconds of a longer run.
SECONDS_ROWS_MAX = 60
# Partitions without a defect that are shown; the JSON has all.
PARTITIONS_MAX = 50
EVENTS_ROWS_MAX = 500
# Examples of defects, and notes, that are shown.
TEXTS_MAX = 50
PERCENTILES = (
    ("p50", 50.0, "p50_ms"), ("p90", 90.0, "p90_ms"), ("p99", 99.0, "p99_ms"), ("p99.9", 99.9, "p999_ms"),
    ("p99.99", 99.99, "p9999_ms"),
)  # fmt: skip

R = TypeVar("R")


def _percentile(percent: float, field: str) -> Callable[[Latencies], float | None]:
    """Return a function of a percentile; a percentile with too few values is unknown."""
    return lambda found: getattr(found, field) if reported(percent, found.count) else None


def _bad(is_bad: Callable[[R], bool]) -> Callable[[R], Tone]:
    return lambda row: Tone.BAD if is_bad(row) else Tone.PLAIN


Operation = tuple[str, OperationFigures]
Delay = tuple[str, Latencies]


def _of_operation(column: Column[Latencies]) -> Column[Operation]:
    return column.of(lambda row: row[1].latency)


def _of_delay(column: Column[Latencies]) -> Column[Delay]:
    return column.of(lambda row: row[1])


_LATENCIES: tuple[Column[Latencies], ...] = (
    *(milliseconds(field, f"{name} ms", _percentile(percent, field)) for name, percent, field in PERCENTILES),
    milliseconds("max_ms", "max ms", lambda found: found.max_ms),
    milliseconds("mean_ms", "mean ms", lambda found: found.mean_ms),
)
_NAME: Column[Operation] = Column("operation", "Operation", lambda row: row[0])
OPERATIONS: tuple[Column[Operation], ...] = (
    _NAME,
    figure("requests_per_s", "/s", lambda row: row[1].requests_per_s, 1),
    figure("requests", "Succeeded", lambda row: row[1].requests),
    figure("records_per_s", "Records/s", lambda row: row[1].records_per_s, 1),
    figure("records", "Records", lambda row: row[1].records),
    figure("mb_per_s", "MB/s", lambda row: row[1].mb_per_s, 2),
    Column(
        "failed", "Failed", lambda row: row[1].failures + row[1].unsent, Kind.COUNT,
        text=lambda row: " + ".join(
            [fixed(row[1].failures), *([f"{fixed(row[1].unsent)} never sent"] if row[1].unsent else [])]
        ),
        tone=_bad(lambda row: bool(row[1].failures or row[1].unsent)),
    ),
    part("error_share", "Failed share", lambda row: row[1].error_share),
)  # fmt: skip
LATENCIES: tuple[Column[Operation], ...] = (
    _NAME,
    *(_of_operation(each) for each in _LATENCIES),
    milliseconds("service_p50_ms", "service p50 ms", lambda row: row[1].service.p50_ms if row[1].service else None),
    milliseconds("service_p99_ms", "service p99 ms", lambda row: row[1].service.p99_ms if row[1].service else None),
)
THRESHOLDS: tuple[Column[ThresholdVerdict], ...] = (
    Column("operation", "Operation", lambda row: row.threshold.operation or "run"),
    Column("metric", "Figure", lambda row: row.threshold.metric),
    Column("verdict", "Verdict", lambda row: "met" if row.is_met else "missed", tone=_bad(lambda row: not row.is_met)),
    Column(
        "value", "Measured", lambda row: row.value, Kind.COUNT,
        text=lambda row: "not measured" if row.value is None else value_text(row.threshold, row.value),
    ),
    Column("allowed", "Allowed", lambda row: bounds_text(row.threshold)),
)  # fmt: skip


def figures(result: Result) -> str:
    """Return rates and errors: a row for each operation."""
    return html("Rates by operation", OPERATIONS, result.operations.items())


def latencies(result: Result) -> str:
    """Return percentiles: a row for each operation."""
    return html("Latencies by operation", LATENCIES, result.operations.items())


def errors(result: Result) -> str:
    """Return a row for each error of each operation; empty without one."""
    columns: list[Column[tuple[str, str, int, float]]] = [
        Column("operation", "Operation", lambda row: row[0]),
        Column("error", "Error", lambda row: row[1]),
        Column("count", "Count", lambda row: row[2], Kind.COUNT),
        part("share", "Share", lambda row: row[3]),
    ]
    rows = [
        (name, error, count, count / (each.requests + each.failures))
        for name, each in result.operations.items()
        for error, count in each.errors.items()
    ]
    return html("Errors", columns, rows) if rows else ""


def delays(result: Result) -> str:
    """Return the percentiles of the generator's delays."""
    columns: list[Column[Delay]] = [
        Column("delay", "Delay", lambda row: row[0]),
        Column("values", "Values", lambda row: row[1].count, Kind.COUNT),
        *(_of_delay(each) for each in _LATENCIES),
    ]
    named = (("Lateness", result.lateness), ("Lag of the event loop", result.hub_lag))
    return html("Delays of the generator", columns, [(name, found) for name, found in named if found is not None])


def checks(result: Result) -> str:
    """Return the figures that the generator was judged by."""

    def text(value: float | None, unit: str) -> str:
        if value is None:
            return UNKNOWN
        return share(value) if unit == "share" else f"{value:,.3g} {unit}"

    def is_exceeded(row: Check) -> bool:
        return row.value is not None and row.value > row.most

    columns: list[Column[Check]] = [
        Column("check", "Check", lambda row: row.label),
        Column("verdict", "Verdict", lambda row: "exceeded" if is_exceeded(row) else "kept", tone=_bad(is_exceeded)),
        Column("value", "Measured", lambda row: row.value, Kind.COUNT, text=lambda row: text(row.value, row.unit)),
        Column("most", "At most", lambda row: row.most, Kind.COUNT, text=lambda row: text(row.most, row.unit)),
    ]
    return html("Was the generator the limit?", columns, result.generator.checks)


def thresholds(result: Result) -> str:
    """Return the thresholds and the measured values; empty if the scenario has none."""
    return html("Thresholds", THRESHOLDS, result.thresholds) if result.thresholds else ""


def steps(result: Result) -> str:
    """Return the rates that a search tried, in their order."""
    columns: list[Column[Step]] = [
        Column("rate", "Rate, /s", lambda row: f"{row.rate:,.6g}"),
        Column("verdict", "Verdict", lambda row: "bad" if row.why else "good", tone=_bad(lambda row: bool(row.why))),
        Column("why", "Why", lambda row: row.why),
        figure("reached", "Reached, /s", lambda row: row.reached, 1),
        milliseconds("latency_ms", "Latency ms", lambda row: row.latency_ms),
    ]
    return html("Rates of the search", columns, result.steps)


@dataclass(frozen=True)
class _Moment:
    """One operation in some seconds."""

    span: str
    operation: str
    rate: float | None
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    failed: int


def seconds(result: Result) -> str:
    """Return the series: a row for each operation and some seconds."""
    times = result.series.t_s
    step = math.ceil(len(times) / SECONDS_ROWS_MAX) or 1
    rows = []
    for start in range(0, len(times), step):
        some = slice(start, start + step)
        at = times[some]
        span = f"{at[0]}" if len(at) == 1 else f"{at[0]} to {at[-1]}"
        for name, each in result.series.operations.items():
            failed = sum(count for counts in each.errors.values() for when, count in counts if at[0] <= when <= at[-1])
            p50_ms, p99_ms, max_ms = (highest(column[some]) for column in (each.p50_ms, each.p99_ms, each.max_ms))
            rows.append(_Moment(span, name, mean(each.requests_per_s[some]), p50_ms, p99_ms, max_ms, failed))
    columns: list[Column[_Moment]] = [
        Column("second", "Second", lambda row: row.span),
        Column("operation", "Operation", lambda row: row.operation),
        figure("rate", "/s", lambda row: row.rate, 1),
        milliseconds("p50_ms", "p50 ms", lambda row: row.p50_ms),
        milliseconds("p99_ms", "p99 ms", lambda row: row.p99_ms),
        milliseconds("max_ms", "max ms", lambda row: row.max_ms),
        Column("failed", "Failed", lambda row: row.failed, Kind.COUNT),
    ]
    return html("The run over time", columns, [row for row in rows if row.rate or row.failed])


def events(result: Result) -> str:
    """Return the events, with the numbers that are above the charts; empty without any."""
    columns: list[Column[tuple[int, Event]]] = [
        Column("number", "Number", lambda row: row[0]),
        Column("second", "Second", lambda row: f"{row[1].second:.1f}"),
        Column("event", "Event", lambda row: row[1].kind),
        Column("text", "Details", lambda row: row[1].text),
    ]
    rows = list(enumerate(result.events[:EVENTS_ROWS_MAX], 1))
    if not rows:
        return ""
    left_out = result.events_left_out + len(result.events) - len(rows)
    note = f'<p class="muted">{left_out:,} later events are not shown.</p>' if left_out else ""
    return html("Events", columns, rows) + note


def workers(result: Result) -> str:
    """Return the processes that generated the load."""
    columns: list[Column[Worker]] = [
        Column("worker", "Worker", lambda row: row.index),
        Column("host", "Host", lambda row: row.host),
        Column("state", "State", lambda row: "complete" if row.lost is None else f"lost: {row.lost}"),
        Column("process", "Process", lambda row: row.pid, Kind.NUMBER),
        figure("cpu", "CPU, cores", lambda row: row.cpu_share, 2),
        Column("operations", "Operations", lambda row: row.requests, Kind.COUNT),
    ]
    return html("Workers", columns, result.workers, {"state": _state})


def _state(worker: Worker) -> str:
    if worker.lost is None:
        return "complete"
    return (
        f'<strong class="bad-text">lost</strong> after second {worker.last_second}: {escape(worker.lost)}; '
        f"{share(worker.missing_share)} of the load is missing"
    )


def verification(result: Result) -> str:
    """Return the findings of each partition, those with a defect first; empty if nothing was checked."""
    if result.verification is None:
        return '<p class="muted">The scenario does not ask for a check of the data.</p>'
    found = result.verification.partitions
    wrong = [each for each in found if each.defects]
    sound = [each for each in found if not each.defects]
    # Counts above 0 that are not defects.
    others = dict.fromkeys(name for each in found for name, count in each.counts.items() if count)
    titles = DEFECTS | {name: name.replace("_", " ") for name in others if name not in DEFECTS}
    columns: list[Column[Partition]] = [
        Column("partition", "Partition", lambda row: f"{row.topic}-{row.partition}"),
        Column(
            "verdict",
            "Verdict",
            lambda row: "wrong" if row.defects else "good",
            tone=_bad(lambda row: bool(row.defects)),
        ),
        *(_counts(name, title) for name, title in titles.items()),
    ]
    note = ""
    if len(sound) > PARTITIONS_MAX:
        note = f'<p class="muted">{len(sound) - PARTITIONS_MAX:,} further partitions have no defect.</p>'
    examples = [
        f"{DEFECTS.get(kind, kind)}: {example}"
        for each in wrong
        for kind, several in each.examples.items()
        for example in several
    ]
    notes = [f"{each.topic}-{each.partition}: {text}" for each in found for text in each.notes]
    listed = _list("Examples", examples) + _list("Limits of the check", notes)
    return html("Verification by partition", columns, [*wrong, *sound[:PARTITIONS_MAX]]) + note + listed


def _counts(name: str, title: str) -> Column[Partition]:
    def tone(row: Partition) -> Tone:
        return Tone.BAD if name in DEFECTS and row.counts.get(name) else Tone.PLAIN

    return Column(name, title, lambda row: row.counts.get(name), Kind.COUNT, tone=tone)


def _list(heading: str, texts: Sequence[str]) -> str:
    if not texts:
        return ""
    more = f"<li>and {len(texts) - TEXTS_MAX:,} more</li>" if len(texts) > TEXTS_MAX else ""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts[:TEXTS_MAX])
    return f'<h3 class="spaced">{heading}</h3><ul>{items}{more}</ul>'


def users(result: Result) -> str:
    """Return the kinds of users of the scenario."""

    def size(row: Mapping[str, Any]) -> str:
        payload = row["payload"]
        return f"{payload['size']:,} B" if payload["kind"] == "fixed" else payload["kind"]

    columns: list[Column[Mapping[str, Any]]] = [
        Column("name", "Users", lambda row: row["name"]),
        Column("kind", "Kind", lambda row: row["kind"]),
        Column("rate", "Rate", lambda row: row["rate"] or "as fast as possible"),
        Column("engine", "Engine", lambda row: row["engine"]),
        Column("values", "Values", size),
        Column("acks", "acks", lambda row: row["acks"]),
        Column("codec", "Codec", lambda row: row["codec"]),
        Column("count", "Number", lambda row: row["count"], Kind.COUNT),
        Column("records", "Records a request", lambda row: row["records"], Kind.COUNT),
    ]
    found = result.scenario["users"]
    return html("Users of the scenario", columns, found) if found else ""
