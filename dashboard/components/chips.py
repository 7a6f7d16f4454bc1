"""Links to the variants of a page, such as brokers or kinds of events; one of them is current."""

from __future__ import annotations

from collections.abc import Iterable

from dash import html
from dash.development.base_component import Component

from dashboard.components.attributes import attributes


def chips(label: str, links: Iterable[tuple[str, str, bool]]) -> Component:
    """Return a navigation named `label` with links (text, path, whether it is current)."""
    found: list[Component] = []
    for text, path, is_current in links:
        found.append(html.A(text, href=path, **attributes({"aria-current": "true"} if is_current else {})))
    return html.Nav(found, className="ranges", **attributes({"aria-label": label}))
