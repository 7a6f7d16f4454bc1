"""The charts of a report (broker_cy/reporting/charts.py)."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from bench.measuring import hdr
from bench.report.columns import pair_text
from bench.report.html.entities import Entity, labels
from bench.report.measured import ladder
from bench.report.metrics import describe
from bench.report.result import Document, Latencies, Run
from broker_cy.reporting.charts import (
    Chart,
    Trace,
    Values,
    highest,
    hover,
    log_range,
    mean,
    nines,
    percentile_axes,
    thinned,
)

MOST_RATIO_ROWS = 40  # of the chart of pairs; its table has all rows
US_PER_MS = 1000


def over_time(found: Sequence[Entity]) -> list[Chart]:
    """Return throughput, latency, CPU and memory over a window: a line for each run; no charts without data."""
    charts = [
        _timeline(found, "records_per_s", "Throughput (records/s)", "records/s", mean),
        _timeline(found, "mb_per_s", "Throughput (MB/s)", "MB/s", mean),
        _timeline(found, "consumed_mb_per_s", "Throughput consumed beside producers (MB/s)", "MB/s", mean),
        _timeline(found, "p50_ms", "Latency p50 of each interval (ms)", "ms", highest, log=True),
        _timeline(found, "p99_ms", "Latency p99 of each interval (ms)", "ms", highest, log=True),
        _timeline(found, "broker_cores", "CPU of the broker (cores)", "cores", mean),
        _timeline(found, "rss_mb", "Resident memory of the broker (MB)", "MB", highest),
    ]
    return [chart for chart in charts if chart.data]


def _timeline(
    found: Sequence[Entity],
    column: str,
    title: str,
    unit: str,
    how: Callable[[Values], float | None],
    log: bool = False,
) -> Chart:
    data: list[Trace] = []
    for entity in found:
        for run in entity.runs:
            values: Values = getattr(run.series, column)
            if not any(value is not None for value in values):
                continue
            times, shown = thinned(run.series.t_s, values, how)
            repeats = len(entity.labelled(run.label))
            data.append({
                "type": "scatter", "mode": "lines" if len(times) > 1 else "markers", "x": times, "y": shown,
                "line": {"width": 2 if repeats == 1 else 1.25}, "opacity": 1 if repeats == 1 else 0.65,
                "hovertemplate": f"{hover(_name(entity, run))}<br>%{{x:.2f}} s: %{{y:,.4~g}} {unit}<extra></extra>",
                "meta": {"entity": entity.index, "label": run.label},
            })  # fmt: skip
    yaxis: dict[str, Any] = {"title": {"text": unit}}
    if log:
        yaxis |= {"type": "log", **log_range([value for trace in data for value in trace["y"]])}
    else:
        yaxis["rangemode"] = "tozero"
    layout = {"xaxis": {"title": {"text": "seconds since the window began"}, "rangemode": "tozero"}, "yaxis": yaxis}
    return Chart(f"time-{column}", title, "A line for each run.", data, layout)


def _name(entity: Entity, run: Run) -> str:
    label = f" {run.label}" if run.label else ""
    return f"{entity.name}{label}, pair {run.pair + 1}"


def percentiles(found: Sequence[Entity], which: str, title: str) -> Chart | None:
    """Return latency by percentile, on logarithmic axes, with merged repeats of each entity; None without data."""
    data: list[Trace] = []
    for entity in found:
        for label in entity.labels:
            parts = [part for run in entity.labelled(label) if (part := getattr(run, which)) is not None]
            curve = merged_curve(parts)
            if not curve:
                continue
            count = sum(part.count for part in parts)
            name = hover(f"{entity.name}{' ' + label if label else ''}")
            data.append({
                "type": "scatter", "mode": "lines", "x": [nines(percent, count) for percent, _ in curve],
                "y": [ms for _, ms in curve], "customdata": [f"{percent:.6g}" for percent, _ in curve],
                "line": {"width": 2},
                "hovertemplate": f"{name}<br>p%{{customdata}}: %{{y:,.4~g}} ms<extra></extra>",
                "meta": {"entity": entity.index, "label": label},
            })  # fmt: skip
    if not data:
        return None
    note = "Measured from the time a request was due. Repeats are merged into one histogram; lines end at the maximum."
    return Chart(f"percentiles-{which}", title, note, data, percentile_axes(data), wide=True)


def merged_curve(parts: Sequence[Latencies]) -> list[tuple[float, float]]:
    """Return (percent, ms) of several histograms, merged exactly."""
    held = [part for part in parts if part.count]
    if len(held) <= 1:
        return [(percent, ms) for part in held for percent, ms in part.percentiles]
    whole = hdr.merged(part.hdr for part in held)
    percents = ladder(whole.get_total_count())
    values = whole.get_percentile_to_value_dict(percents)
    return [(percent, values[percent] / US_PER_MS) for percent in percents]


def by_label(found: Sequence[Entity]) -> list[Chart]:
    """Return the main figures by label, if runs have labels (a matrix, numbers of connections)."""
    names = labels(found)
    if len(names) < 2:
        return []
    charts = []
    for metric in ("mb_per_s", "records_per_s", "p99_ms", "cpu_s_per_gb", "rss_mb", "start_s", "recovery_s"):
        data = [trace for entity in found if (trace := _points(entity, metric, names))]
        if not data:
            continue
        shown = describe(metric)
        title = f"{shown.label} ({shown.unit})"
        yaxis = {"title": {"text": shown.unit}, "type": "log", **log_range([y for trace in data for y in trace["y"]])}
        layout = {
            "xaxis": {"type": "category", "categoryorder": "array", "categoryarray": names, "automargin": True},
            "yaxis": yaxis,
        }
        charts.append(Chart(f"label-{metric}", title, "Median of the repeats.", data, layout))
    return charts


def _points(entity: Entity, metric: str, names: Sequence[str]) -> Trace | None:
    x, y = [], []
    for label in names:
        values = [run.figures[metric] for run in entity.labelled(label) if metric in run.figures]
        if values and statistics.median(values) > 0:
            x.append(label)
            y.append(statistics.median(values))
    if not x:
        return None
    unit = describe(metric).unit
    return {
        "type": "scatter", "mode": "lines+markers", "x": x, "y": y, "line": {"width": 1.5}, "marker": {"size": 8},
        "hovertemplate": f"{hover(entity.name)}<br>%{{x}}: %{{y:,.4~g}} {unit}<extra></extra>",
        "meta": {"entity": entity.index, "label": None},
    }  # fmt: skip


def ratios(documents: Sequence[tuple[str, Document]]) -> Chart | None:
    """Return each ratio's pairs, median and interval on a logarithmic axis; None if nothing was compared."""
    rows = [
        (pair_text(pair, name if len(documents) > 1 else ""), pair)
        for name, document in documents
        for pair in document.pairs
    ][:MOST_RATIO_ROWS]
    rows = [(text, pair) for text, pair in rows if pair.median > 0]
    if not rows:
        return None
    data: list[Trace] = []
    spread: list[float] = [1.0]
    for place, (text, pair) in enumerate(rows):
        spread += [value for value in [*pair.ratios, *(pair.interval or ())] if value > 0]
        row = {"type": "scatter", "meta": {"entity": None, "label": None}}
        if pair.interval is not None:
            data.append(row | {
                "mode": "lines", "x": list(pair.interval), "y": [place, place], "line": {"width": 5}, "opacity": 0.35,
                "hoverinfo": "skip",
            })  # fmt: skip
        data.append(row | {
            "mode": "markers", "x": list(pair.ratios), "y": [place] * len(pair.ratios),
            "marker": {"size": 7, "symbol": "circle-open", "line": {"width": 1.25}},
            "customdata": list(range(1, len(pair.ratios) + 1)),
            "hovertemplate": f"{hover(text)}<br>pair %{{customdata}}: %{{x:.3f}}<extra></extra>",
        })  # fmt: skip
        data.append(row | {
            "mode": "markers+text", "x": [pair.median], "y": [place], "marker": {"size": 12, "symbol": "diamond"},
            "text": [f"{pair.median:.2f}"], "textposition": "top center", "cliponaxis": False,
            "hovertemplate": f"{hover(text)}<br>median %{{x:.3f}}<extra></extra>",
        })  # fmt: skip
    xaxis = {"title": {"text": "ratio (logarithmic)"}, "type": "log", **log_range(spread)}
    xaxis["ticktext"] = [f"{tick:g}x" for tick in xaxis["tickvals"]]
    layout = {
        "height": 110 + 52 * len(rows),
        "xaxis": xaxis,
        "yaxis": {
            "tickvals": list(range(len(rows))),
            "ticktext": ["<br>".join(hover(text).rsplit(", ", 2)) for text, _ in rows],
            "range": [len(rows) - 0.4, -0.75], "automargin": True, "showgrid": False, "zeroline": False,
        },
        "shapes": [{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": {"width": 1.5}}],
    }  # fmt: skip
    note = "Circles: pairs. Diamond: their median. Bar: its interval. At 1x both are equal."
    return Chart("ratios", "Ratios, pair by pair", note, data, layout, wide=True)
