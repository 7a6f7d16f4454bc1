"""The choice of a range of time, as links: a range is in the address, so that a view can be shared."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from dashboard.collector.time_range import LIVE, RANGES
from dashboard.components.attributes import attributes
from dashboard.components.panel import page_path

LABELS = {"10m": "10 min, live", "1h": "1 h", "6h": "6 h", "1d": "1 day", "7d": "7 days"}


def ranges(cluster: str, page: str, selected: str, default: str = LIVE, **query: str) -> Component:
    """Return links to the same page with each range, and fields for any other range (assets/ranges.js).

    `default` is the range of the page if the address has none.
    """
    links: list[Component] = [
        html.A(
            LABELS[name],
            href=page_path(cluster, page, range="" if name == default else name, **query),
            **attributes({"aria-current": "true"} if (selected or default) == name else {}),
        )
        for name in RANGES
    ]
    return html.Nav(
        [*links, html.Span(className="range-other", **attributes({"data-range": selected if "-" in selected else ""}))],
        className="ranges",
        **attributes({"aria-label": "Range of time"}),
    )
