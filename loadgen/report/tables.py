"""The tables of a result's page; they are also the alternative to its charts for users who cannot see them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from bench.report.measured import reported
from broker_cy.reporting.charts import highest, mean
from broker_cy.reporting.numbers import UNKNOWN, fixed, precise, share
from broker_cy.reporting.tables import table
from loadgen.report.measured import Latencies
from loadgen.report.result import DEFECTS, Partition, Result

# Rows of the table of seconds: each is some seconds of a longer run.
SECONDS_ROWS_MAX = 60
# Partitions without a defect that are shown; the JSON has all.
PARTITIONS_MAX = 50
EVENTS_ROWS_MAX = 500
# Examples of defects, and notes, that are shown.
TEXTS_MAX = 50
PERCENTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99))


def percentiles(found: Latencies | None) -> list[str]:
    """Return the cells of PERCENTILES, highest and mean; a percentile with too few values is left out."""
    if found is None:
        return [UNKNOWN] * (len(PERCENTILES) + 2)
    values = (found.p50_ms, found.p90_ms, found.p99_ms, found.p999_ms, found.p9999_ms)
    cells = [
        precise(value if reported(at, found.count) else None)
        for value, (_, at) in zip(values, PERCENTILES, strict=True)
    ]
    return [*cells, precise(found.max_ms), precise(found.mean_ms)]


def figures(result: Result) -> str:
    """Return rates and errors: a row for each operation."""
    rows = []
    for name, each in result.operations.items():
        failed = fixed(each.failures) + (f" + {fixed(each.unsent)} never sent" if each.unsent else "")
        rows.append([
            escape(name), fixed(each.requests_per_s, 1), fixed(each.requests), fixed(each.records_per_s, 1),
            fixed(each.records), fixed(each.mb_per_s, 2),
            f'<strong class="bad-text">{failed}</strong>' if each.failures or each.unsent else failed,
            share(each.error_share),
        ])  # fmt: skip
    heads = ("Operation", "/s", "Succeeded", "Records/s", "Records", "MB/s", "Failed", "Failed share")
    return table("Rates by operation", heads, rows)


def latencies(result: Result) -> str:
    """Return percentiles: a row for each operation."""
    rows = []
    for name, each in result.operations.items():
        service = [precise(each.service.p50_ms), precise(each.service.p99_ms)] if each.service else [UNKNOWN, UNKNOWN]
        rows.append([escape(name), *percentiles(each.latency), *service])
    heads = ("Operation", *(f"{name} ms" for name, _ in PERCENTILES), "max ms", "mean ms")
    return table("Latencies by operation", (*heads, "service p50 ms", "service p99 ms"), rows)


def errors(result: Result) -> str:
    """Return a row for each error of each operation; empty without one."""
    rows = [
        [escape(name), escape(error), fixed(count), share(count / (each.requests + each.failures))]
        for name, each in result.operations.items()
        for error, count in each.errors.items()
    ]
    return table("Errors", ("Operation", "Error", "Count", "Share"), rows, texts=2) if rows else ""


def delays(result: Result) -> str:
    """Return the percentiles of the generator's delays."""
    named = (("Lateness", result.lateness), ("Lag of the event loop", result.hub_lag))
    rows = [[name, fixed(found.count), *percentiles(found)] for name, found in named if found is not None]
    heads = ("Delay", "Values", *(f"{name} ms" for name, _ in PERCENTILES), "max ms", "mean ms")
    return table("Delays of the generator", heads, rows)


def checks(result: Result) -> str:
    """Return the figures that the generator was judged by."""

    def text(value: float | None, unit: str) -> str:
        if value is None:
            return UNKNOWN
        return share(value) if unit == "share" else f"{value:,.3g} {unit}"

    rows = []
    for each in result.generator.checks:
        exceeded = each.value is not None and each.value > each.most
        value = text(each.value, each.unit)
        rows.append([
            escape(each.label), '<strong class="bad-text">exceeded</strong>' if exceeded else "kept",
            value, text(each.most, each.unit),
        ])  # fmt: skip
    return table("Was the generator the limit?", ("Check", "Verdict", "Measured", "At most"), rows, texts=2)


def thresholds(result: Result) -> str:
    """Return the thresholds and the measured values; empty if the scenario has none."""
    rows = []
    for each in result.thresholds:
        least, most = each.threshold.least, each.threshold.most
        bounds = [f"at least {least:,.6g}" if least is not None else ""]
        bounds.append(f"at most {most:,.6g}" if most is not None else "")
        rows.append([
            escape(each.threshold.operation or "run"), escape(each.threshold.metric),
            "met" if each.is_met else '<strong class="bad-text">missed</strong>',
            "not measured" if each.value is None else f"{each.value:,.6g}",
            " and ".join(filter(None, bounds)),
        ])  # fmt: skip
    heads = ("Operation", "Figure", "Verdict", "Measured", "Allowed")
    return table("Thresholds", heads, rows, texts=3) if rows else ""


def steps(result: Result) -> str:
    """Return the rates that a search tried, in their order; empty without a search."""
    rows = [
        [
            f"{each.rate:,.6g}", '<strong class="bad-text">bad</strong>' if each.why else "good", escape(each.why),
            fixed(each.reached, 1), precise(each.latency_ms),
        ]
        for each in result.steps
    ]  # fmt: skip
    return table("Rates of the search", ("Rate, /s", "Verdict", "Why", "Reached, /s", "Latency ms"), rows, texts=3)


def seconds(result: Result) -> str:
    """Return the series: a row for each operation and some seconds."""
    times = result.series.t_s
    step = math.ceil(len(times) / SECONDS_ROWS_MAX) or 1
    rows = []
    for start in range(0, len(times), step):
        part = slice(start, start + step)
        at = times[part]
        for name, each in result.series.operations.items():
            failed = sum(count for counts in each.errors.values() for when, count in counts if at[0] <= when <= at[-1])
            columns = (each.p50_ms, each.p99_ms, each.max_ms)
            values = (mean(each.requests_per_s[part]), *(highest(column[part]) for column in columns))
            if values[0] or failed:
                span = f"{at[0]}" if len(at) == 1 else f"{at[0]} to {at[-1]}"
                rows.append([span, escape(name), fixed(values[0], 1), *map(precise, values[1:]), fixed(failed)])
    heads = ("Second", "Operation", "/s", "p50 ms", "p99 ms", "max ms", "Failed")
    return table("The run over time", heads, rows, texts=2)


def events(result: Result) -> str:
    """Return the events, with the numbers that are above the charts; empty without any."""
    rows = [
        [str(at), f"{each.second:.1f}", escape(each.kind), escape(each.text)]
        for at, each in enumerate(result.events[:EVENTS_ROWS_MAX], 1)
    ]
    if not rows:
        return ""
    left_out = result.events_left_out + len(result.events) - len(rows)
    note = f'<p class="muted">{left_out:,} later events are not shown.</p>' if left_out else ""
    return table("Events", ("Number", "Second", "Event", "What happened"), rows, texts=4) + note


def workers(result: Result) -> str:
    """Return the processes that generated the load."""
    rows = []
    for each in result.workers:
        state = "complete"
        if each.lost is not None:
            state = (
                f'<strong class="bad-text">lost</strong> after second {each.last_second}: {escape(each.lost)}; '
                f"{share(each.missing_share)} of the load is missing"
            )
        rows.append([
            str(each.index), escape(each.host), state, str(each.pid), f"{each.cpu_share:.2f}", fixed(each.requests)
        ])  # fmt: skip
    return table("Workers", ("Worker", "Host", "State", "Process", "CPU, cores", "Operations"), rows, texts=3)


def verification(result: Result) -> str:
    """Return the findings of each partition, those with a defect first; empty if nothing was checked."""
    if result.verification is None:
        return '<p class="muted">The scenario does not ask for a check of the data.</p>'
    found = result.verification.partitions
    wrong = [each for each in found if each.defects]
    sound = [each for each in found if not each.defects]
    shown = [*wrong, *sound[:PARTITIONS_MAX]]
    # Counts above 0 that are not defects.
    others = list(dict.fromkeys(name for each in found for name, count in each.counts.items() if count))
    others = [name for name in others if name not in DEFECTS]
    heads = ("Partition", "Verdict", *(DEFECTS[name] for name in DEFECTS), *(name.replace("_", " ") for name in others))
    rows = [_partition(each, [*DEFECTS, *others]) for each in shown]
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
    return table("Verification by partition", heads, rows, texts=2) + note + listed


def _list(heading: str, texts: Sequence[str]) -> str:
    if not texts:
        return ""
    more = f"<li>and {len(texts) - TEXTS_MAX:,} more</li>" if len(texts) > TEXTS_MAX else ""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts[:TEXTS_MAX])
    return f'<h3 class="spaced">{heading}</h3><ul>{items}{more}</ul>'


def _partition(each: Partition, names: Sequence[str]) -> list[str]:
    cells = []
    for name in names:
        count = each.counts.get(name)
        text = UNKNOWN if count is None else f"{count:,}"
        cells.append(f'<strong class="bad-text">{text}</strong>' if count and name in DEFECTS else text)
    verdict = '<strong class="bad-text">wrong</strong>' if each.defects else "good"
    return [f"{escape(each.topic)}-{each.partition}", verdict, *cells]


def users(result: Result) -> str:
    """Return the kinds of users of the scenario."""
    rows = []
    for each in result.scenario["users"]:
        payload = each["payload"]
        size = f"{payload['size']:,} B" if payload["kind"] == "fixed" else payload["kind"]
        rows.append([
            escape(each["name"]), escape(each["kind"]), escape(each["rate"] or "as fast as possible"),
            escape(each["engine"]), escape(size), escape(each["acks"]), escape(each["codec"]), fixed(each["count"]),
            fixed(each["records"]),
        ])  # fmt: skip
    heads = ("Users", "Kind", "Rate", "Engine", "Values", "acks", "Codec", "Number", "Records a request")
    return table("Users of the scenario", heads, rows, texts=7) if rows else ""


def settings(values: Mapping[str, Any], caption: str) -> str:
    """Return names and values; the names of nested ones are joined by dots."""
    rows = [(escape(name), value) for name, value in _flat(values)]
    return table(caption, ("Setting", "Value"), rows, texts=2)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
            for at, each in enumerate(value):
                yield from _flat(each if isinstance(each, Mapping) else {"": each}, f"{key}[{at}].")
        else:
            yield key, _text(value)


def _text(value: Any) -> str:
    if value is None or value == "" or value in ({}, [], ()):
        return '<span class="muted">none</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return escape(", ".join(str(each) for each in value))
    shown = escape(str(value))
    return f"<code>{shown}</code>" if len(shown) > 40 else shown
