"""The frame around every page: skip link, header with clusters and account, navigation, main part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dash import html
from dash.development.base_component import Component

from dashboard.collector.names import Names
from dashboard.components.attributes import attributes
from dashboard.components.panel import page_path

if TYPE_CHECKING:
    from dashboard.context import Context

# assets/palette.js asks this channel for topics and groups.
_PALETTE = {"data-palette": Names.name, "aria-haspopup": "dialog", "aria-keyshortcuts": "Control+K Meta+K"}


def shell(
    context: Context,
    cluster: str,
    page: str,
    title: str,
    content: Sequence[Component],
    *,
    crumbs: Sequence[tuple[str, str]] = (),
    actions: Sequence[Component] = (),
) -> Component:
    """Return a page. `crumbs` are (text, path) above it; `actions` are buttons beside its title."""
    hub = context.hubs.get(cluster)
    environment = "" if hub is None else hub.environment
    facts = {"cluster": cluster, "page": page, **context.viewer_facts(cluster)}
    return html.Div(
        [
            html.A("Skip to the content", href="#content", className="skip"),
            html.Header(
                [
                    html.A("broker-dash", href=page_path(cluster, "overview"), className="brand"),
                    _clusters(context, cluster, page),
                    html.Div(className="head-space"),
                    html.Span(className="live", role="status", **attributes({"data-live": ""})),
                    html.Button("Search …", type="button", className="quiet", **attributes(_PALETTE)),
                    html.Button("Times", type="button", className="quiet", **attributes({"data-zone-toggle": ""})),
                    html.Button("Theme", type="button", className="quiet", **attributes({"data-theme-toggle": ""})),
                    html.Span(className="account", **attributes({"data-account": ""})),
                ],
                className=f"head environment-{environment or 'none'}",
            ),
            html.Nav(_links(context, cluster, page), className="nav", **attributes({"aria-label": "Pages"})),
            html.Main(
                [
                    html.Div(
                        [
                            *_crumbs(crumbs),
                            html.H1(title),
                            html.Div(list(actions), className="page-actions"),
                        ],
                        className="page-head",
                    ),
                    *content,
                ],
                id="content",
                className=f"content page-{page}",
                tabIndex=-1,
            ),
        ],
        className="shell",
        **attributes({"data-page": json.dumps(facts, ensure_ascii=False)}),
    )


def _crumbs(crumbs: Sequence[tuple[str, str]]) -> list[Component]:
    if not crumbs:
        return []
    links: list[Component] = [html.A(text, href=path) for text, path in crumbs]
    return [html.Nav(links, className="crumbs", **attributes({"aria-label": "Path"}))]


def _clusters(context: Context, cluster: str, page: str) -> Component:
    """A list of the clusters that the viewer may see, as links to the same page there."""
    shown = [hub for hub in context.hubs.values() if context.identity().scope.sees_cluster(hub.name)]
    # For a page about one topic or group, the link to another cluster opens its list.
    target = context.list_page(page)
    links = [
        html.A(
            [html.Span(className=f"dot environment-{hub.environment or 'none'}"), hub.name],
            href=page_path(hub.name, target),
            className="cluster",
            **attributes({"aria-current": "true"} if hub.name == cluster else {}),
        )
        for hub in shown
    ]
    known = next((hub for hub in shown if hub.name == cluster), None)
    label = f"{cluster} ({known.environment})" if known is not None and known.environment else cluster
    return html.Details(
        [
            html.Summary(label, **attributes({"aria-label": f"Cluster {label}"})),
            html.Div(links, className="cluster-list"),
        ],
        className="clusters",
    )


def _links(context: Context, cluster: str, page: str) -> list[Component]:
    found: list[Component] = []
    target = context.list_page(page)
    for spec in context.pages:
        if not spec.in_navigation or context.identity().role < spec.role:
            continue
        current = {"aria-current": "page"} if spec.name in (page, target) else {}
        found.append(
            html.A(spec.title, href=page_path(cluster, spec.name), className="nav-link", **attributes(current))
        )
    return found
