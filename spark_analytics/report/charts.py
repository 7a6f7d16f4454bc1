"""The charts of a report (broker_cy/reporting/charts.py).

Lines have a start and a step instead of a time for each point. Each kind of line of each cluster has its own range of
colours, so that its buttons hide only the lines that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from broker_cy.admin.lag import Status
from broker_cy.reporting.charts import Chart, Marking, Trace, Values, hover, marked
from broker_cy.reporting.foreign_text import label
from broker_cy.reporting.numbers import minute, size_rate, unit_of_bytes
from spark_analytics.report import words
from spark_analytics.report.content import DAY_MS, HOUR_MS, MINUTE_MS, Anomaly, Cluster, Forecast, Group, Rates

# The page has six colours in three kinds of lines; a range has more than LINES_MAX + 1 of them.
_RANGE = 18
NODES, TOPICS, GROUPS, STATUSES, FORECASTS = range(5)
_KINDS = 5
# Numbers of the page's colours (broker_cy/reporting/assets/document.js): blue, orange, green, purple, ochre, grey.
STATUS_COLOURS = {
    Status.OK: 2, Status.UNKNOWN: 5, Status.WARN: 4, Status.REWOUND: 0, Status.STALLED: 3, Status.STOPPED: 1,
}  # fmt: skip
# Patterns that distinguish short bars for users who do not see colours, in the order of `page.css`'s swatches.
STATUS_PATTERNS = {
    Status.OK: "", Status.UNKNOWN: ".", Status.WARN: "/", Status.REWOUND: "\\", Status.STALLED: "-",
    Status.STOPPED: "x",
}  # fmt: skip
# Anomalies that are closer than this share of the time share a mark, because their numbers would overlap.
_MARK_SHARE = 0.04
_MARK_LINES = 6
_CPU_METRICS = ("cpu_share", "loop_lag_p99_us")
# The length of the history that is shown before a forecast.
_HISTORY_MS = 14 * 24 * HOUR_MS


@dataclass(frozen=True)
class Drawer:
    """Builds the charts of one cluster. `number` is its place in the report, `period_ms` the step of its lines."""

    cluster: Cluster
    number: int
    period_ms: int

    def entity(self, kind: int, at: int = 0) -> int:
        """Return the colour of a line."""
        return (self.number * _KINDS + kind) * _RANGE + at

    def _id(self, name: str) -> str:
        return f"c{self.number}-{name}"

    def throughput(self) -> list[Chart]:
        """Return the charts of brokers and topics; those of the brokers' input and CPU have the anomalies as marks,
        each in the chart that shows its cause.
        """
        inward = self._rates("node-in", "Bytes in by broker", NODES, lambda of: of.in_bytes_per_s)
        cpu = self._rates("node-cpu", "CPU by broker", NODES, lambda of: of.cpu_share, "cores")
        found = [
            marked(replace(inward, wide=True), self._marks(lambda of: of.metric not in _CPU_METRICS)),
            marked(replace(cpu, wide=True), self._marks(lambda of: of.metric in _CPU_METRICS)),
            self._rates("node-out", "Bytes out by broker", NODES, lambda of: of.out_bytes_per_s),
            self._rates("topic-in", "Bytes in by topic", TOPICS, lambda of: of.in_bytes_per_s),
            self._rates("topic-records", "Records by topic", TOPICS, lambda of: of.records_per_s, "records/s"),
            self._rates("topic-out", "Bytes out by topic", TOPICS, lambda of: of.out_bytes_per_s),
        ]
        return [each for each in found if each.data]

    def _rates(self, name: str, title: str, kind: int, of: Callable[[Rates], Values], unit: str = "B/s") -> Chart:
        lines = self.cluster.nodes if kind == NODES else self.cluster.topics
        length = 1
        if unit == "B/s":
            unit, length = _unit_of_bytes(value for each in lines for value in of(each))
        data = [
            self._line(each.name, _scaled(of(each), length), self.entity(kind, at), unit)
            for at, each in enumerate(lines)
            if any(value is not None for value in of(each))
        ]
        layout = {"xaxis": self._times(), "yaxis": _axis(unit)}
        return Chart(self._id(name), title, f"Mean of each {words.period(self.period_ms)}.", data, layout)

    def _line(self, name: str, values: Values, entity: int, unit: str) -> Trace:
        return {
            "type": "scatter", "mode": "lines" if _is_line(values) else "lines+markers", "x0": self.cluster.start_ms,
            "dx": self.period_ms, "y": _rounded(values), "connectgaps": False,
            "line": {"width": 1.75}, "marker": {"size": 5},
            "hovertemplate": f"{hover(name)}<br>%{{x|%Y-%m-%d %H:%M}}: %{{y:{_digits(unit)}}} {unit}<extra></extra>",
            "meta": {"entity": entity, "label": None},
        }  # fmt: skip

    def _times(self, until_ms: int | None = None, from_ms: int | None = None) -> dict[str, Any]:
        first = self.cluster.start_ms if from_ms is None else from_ms
        last = self.cluster.last_ms + self.period_ms // 2 if until_ms is None else until_ms
        return {"type": "date", "range": [at(first), at(max(last, first + self.period_ms))], "nticks": 7}

    def _marks(self, is_shown: Callable[[Anomaly], bool]) -> list[Marking]:
        """Return the marks of some anomalies; their numbers are those of the table."""
        near_ms = _MARK_SHARE * max(self.cluster.last_ms - self.cluster.start_ms, self.period_ms)
        groups: list[list[tuple[int, Anomaly]]] = []
        for number, each in enumerate(self.cluster.anomalies, 1):
            if each.start_ms < self.cluster.start_ms or not is_shown(each):
                continue
            if groups and each.start_ms - groups[-1][0][1].start_ms < near_ms:
                groups[-1].append((number, each))
            else:
                groups.append([(number, each)])
        found = []
        for group in groups:
            first, last = group[0][0], group[-1][0]
            texts = [f"{minute(each.start_ms)} {hover(each.words)}" for _, each in group[:_MARK_LINES]]
            if len(group) > _MARK_LINES:
                texts.append(f"and {len(group) - _MARK_LINES} more: see the table")
            between = "-" if last - first == len(group) - 1 else "…"
            label = f"{first}" if first == last else f"{first}{between}{last}"
            found.append(Marking(at(group[0][1].start_ms), label, "<br>".join(texts)))
        return found

    def lag(self) -> list[Chart]:
        """Return the lag of the worst groups in records and in time, and the strip of their statuses."""
        groups = [each for each in self.cluster.groups if each.points]
        if not groups:
            return []
        note = f"The highest of each {words.period(self.period_ms)}, over the partitions of a group"
        records, times = [], []
        for each in groups:
            records.append({point.at_ms: float(point.lag_records) for point in each.points})
            known = [point for point in each.points if point.time_lag_ms is not None]
            times.append({point.at_ms: float(point.time_lag_ms or 0) for point in known})
        unit, unit_ms = _unit(max((each for of in times for each in of.values()), default=0.0))
        times = [{at_ms: value / unit_ms for at_ms, value in of.items()} for of in times]
        return [
            self._strip(groups),
            self._lags("lag-records", "Lag in records", f"{note}: their sum.", "records", groups, records),
            self._lags("lag-time", "Lag in time", f"{note}, at most.", unit, groups, times),
        ]

    def _lags(
        self,
        name: str,
        title: str,
        note: str,
        unit: str,
        groups: Sequence[Group],
        lags: Sequence[dict[int, float]],
    ) -> Chart:
        grid = range(self.cluster.start_ms, self.cluster.last_ms + 1, self.period_ms)
        data = [
            self._line(group.name, [known.get(each) for each in grid], self.entity(GROUPS, at), unit)
            for at, (group, known) in enumerate(zip(groups, lags, strict=True))
        ]
        return Chart(self._id(name), title, note, data, {"xaxis": self._times(), "yaxis": _axis(unit)})

    def _strip(self, groups: Sequence[Group]) -> Chart:
        """Return the statuses of groups as bars over time, with their words where they have room."""
        rows = list(range(len(groups)))
        data: list[Trace] = []
        for status in sorted(Status):
            runs = [
                (row, start, end)
                for row, group in zip(rows, groups, strict=True)
                for start, end in self._runs(group, status)
            ]
            if not runs:
                continue
            data.append({
                "type": "bar", "orientation": "h", "y": [row for row, _, _ in runs], "width": 0.62,
                "base": [at(start) for _, start, _ in runs], "x": [end - start for _, start, end in runs],
                "text": [words.status(status)] * len(runs), "textposition": "inside", "insidetextanchor": "middle",
                "textangle": 0, "constraintext": "inside",
                "marker": {"pattern": {
                    "shape": STATUS_PATTERNS[status], "fillmode": "overlay", "fgopacity": 0.3, "size": 7,
                    "solidity": 0.2,
                }},
                "customdata": [
                    [hover(groups[row].name), minute(start), minute(end)] for row, start, end in runs
                ],
                "hovertemplate": f"%{{customdata[0]}}: {words.status(status)}<br>%{{customdata[1]}} to "
                "%{customdata[2]}<extra></extra>",
                "meta": {"entity": self.entity(STATUSES, STATUS_COLOURS[status]), "label": None},
            })  # fmt: skip
        layout = {
            "height": 84 + 30 * len(rows), "barmode": "overlay", "uniformtext": {"mode": "hide", "minsize": 10},
            "margin": {"l": 62, "r": 16, "t": 4, "b": 40},
            "xaxis": self._times(),
            "yaxis": {
                "tickvals": rows, "ticktext": [hover(label(group.name)) for group in groups],
                "range": [len(rows) - 0.5, -0.5], "automargin": True, "showgrid": False, "zeroline": False,
            },
        }  # fmt: skip
        note = (
            f"The worst that lasted for a quarter of the {words.period(self.period_ms)}; the table has the minutes."
            if self.period_ms > MINUTE_MS
            else "For each minute."
        )
        return Chart(self._id("status"), "Status of the worst groups", note, data, layout, wide=True)

    def _runs(self, group: Group, status: Status) -> list[tuple[int, int]]:
        """Return the times in which a group had a status."""
        found: list[tuple[int, int]] = []
        for point in group.points:
            if point.status != status:
                continue
            end = point.at_ms + self.period_ms
            if found and found[-1][1] == point.at_ms:
                found[-1] = (found[-1][0], end)
            else:
                found.append((point.at_ms, end))
        return found

    def forecasts(self) -> list[Chart]:
        """Return the charts of topics' traffic with its forecast."""
        known = {each.name: each.in_bytes_per_s for each in self.cluster.topics}
        return [
            self._forecast(number, each, known.get(each.topic, ()))
            for number, each in enumerate(self.cluster.forecasts)
            if each.start_ms is not None
        ]

    def _forecast(self, number: int, of: Forecast, known: Values) -> Chart:
        assert of.start_ms is not None
        unit, length = _unit_of_bytes([*known, *of.high])
        so_far = self._line(f"{of.topic}, so far", _scaled(known, length), self.entity(FORECASTS), unit)
        line = {"type": "scatter", "mode": "lines", "x0": of.start_ms, "dx": HOUR_MS}
        edge = line | {"line": {"width": 0}, "hoverinfo": "skip"}
        expected = f"%{{x|%Y-%m-%d %H:%M}}: %{{y:{_digits(unit)}}} {unit}, %{{customdata}}<extra></extra>"
        text = f"{hover(of.topic)}, expected<br>{expected}"
        bands = [f"{size_rate(low)} to {size_rate(high)}" for low, high in zip(of.low, of.high, strict=True)]
        meta = {"entity": self.entity(FORECASTS, 1), "label": None}
        band = {"entity": self.entity(FORECASTS, 1), "label": None}
        data = [
            edge | {"y": _rounded(_scaled(of.low, length)), "meta": band},
            edge | {"y": _rounded(_scaled(of.high, length)), "fill": "tonexty", "meta": band},
            so_far,
            line | {"y": _rounded(_scaled(of.expected, length)), "line": {"width": 1.75}, "customdata": bands,
                    "hovertemplate": text, "meta": meta},
        ]  # fmt: skip
        growth = "" if of.growth_per_day is None else f"Grows by {size_rate(of.growth_per_day)} a day. "
        if of.growth_per_day is not None and of.growth_per_day < 0:
            growth = f"Falls by {size_rate(-of.growth_per_day)} a day. "
        first = max(self.cluster.start_ms, self.cluster.last_ms - _HISTORY_MS)
        last = of.start_ms + len(of.expected) * HOUR_MS
        return Chart(
            self._id(f"forecast-{number}"), f"Bytes in of {label(of.topic)}",
            f"{growth}Backtest: {words.backtest(of.backtest)}.", data,
            {"xaxis": self._times(last, first), "yaxis": _axis(unit)},
        )  # fmt: skip


def at(ms: int) -> str:
    """Return a time for plotly: without a zone, so that it is shown unchanged, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _unit(most_ms: float) -> tuple[str, float]:
    """Return the unit of time in which a chart has small numbers, and its length in ms."""
    for unit, length_ms in (("d", DAY_MS), ("h", HOUR_MS), ("min", MINUTE_MS)):
        if most_ms >= 2 * length_ms:
            return unit, length_ms
    return "s", 1000


def _axis(unit: str) -> dict[str, Any]:
    return {"title": {"text": unit}, "rangemode": "tozero", "tickformat": _digits(unit)}


def _digits(unit: str) -> str:
    """Return the format of a unit's numbers: with k, M and so on if their unit is not chosen by their size."""
    return ".4~s" if unit in ("records", "records/s", "s") else ",.3~f"


def _unit_of_bytes(values: Iterable[float | None]) -> tuple[str, int]:
    """Return the unit of bytes a second in which a chart has small numbers, and its length."""
    unit, length = unit_of_bytes(max((value for value in values if value is not None), default=0.0))
    return f"{unit}/s", length


def _scaled(values: Values, length: int) -> Values:
    return [None if value is None else value / length for value in values]


def _rounded(values: Values) -> Values:
    """Return values with the number of digits that a screen shows."""
    return [None if value is None else float(f"{value:.4g}") for value in values]


def _is_line(values: Values) -> bool:
    """Return whether each value has a neighbour: a single value draws no line and is only visible with a marker."""
    known = [False, *(value is not None for value in values), False]
    return all(known[at - 1] or known[at + 1] for at, is_known in enumerate(known) if is_known)
