"""Panels: a title, the data of a channel, and its state (loading, empty, failed, stale).

A panel is an empty element that names its channel in the attribute `data-panel`, as JSON: {"channel", "params", "kind",
"options"}. assets/live.js subscribes to the channel while the element is in the page, and the renderer of `kind` in
assets/ fills it. Dash never draws into it, so that new data costs no callback.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from dash import html
from dash.development.base_component import Component

from dashboard.collector.channel import Column, channel_class
from dashboard.components.attributes import attributes
from dashboard.security.roles import Role

Json = Mapping[str, Any]


def page_path(cluster: str, page: str, **query: str) -> str:
    """Return the path of a page of the dashboard; its query has the values that are not empty."""
    given = {name: value for name, value in query.items() if value}
    path = f"/c/{quote(cluster, safe='')}/{page}"
    return f"{path}?{urlencode(given)}" if given else path


def panel(
    title: str,
    channel: str,
    kind: str,
    *,
    cluster: str,
    params: Mapping[str, str] | None = None,
    options: Json | None = None,
    note: str = "",
    empty: str = "Nothing to show.",
    actions: Sequence[Component] = (),
    class_name: str = "",
) -> Component:
    """Return a panel. `note` explains it below the title, with units; `empty` is shown if there is no data.

    Raises ClientError if the channel or one of its parameters is unknown: pages are checked when they are built.
    """
    given = channel_class(channel).check(params or {})
    place = _place(title)
    spec = {
        "cluster": cluster,
        "channel": channel,
        "params": given,
        "kind": kind,
        "options": dict(options or {}),
        "empty": empty,
        "title": title,
    }
    return html.Section(
        [
            html.Div(
                [
                    html.H2(title, id=f"{place}-title"),
                    html.Span(className="panel-age", **attributes({"data-age": ""})),
                    html.Div(list(actions), className="panel-actions"),
                ],
                className="panel-head",
            ),
            *([html.P(note, className="panel-note")] if note else []),
            html.Div("Loading …", className="panel-state", role="status", **attributes({"data-state": "loading"})),
            html.Div(className=f"panel-body panel-{kind}", **attributes({"data-body": ""})),
        ],
        id=place,
        className=f"panel {class_name}".strip(),
        **attributes({"aria-labelledby": f"{place}-title", "data-panel": json.dumps(spec, ensure_ascii=False)}),
    )


def act_button(
    label: str, act: str, *, role: Role, needs: str = "", destructive: bool = False, **params: str
) -> Component:
    """Return a button that plans an act. `rows`="marked" adds the ids of the marked rows of the panel's table. `needs`
    is the title of the panel about the act's subject: the button is disabled while that panel has only an error, such
    as that there is no such topic.

    assets/acts.js hides it if the user's role is below `role`; the decision is the server's (acts.py).
    """
    spec = {"act": act, "params": params, "role": int(role)}
    return html.Button(
        label,
        type="button",
        className="act destructive" if destructive else "act",
        **attributes(
            {"data-act": json.dumps(spec, ensure_ascii=False), **({"data-needs": _place(needs)} if needs else {})}
        ),
    )


def link(text: str, href: str) -> Component:
    return html.A(text, href=href, className="link")


def table(
    title: str,
    channel: str,
    columns: Sequence[Column[Any]],
    *,
    cluster: str,
    params: Mapping[str, str] | None = None,
    noun: str = "row",
    can_mark: bool = False,
    note: str = "",
    empty: str = "",
    actions: Sequence[Component] = (),
    height_rows: int = 0,
    has_filter: bool = True,
    class_name: str = "",
) -> Component:
    """Return a panel with a table of `columns` (TableChannel.COLUMNS).

    Rows are sorted and filtered by the channel; the browser requests the blocks that are visible. `height_rows` is the
    height in rows; 0 for the rest of the window. With `can_mark` rows have a checkbox, for acts on several.
    """
    cls: Any = channel_class(channel)
    place = f"{_place(title)}-filter"
    filter_box = html.Div(
        [html.Label(f"Filter {noun}s", htmlFor=place, className="hidden")],
        className="panel-filter",
        **attributes({"data-filter": json.dumps({"id": place, "label": f"Filter {noun}s"})}),
    )
    definitions = [
        {
            "key": column.key,
            "title": column.title,
            "hint": column.hint,
            "width": column.width,
            "right": column.is_right,
            "flex": column.is_flex,
            "sortable": column.sort is not None,
        }
        for column in columns
    ]
    return panel(
        title,
        channel,
        "table",
        cluster=cluster,
        params={**(params or {})},
        options={
            "noun": noun,
            "mark": can_mark,
            "columns": definitions,
            "sort": cls.SORT,
            "desc": cls.IS_DESCENDING,
            "rows": height_rows,
        },
        note=note,
        empty=empty or f"No {noun}s.",
        actions=[*([filter_box] if has_filter else []), *actions],
        class_name=class_name if height_rows else f"panel-fill {class_name}",
    )


def listing(
    title: str,
    channel: str,
    columns: Sequence[Column[Any]],
    *,
    cluster: str,
    params: Mapping[str, str] | None = None,
    rows: int = 10,
    note: str = "",
    empty: str = "Nothing to show.",
    actions: Sequence[Component] = (),
    class_name: str = "",
) -> Component:
    """Return a panel with the first `rows` rows of a table, in the channel's order, as a plain HTML table: pages with
    only such tables do not load the grid.
    """
    definitions = [{"title": column.title, "right": column.is_right, "flex": column.is_flex} for column in columns]
    given = {**(params or {}), "count": str(rows)}
    return panel(
        title,
        channel,
        "list",
        cluster=cluster,
        params=given,
        options={"columns": definitions},
        note=note,
        empty=empty,
        actions=actions,
        class_name=class_name,
    )


def _place(title: str) -> str:
    """Return the id of the element of a panel."""
    return "p-" + re.sub(r"[^a-z0-9]+", "-", title.casefold()).strip("-")
