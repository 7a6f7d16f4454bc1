"""Events: what happened in the cluster, when, and by whose request; every field of one event.

Commits of groups have no rows here: most events are commits, and the page of a group shows them as its lag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from dash.development.base_component import Component

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.event_text import by_of, kind_of, line_of, subject_of
from broker_cy.console.columns import events as columns
from broker_cy.console.event_text import detail_of
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.metrics.events import (
    EVENTS,
    ROUTINE,
    BrokerFenced,
    BrokerStarted,
    BrokerStopped,
    BrokerUnfenced,
    ConfigChanged,
    ControllerChanged,
    DirectoryFailed,
    InSyncBelowMin,
    LeadersElected,
    Stamped,
)
from dashboard.collector.channel import Channel, Column, Params, TableChannel, channel, linked
from dashboard.collector.charts import Ranged
from dashboard.collector.columns import table_column
from dashboard.collector.frames import Health
from dashboard.collector.history_marks import LIMIT_MAX
from dashboard.collector.patches import State
from dashboard.collector.seen_events import KEPT_UNKNOWN, may_see, seen_events, shown_to
from dashboard.collector.time_range import parse_range
from dashboard.components.chips import chips
from dashboard.components.panel import link, listing, page_path, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page

DEFAULT_RANGE = "1d"
KINDS = tuple(sorted(set(EVENTS) - ROUTINE))
# The events that operators look for first, under one name.
FAILURES = "failures"
FAILURE_KINDS = tuple(
    each.TYPE
    for each in (
        BrokerFenced,
        BrokerUnfenced,
        BrokerStarted,
        BrokerStopped,
        ControllerChanged,
        LeadersElected,
        InSyncBelowMin,
        DirectoryFailed,
    )
)
# Lines of one event: a rebalance lists up to 2,000 partitions.
DETAIL_LINES = 200
DETAIL_CHARACTERS_MAX = 1_000
ROWS_HIGH = 18
_ID = re.compile(r"([0-9]{1,15})\.([0-9]{1,10})\.([a-z_]{1,40})\.(.{0,300})", re.DOTALL)


def id_of(event: Stamped) -> str:
    """Return the id of an event: time, broker, type and subject."""
    return f"{event.time_ms}.{max(0, event.broker)}.{event.event.TYPE}.{event.event.key[:300]}"


class _OfEvents(Channel):
    """Channels of events. They are current as long as their topic can be followed, because hours may pass without an
    event.
    """

    def sources(self) -> Sequence[Source]:
        return [self.session.events, self.hub.history]

    def health(self) -> Health:
        error = self.hub.history.events_error or self.session.events.error or ""
        return Health(0, error, self.session.events.is_absent)


@channel("events")
class Events(_OfEvents, Ranged, TableChannel[Stamped]):
    """Events of a range, the newest first, at most LIMIT_MAX. `kind` is one of KINDS, or FAILURES."""

    SUBJECT = frozenset({"range", "kind"})
    COLUMNS = (
        table_column(columns.TIME, 205),
        table_column(columns.EVENT, 145),
        table_column(columns.ABOUT, 140),
        table_column(columns.HOW, 260, is_flex=True),
        table_column(columns.BY, 150),
        table_column(columns.BROKER, 75),
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: list[Stamped] | None = None

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        kind = found.get("kind", "")
        if kind and kind not in (FAILURES, *KINDS):
            known = ", ".join((FAILURES, *KINDS))
            raise ClientError(Failure.INVALID, f"{cls.name}: kind={kind!r}: one of {known} is expected")
        return found

    async def state(self) -> State | None:
        history = self.hub.history
        if history.events_covered_from_ms is not None:
            from_ms, to_ms = parse_range(self.params.get("range", DEFAULT_RANGE)).bounds(now_ms())
            kind = self.params.get("kind", "")
            # A range up to now includes the event that just happened.
            kinds = FAILURE_KINDS if kind == FAILURES else (kind,) if kind else KINDS
            found = await history.events(from_ms, to_ms + 1_000, kinds, LIMIT_MAX)
            self._rows = seen_events(reversed(found), self.scope)
        return await super().state()

    def rows(self) -> Iterable[Stamped] | None:
        return self._rows

    def row_id(self, row: Stamped) -> str:
        return id_of(row)

    def row_text(self, row: Stamped) -> str:
        return f"{kind_of(row.event)} {subject_of(row)} {line_of(row.event)} {by_of(row.event)}"

    def _cells(self, row: Stamped) -> list[Any]:
        time, event, about, *rest = super()._cells(row)
        query = {name: self.params.get(name, "") for name in ("range", "kind")}
        detail = linked(time, page_path(self.hub.name, "events", event=id_of(row), **query))
        place = self._place_of(row)
        return [detail, event, linked(about, place) if place else about, *rest]

    def _place_of(self, row: Stamped) -> str:
        """Return the page of the subject of an event; empty if it has none."""
        about = row.event
        topic, group = getattr(about, "topic", ""), getattr(about, "group", "")
        if isinstance(about, ConfigChanged) and about.resource_type == "topic":
            topic = about.resource
        if topic:
            return page_path(self.hub.name, "topic", topic=topic)
        return page_path(self.hub.name, "group", group=group) if group else ""


@channel("event-detail")
class EventDetail(_OfEvents, TableChannel[tuple[int, str]]):
    """Every field of one event, a line each. `event` is the id that id_of returns."""

    SUBJECT = REQUIRED = frozenset({"event"})
    COLUMNS = (Column("line", "Fields (times in UTC)", lambda row: row[1] or "\u00a0", is_flex=True),)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: list[tuple[int, str]] | None = None

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        if _ID.fullmatch(found["event"]) is None:
            raise ClientError(Failure.INVALID, f"{cls.name}: event={found['event'][:60]!r} is not the id of an event")
        return found

    async def state(self) -> State | None:
        match = _ID.fullmatch(self.params["event"])
        assert match is not None
        time_ms = int(match[1])
        events = await self.hub.history.events(time_ms, time_ms + 1, KINDS, LIMIT_MAX)
        found = next((each for each in events if id_of(each) == self.params["event"]), None)
        if found is not None and may_see(found, self.scope):
            text = detail_of(shown_to(found, self.scope), utc=True)
            lines = [line for line in text.split("\n") if line != f"kept: {KEPT_UNKNOWN}"]
            self._rows = [(at, line[:DETAIL_CHARACTERS_MAX]) for at, line in enumerate(lines)]
        elif self.hub.history.events_covered_from_ms is not None:
            self._rows = []
        return await super().state()

    def rows(self) -> Iterable[tuple[int, str]] | None:
        return self._rows

    def row_id(self, row: tuple[int, str]) -> str:
        return str(row[0])


def layout(context: Context, cluster: str, range: str = "", kind: str = "", event: str = "", **_: str) -> Component:
    chosen = {"range": range or DEFAULT_RANGE, **({"kind": kind} if kind else {})}
    kinds = [("All kinds", page_path(cluster, "events", range=range), not kind)]
    kinds += [
        (each.replace("_", " "), page_path(cluster, "events", range=range, kind=each), each == kind)
        for each in (FAILURES, *KINDS)
    ]
    detail = (
        [
            listing(
                "Event",
                "event-detail",
                EventDetail.COLUMNS,
                cluster=cluster,
                params={"event": event},
                rows=DETAIL_LINES,
                note=f"At most {DETAIL_LINES} lines.",
                empty="This event is not known here: it is too old, or older events are still being read.",
                actions=[link("Close", page_path(cluster, "events", range=range, kind=kind))],
                class_name="event-detail",
            )
        ]
        if event
        else []
    )
    return shell(
        context,
        cluster,
        "events",
        "Events",
        [
            chips("Kind of event", kinds),
            *detail,
            table(
                "Events of the range",
                "events",
                Events.COLUMNS,
                cluster=cluster,
                params=chosen,
                noun="event",
                height_rows=ROWS_HIGH,
                note=f"Newest first, at most {LIMIT_MAX:,}. A time leads to every field of the event. "
                "By: the client that requested it.",
                empty="Nothing happened in this range.",
            ),
        ],
        actions=[ranges(cluster, "events", range, DEFAULT_RANGE, kind=kind)],
    )


PAGE = Page("events", "Events", layout)
