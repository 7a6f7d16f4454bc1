"""The building blocks of every report page: charts, tables, cards and legends, without their content.

`page.css` and `page.js` draw them; `parts.css` and `parts.js` are for pages with tables and legends beside charts. This
module only needs Python's standard library.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

Trace = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """One picture; `data` and `layout` are plotly's. See `bench.report.html.charts` for `meta` of a trace."""

    id: str
    title: str
    note: str
    data: list[Trace]
    layout: dict[str, Any]
    wide: bool = False

    def figure(self) -> dict[str, Any]:
        """Return the figure that the page draws."""
        return {"id": self.id, "data": self.data, "layout": self.layout}


def resource(name: str, package: str = "bench.report.html") -> str:
    """Return the text of a stylesheet or script of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def script_json(value: Any) -> str:
    """Return JSON that cannot end the script element that contains it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


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


def section(heading: str, inner: str) -> str:
    """Return a section under its heading; `inner` is HTML."""
    return f"<section><h2>{escape(heading)}</h2>{inner}</section>"


def card(chart: Chart, legend: str = "") -> str:
    """Return the place of a chart, with its title, its note and its legend (HTML)."""
    height = chart.layout.get("height")
    style = f' style="height:{height}px"' if height else ""
    return (
        f'<figure class="card{" wide" if chart.wide else ""}"><figcaption><h3>{escape(chart.title)}</h3>'
        f'<p class="muted">{escape(chart.note)}</p>{legend}</figcaption>'
        f'<div class="plot" id="{chart.id}" role="img" aria-label="{escape(chart.title)}"{style}></div></figure>'
    )


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> str:
    """Return a table that scrolls on its own; the first `texts` columns are left-aligned. Cells are HTML."""
    head = "".join(
        f'<th scope="col"{"" if at < texts else " class=number"}>{escape(name)}</th>' for at, name in enumerate(heads)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{cell}</th>' if at == 0 else f"<td{'' if at < texts else ' class=number'}>{cell}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="card scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f'<caption class="unseen">{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )
