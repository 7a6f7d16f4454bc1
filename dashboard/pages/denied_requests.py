"""The page of denied requests: failed logins and denied operations, over time and one by one.

They name topics, groups, users and hosts: a viewer who may see only some topics or groups sees none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.console.columns import access
from broker_cy.console.denials import Denial, asked_texts, denials_of
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.metrics.events import AccessDenied, LoginFailed
from dashboard.collector.channel import TableChannel, channel, linked
from dashboard.collector.charts import Ranged, TimeChannel
from dashboard.collector.columns import table_column
from dashboard.collector.frames import Health
from dashboard.collector.history_marks import LIMIT_MAX
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.collector.patches import State
from dashboard.collector.time_range import parse_range
from dashboard.components.panel import link, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages import acls
from dashboard.pages.events import id_of

NAME: Final = "denied-requests"
TITLE: Final = "Denied requests"
DEFAULT_RANGE: Final = "1d"
KINDS: Final = (AccessDenied.TYPE, LoginFailed.TYPE)
HIDDEN: Final = "Denied requests name all topics and groups; your account may see only some of them."
# Points of the chart: each is a part of the range.
POINTS: Final = 120
# Brokers aggregate denials over this time.
STEP_MS_MIN: Final = 10_000


class _OfDenials(Ranged):
    """Channels of the denials of a range. They are current as long as the topic of events can be followed."""

    def sources(self) -> Sequence[Source]:
        return [self.session.events, self.hub.history]

    def health(self) -> Health:
        error = self.hub.history.events_error or self.session.events.error or ""
        return Health(0, error, self.session.events.is_absent)

    async def denials(self) -> tuple[list[Denial], int, int] | None:
        """The denials of the range, the oldest first, and its bounds; None while they are not known."""
        require_all_subjects(self.scope, HIDDEN)
        history = self.hub.history
        if history.events_covered_from_ms is None:
            return None
        from_ms, to_ms = parse_range(self.params.get("range", DEFAULT_RANGE)).bounds(now_ms())
        found = await history.events(from_ms, to_ms + 1_000, KINDS, LIMIT_MAX)
        return denials_of(found), from_ms, to_ms


@channel("denied-requests")
class DeniedRequests(_OfDenials, TableChannel[Denial]):
    """Denials of a range, the newest first."""

    SUBJECT = frozenset({"range"})
    COLUMNS = (
        table_column(access.DENIED_TIME, 200),
        table_column(access.DENIED_PRINCIPAL, 130),
        table_column(access.DENIED_OPERATION, 200),
        table_column(access.DENIED_REASON, 300, is_flex=True),
        table_column(access.DENIED_COUNT, 75),
        table_column(access.DENIED_HOST, 115),
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: list[Denial] | None = None

    async def state(self) -> State | None:
        found = await self.denials()
        if found is not None:
            self._rows = found[0][::-1]
        return await super().state()

    def rows(self) -> Iterable[Denial] | None:
        return self._rows

    def row_id(self, row: Denial) -> str:
        return " ".join((str(row.time_ms), str(row.stamped.broker), row.who, row.host, row.what, row.api, row.why))

    def row_text(self, row: Denial) -> str:
        return f"{row.who} {row.host} {row.what} {row.why} {row.api}"

    def _cells(self, row: Denial) -> list[Any]:
        time, who, what, *rest = super()._cells(row)
        span = self.params.get("range", "")
        detail = linked(time, page_path(self.hub.name, "events", event=id_of(row.stamped), range=span))
        asked = asked_texts(row.stamped)
        if asked is not None:
            what = linked(what, page_path(self.hub.name, acls.NAME, **asked))
        return [detail, who, what, *rest]


@channel("denied-requests-over-time")
class DeniedRequestsOverTime(_OfDenials, TimeChannel):
    """The number of denied operations and failed logins in each part of the range."""

    async def state(self) -> State | None:
        found = await self.denials()
        if found is None:
            return None
        denials, from_ms, to_ms = found
        step_ms = max(STEP_MS_MIN, -(-(to_ms - from_ms) // POINTS))
        first_ms = from_ms - from_ms % step_ms
        points = (to_ms - first_ms) // step_ms + 1
        values = {LoginFailed.TYPE: [0] * points, AccessDenied.TYPE: [0] * points}
        for row in denials:
            at = (row.time_ms - first_ms) // step_ms
            if 0 <= at < points:
                values[row.stamped.event.TYPE][at] += row.times + row.left_out
        return {
            "t": [first_ms + at * step_ms for at in range(points)],
            "series": [{"name": "denied operations", "role": ""}, {"name": "failed logins", "role": ""}],
            "v": [values[AccessDenied.TYPE], values[LoginFailed.TYPE]],
            "unit": "",
            "from_ms": first_ms,
            "to_ms": first_ms + points * step_ms,
            "note": f"only the last {LIMIT_MAX:,} events" if len(denials) >= LIMIT_MAX else "",
            "marks": [],
        }


def layout(context: Context, cluster: str, range: str = "", **_: str) -> Component:
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, NAME, TITLE, [html.P(HIDDEN, className="panel")])
    return shell(
        context,
        cluster,
        NAME,
        TITLE,
        _panels(cluster, range),
        actions=[
            ranges(cluster, NAME, range, DEFAULT_RANGE),
            link("ACLs", page_path(cluster, acls.NAME)),
        ],
    )


def _panels(cluster: str, range: str) -> list[Component]:
    chosen = {"range": range or DEFAULT_RANGE}
    return [
        panel(
            "Denied requests over time",
            "denied-requests-over-time",
            "chart",
            cluster=cluster,
            params=chosen,
            options={"height": 180},
            note="Denied operations and failed logins in each part of the range.",
            empty="No operation was denied, and no login failed in this range.",
        ),
        table(
            TITLE,
            "denied-requests",
            DeniedRequests.COLUMNS,
            cluster=cluster,
            params=chosen,
            noun="denied request",
            note=f"Newest first, at most {LIMIT_MAX:,}. Equal denials within ten seconds are one row. The time links "
            "to all fields, the denied operation to an explanation by the current ACLs.",
            empty="No operation was denied, and no login failed in this range.",
        ),
    ]


PAGE = Page(NAME, TITLE, layout)
