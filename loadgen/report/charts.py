"""The charts of a result (broker_cy/reporting/charts.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.measuring import hdr
from bench.report.measured import ladder
from broker_cy.reporting.charts import (
    Chart,
    Marking,
    Trace,
    Values,
    highest,
    hover,
    log_range,
    marked,
    mean,
    nines,
    percentile_axes,
    thinned,
)
from loadgen.figures.totals import SLACK_S
from loadgen.report.measured import Latencies
from loadgen.report.result import Event, Result

US_PER_MS = 1000
# Colours of series that are not operations begin here: multiples of the number of combinations of colour and dash of
# the page, above the number of operations (`METERS_MAX`).
ERRORS_FROM = 1800
DELAYS_FROM = 3600
# Errors with a colour of their own; the page has six colours.
ERRORS_MAX = 6
# Bars of the chart of errors: more would be thinner than a pixel.
BARS_MAX = 300
# Events that are closer than this share of the run share a mark, so that a chart has at most 20. The page hides labels
# that would overlap.
MARK_SHARE = 0.05
# Charts whose lines are chosen by the page's list, and its entries.
LATENCY, SERVICE = "latency, from the due time", "service time, from the sending"


@dataclass(frozen=True)
class Mark:
    """One or several events at about the same time. Marks are numbered from 1 in the order of the table."""

    second: float
    first: int
    events: tuple[Event, ...]

    @property
    def label(self) -> str:
        last = self.first + len(self.events) - 1
        return f"{self.first}" if last == self.first else f"{self.first}-{last}"


def marks(result: Result) -> list[Mark]:
    """Return the marks of the events."""
    near_s = MARK_SHARE * max(result.seconds, 1.0)
    found: list[Mark] = []
    for number, event in enumerate(result.events, 1):
        if found and event.second - found[-1].second < near_s:
            found[-1] = Mark(found[-1].second, found[-1].first, (*found[-1].events, event))
        else:
            found.append(Mark(event.second, number, (event,)))
    return found


def over_time(result: Result) -> list[Chart]:
    """Return rates, latencies, errors and queued operations by second."""
    if not result.series.t_s:
        return []
    drawn = [
        _timeline(result, "requests_per_s", "Operations per second", "Those that succeeded.", "/s", mean),
        _timeline(result, "p50_ms", "Latency p50 of each second (ms)", "From the due time.", "ms", highest),
        _timeline(result, "p99_ms", "Latency p99 of each second (ms)", "From the due time.", "ms", highest),
        _timeline(result, "max_ms", "Highest latency of each second (ms)", "From the due time.", "ms", highest),
        _errors(result),
        _queued(result),
    ]
    return [_marked(chart, result) for chart in drawn if chart is not None and chart.data]


def _timeline(
    result: Result, column: str, title: str, note: str, unit: str, how: Callable[[Values], float | None]
) -> Chart:
    # Answers after the end of the run have latencies, but are no part of a rate: their second would be a drop to 0.
    end = math.ceil(result.seconds - SLACK_S) if unit == "/s" else math.inf
    length = sum(second < end for second in result.series.t_s)
    data: list[Trace] = []
    for entity, (name, series) in enumerate(result.series.operations.items()):
        values: Values = getattr(series, column)[:length]
        if not any(value is not None for value in values):
            continue
        times, shown = thinned(result.series.t_s[:length], values, how)
        data.append(_line(times, shown, f"{hover(name)}<br>%{{x:g}} s: %{{y:,.4~g}} {unit}", entity))
    yaxis: dict[str, Any] = {"title": {"text": unit}}
    if unit == "ms":
        yaxis |= {"type": "log", **log_range([value for trace in data for value in trace["y"]])}
    else:
        yaxis["rangemode"] = "tozero"
    return Chart(f"time-{column}", title, note, data, {"xaxis": _seconds(result), "yaxis": yaxis})


def _line(x: Sequence[float], y: Values, text: str, entity: int) -> Trace:
    return {
        "type": "scatter", "mode": "lines" if len(x) > 1 else "markers", "x": list(x), "y": list(y),
        "line": {"width": 2}, "hovertemplate": f"{text}<extra></extra>", "meta": {"entity": entity, "label": None},
    }  # fmt: skip


def _seconds(result: Result) -> dict[str, Any]:
    last = max(result.seconds, result.series.t_s[-1])
    return {"title": {"text": "seconds since the run began"}, "range": [0, last * 1.01]}


def errors_over_time(result: Result) -> dict[str, dict[int, int]]:
    """Return the errors of all operations by name, the most frequent first: second -> count."""
    found: dict[str, dict[int, int]] = {}
    for series in result.series.operations.values():
        for name, counts in series.errors.items():
            of = found.setdefault(name, {})
            for second, count in counts:
                of[second] = of.get(second, 0) + count
    return dict(sorted(found.items(), key=lambda each: -sum(each[1].values())))


def error_names(result: Result) -> list[str]:
    """Return the entries of the legend of errors; the last one may be all others."""
    found = list(errors_over_time(result))
    return found if len(found) <= ERRORS_MAX else [*found[: ERRORS_MAX - 1], f"{len(found) - ERRORS_MAX + 1} others"]


def _errors(result: Result) -> Chart | None:
    found = errors_over_time(result)
    if not found:
        return None
    width = math.ceil(max(result.series.t_s[-1], 1) / BARS_MAX)
    names = error_names(result)
    bars: dict[str, dict[float, int]] = {name: {} for name in names}
    for name, counts in found.items():
        of = bars[name if name in bars else names[-1]]
        for second, count in counts.items():
            middle = (second - 1) // width * width + width / 2
            of[middle] = of.get(middle, 0) + count
    within = f"in {width} s" if width > 1 else "in this second"
    data: list[Trace] = [
        {
            "type": "bar", "x": sorted(of), "y": [of[at] for at in sorted(of)], "width": [0.9 * width] * len(of),
            "hovertemplate": f"{hover(name)}<br>%{{x:g}} s: %{{y:,}} {within}<extra></extra>",
            "meta": {"entity": ERRORS_FROM + number, "label": None},
        }
        for number, (name, of) in enumerate(bars.items())
    ]  # fmt: skip
    layout = {
        "barmode": "stack",
        "xaxis": _seconds(result),
        "yaxis": {"title": {"text": f"errors per {width} s" if width > 1 else "errors/s"}, "rangemode": "tozero"},
    }
    return Chart("time-errors", "Errors by name", "For all operations.", data, layout)


def _queued(result: Result) -> Chart | None:
    if not any(result.series.queued):
        return None
    times, shown = thinned(result.series.t_s, result.series.queued, highest)
    layout = {"xaxis": _seconds(result), "yaxis": {"title": {"text": "/s"}, "rangemode": "tozero"}}
    note = "Every user was busy when they became due. They keep their due time."
    data = [_line(times, shown, "%{x:g} s: %{y:,} operations", DELAYS_FROM)]
    return Chart("time-queued", "Operations that waited for a free user", note, data, layout)


def _marked(chart: Chart, result: Result) -> Chart:
    """Add the events: a vertical line each, with its number, or numbers, above the plot."""
    found = []
    for mark in marks(result):
        lines = [f"{event.second:.1f} s {hover(event.kind)}: {hover(event.text)}" for event in mark.events[:8]]
        found.append(Marking(mark.second, mark.label, "<br>".join(lines)))
    return marked(chart, found)


def by_percentile(result: Result) -> Chart | None:
    """Return latency and service time of each operation by percentile, on logarithmic axes; None without any."""
    lines = []
    for entity, (name, figures) in enumerate(result.operations.items()):
        for label, found in ((LATENCY, figures.latency), (SERVICE, figures.service)):
            if found is not None:
                lines.append(_curve(name, found, entity, label))
    note = "Lines end at the highest value. Failed operations are included."
    return _curves("percentiles", "Latency by percentile (ms, logarithmic)", note, lines)


def delays(result: Result) -> Chart | None:
    """Return the generator's own delays by percentile; None without any."""
    named = (("Lateness", result.lateness), ("Lag of the event loop", result.hub_lag))
    lines = [_curve(name, found, DELAYS_FROM + at, None) for at, (name, found) in enumerate(named) if found is not None]
    note = "Lateness: how much later than due an operation began although a user was free."
    return _curves("delays", "Delays of the generator by percentile (ms, logarithmic)", note, lines)


def _curve(name: str, found: Latencies, entity: int, label: str | None) -> Trace:
    percents = ladder(found.count)
    values = hdr.decode(found.hdr).get_percentile_to_value_dict(percents)
    return {
        "type": "scatter", "mode": "lines" if len(percents) > 1 else "markers",
        "x": [nines(percent, found.count) for percent in percents],
        "y": [values[percent] / US_PER_MS for percent in percents],
        "customdata": [f"{percent:.6g}" for percent in percents], "line": {"width": 2},
        "hovertemplate": f"{hover(name)}<br>p%{{customdata}}: %{{y:,.4~g}} ms<extra></extra>",
        "meta": {"entity": entity, "label": label},
    }  # fmt: skip


def _curves(name: str, title: str, note: str, data: list[Trace]) -> Chart | None:
    if not data:
        return None
    return Chart(name, title, note, data, percentile_axes(data), wide=True)
