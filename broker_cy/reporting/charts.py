"""Charts as plotly figures in plain dictionaries. The script of the page (assets/document.js) knows the theme, and adds
the colours.

Each trace has `meta`: {"entity": index of its colour, "label": the choice of the page that shows it (null: always)}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

# Points of one line: the resolution of a screen.
POINTS_MAX = 2000
Trace = dict[str, Any]
Values = Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """One picture; `data` and `layout` are plotly's. The module describes `meta` of a trace."""

    id: str
    title: str
    note: str
    data: list[Trace]
    layout: dict[str, Any]
    wide: bool = False

    def figure(self) -> dict[str, Any]:
        """Return the figure that the page draws."""
        return {"id": self.id, "data": self.data, "layout": self.layout}


def hover(text: str) -> str:
    """Escape a text for plotly, which would otherwise interpret tags and %{...} in it."""
    return escape(text).replace("%{", "%&#123;")


def log_range(values: Sequence[float | None]) -> dict[str, Any]:
    """Return range and ticks of a log axis for the positive values: ticks at 1, 2 and 5, or 1 only, of each decade."""
    known = [value for value in values if value is not None and value > 0]
    if not known:
        return {}
    low, high = math.log10(min(known)), math.log10(max(known))
    room = max(0.08 * (high - low), 0.06)
    steps = (1, 2, 5) if high - low < 3 else (1,)
    ticks = [step * 10.0**power for power in range(math.floor(low) - 1, math.ceil(high) + 2) for step in steps]
    return {"range": [low - room, high + room], "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def mean(values: Values) -> float | None:
    """Return the mean of the known values."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def highest(values: Values) -> float | None:
    """Return the highest of the known values."""
    return max((value for value in values if value is not None), default=None)


def thinned(
    times: Sequence[float], values: Values, how: Callable[[Values], float | None]
) -> tuple[list[float], Values]:
    """Reduce to at most POINTS_MAX points: `how` of each group of adjacent points, at the end of the group."""
    step = math.ceil(len(times) / POINTS_MAX) or 1
    groups = range(0, len(times), step)
    ends = [times[min(start + step, len(times)) - 1] for start in groups]
    return ends, [how(values[start : start + step]) for start in groups]


def percentile_axes(curves: Sequence[Trace]) -> dict[str, Any]:
    """Return the axes of curves of milliseconds over 1 / (1 - percentile)."""
    top = max(max(curve["x"]) for curve in curves)
    decades = range(1, max(2, math.ceil(math.log10(top)) + 1))
    return {
        # On telephones the labels are turned: the margin grows with them, so that they do not cover the title.
        "xaxis": {
            "title": {"text": "percentile, by 1 / (1 - p)"}, "type": "log", "automargin": True,
            "range": [0, math.log10(top) + 0.05],
            "tickvals": [1, 2, *(10**power for power in decades)],
            "ticktext": ["0%", "50%", *(percent_text(power) for power in decades)],
        },
        "yaxis": {"title": {"text": "ms"}, "type": "log", **log_range([ms for curve in curves for ms in curve["y"]])},
    }  # fmt: skip


def percent_text(count: int) -> str:
    """Format a number of nines as 90%, 99%, 99.9%, ..."""
    return f"{100 - 10.0 ** (2 - count):.{max(0, count - 2)}f}%"


def nines(percent: float, count: int) -> float:
    """Return a percentile's place on the axis; the highest of n values is at the place where 1/n of them remains."""
    return min(count, 1 / (1 - percent / 100)) if percent < 100 else float(max(count, 1))


@dataclass(frozen=True)
class Marking:
    """A mark of a chart over time: its place on the x axis, its label, and its text (plotly's HTML)."""

    at: float | str
    label: str
    text: str


def marked(chart: Chart, found: Sequence[Marking]) -> Chart:
    """Add marks: a vertical line each, with its label above the plot."""
    if not found:
        return chart
    above: Trace = {
        "type": "scatter", "mode": "text+markers", "x": [mark.at for mark in found], "y": [1] * len(found),
        "yaxis": "y2", "text": [mark.label for mark in found], "textposition": "top center", "cliponaxis": False,
        "marker": {"size": 7, "symbol": "triangle-down"}, "customdata": [mark.text for mark in found],
        "hovertemplate": "%{customdata}<extra></extra>", "meta": {"entity": None, "label": None},
    }  # fmt: skip
    layout = {
        **chart.layout,
        "margin": {"l": 62, "r": 16, "t": 30, "b": 48},
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        "shapes": [
            {
                "type": "line", "x0": mark.at, "x1": mark.at, "yref": "paper", "y0": 0, "y1": 1,
                "line": {"width": 1, "dash": "dot"},
            }
            for mark in found
        ],
    }  # fmt: skip
    return Chart(chart.id, chart.title, chart.note, [*chart.data, above], layout, chart.wide)
