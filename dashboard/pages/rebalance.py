"""One rebalance: its phases, its cause, and each partition that moved, with its stall, the longest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from dash.development.base_component import Component

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.columns import groups
from broker_cy.console.columns.rebalances import cause_of, cause_tone, member_of
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.metrics.events import Move, Rebalance, Stamped, Trigger
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration
from dashboard.collector.channel import Cell, Channel, Column, FactsChannel, Params, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.frames import Health
from dashboard.collector.patches import State
from dashboard.components.panel import listing, page_path, panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.rebalance_bars import PHASE_ROWS, phase_bars, stall_bars, stalled_partitions, timeline
from dashboard.pages.rebalance_rows import seen_rebalances, stall_cell

_TIME_DIGITS_MAX: Final = 15
# Part of a timeline on each side of the rebalance.
_MARGIN_PARTS: Final = 20
_TRIGGERS_SHOWN: Final = 50
_SUBJECT: Final = frozenset({"group", "at"})


class RebalanceDetail(Channel):
    """Base: `load` first, then `event`. `at` is the time of the event in ms since 1970."""

    REQUIRED = _SUBJECT

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.found: Stamped | None = None

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        at = found["at"]
        if not at.isascii() or not at.isdecimal() or len(at) > _TIME_DIGITS_MAX:
            raise ClientError(Failure.INVALID, f"{cls.name}: at={at!r}: a time in ms since 1970 is expected")
        return found

    def sources(self) -> Sequence[Source]:
        return [self.session.events, self.hub.history]

    def health(self) -> Health:
        events, history = self.session.events, self.hub.history
        # An event does not change, and so does not age.
        return Health(0 if self.found else None, events.error or history.events_error or "", events.is_absent)

    async def load(self) -> bool:
        """Return whether the event is known. Raises ClientError if there is none at this time."""
        if self.found is not None:
            return True
        history, at_ms, group = self.hub.history, int(self.params["at"]), self.params["group"]
        found = seen_rebalances(await history.rebalances(group, at_ms, at_ms + 1), self.scope)
        if not found:
            covered_ms = history.events_covered_from_ms
            if covered_ms is not None and (covered_ms <= at_ms or history.is_complete):
                raise ClientError(
                    Failure.INVALID, f"no rebalance at {at_ms} ms since 1970 is among the events", what=f"group {group}"
                )
            return False
        self.found = found[0]
        return True

    @property
    def event(self) -> Rebalance:
        assert self.found is not None
        assert isinstance(self.found.event, Rebalance)
        return self.found.event


@channel("rebalance-facts")
class RebalanceFacts(RebalanceDetail, FactsChannel):
    PARAMS = _SUBJECT
    TIMES = frozenset({"started"})

    async def state(self) -> State | None:
        return await FactsChannel.state(self) if await self.load() else None

    def facts(self) -> Sequence[Fact]:
        event = self.event
        cause = cause_of(event)
        stall = stall_cell(event.stall_max_ms)
        facts = [
            Fact("started", f"@{event.started_ms}"),
            Fact("cause", cause, cause_tone(cause)),
            Fact("generation", count(event.generation)),
            Fact("protocol", clean(event.protocol or "-")),
            Fact("result", clean(event.result)),
            Fact("members", f"{count(event.members_before)} → {count(event.members_after)}"),
            Fact("join", duration(event.join_ms)),
            Fact("sync", duration(event.sync_ms)),
            Fact("total", duration(event.total_ms)),
        ]
        if event.has_moves:
            facts.append(Fact("partitions moved", count(event.moves_total)))
            if event.kept >= 0:
                facts.append(Fact("kept", count(event.kept)))
            facts.append(Fact("longest stall", stall.text, stall.tone))
        return facts


@channel("rebalance-timeline")
class OneTimeline(RebalanceDetail):
    PARAMS = _SUBJECT

    async def state(self) -> State | None:
        if not await self.load():
            return None
        event = self.event
        rows, total = stalled_partitions([event])
        end_ms = event.started_ms + max(1, event.total_ms)
        bars = phase_bars(event) + stall_bars(event, rows)
        first_ms = min(bar.from_ms for bar in bars)
        margin_ms = max(1, (end_ms - first_ms) // _MARGIN_PARTS)
        note = f"the {len(rows)} partitions with the longest stalls, of {total:,}" if total > len(rows) else ""
        return timeline(bars, [*PHASE_ROWS, *rows.values()], first_ms - margin_ms, end_ms + margin_ms, note)


@channel("rebalance-triggers")
class Triggers(RebalanceDetail, TableChannel[tuple[int, Trigger]]):
    """The reasons why it began, and why it was restarted before it was complete."""

    SUBJECT = _SUBJECT
    COLUMNS = (
        Column("reason", "Cause", lambda row: Cell(clean(row[1].reason.replace("_", " ")), cause_tone(row[1].reason))),
        Column("client", "Client", lambda row: member_of(row[1])),
        table_column(groups.INSTANCE_ID.by(lambda row: row[1].instance_id or None)),
        table_column(groups.HOST.by(lambda row: row[1].host.lstrip("/") or None)),
        Column("topics", "Changed topics", lambda row: clean(", ".join(row[1].topics) or "-")),
        table_column(groups.MEMBER_ID.by(lambda row: row[1].member_id or None), is_flex=True),
    )

    async def state(self) -> State | None:
        return await TableChannel.state(self) if await self.load() else None

    def rows(self) -> Iterable[tuple[int, Trigger]]:
        return enumerate(self.event.triggers)

    def row_id(self, row: tuple[int, Trigger]) -> str:
        return str(row[0])


@channel("rebalance-moves")
class Moves(RebalanceDetail, TableChannel[Move]):
    """Partitions that changed their owner or were not read for a while. An event has at most 2,000."""

    SUBJECT = _SUBJECT
    SORT = "stall"
    IS_DESCENDING = True
    COLUMNS = (
        Column(
            "partition",
            "Partition",
            lambda row: clean(f"{row.topic}-{row.partition}"),
            lambda row: (row.topic, row.partition),
            width=200,
            is_flex=True,
        ),
        Column(
            "stall",
            "Stall",
            lambda row: stall_cell(row.stall_ms),
            lambda row: row.stall_ms if row.stall_ms >= 0 else None,
            True,
            130,
            "Time in which no member read the partition",
        ),
        Column("source", "From", lambda row: clean(row.source or "-"), lambda row: row.source or "", width=260),
        Column("target", "To", lambda row: clean(row.target or "-"), lambda row: row.target or "", width=260),
    )

    async def state(self) -> State | None:
        return await TableChannel.state(self) if await self.load() else None

    def rows(self) -> Iterable[Move]:
        return self.event.moves

    def row_id(self, row: Move) -> str:
        return f"{row.topic}-{row.partition}"

    def row_text(self, row: Move) -> str:
        return f"{row.topic}-{row.partition} {row.source} {row.target}"

    def _cells(self, row: Move) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "topic", topic=row.topic)), *rest]


def layout(context: Context, cluster: str, group: str = "", at: str = "", **_: str) -> Component:
    params = {"group": group, "at": at}
    return shell(
        context,
        cluster,
        "rebalance",
        f"Rebalance of {clean(group)}",
        [
            panel("Rebalance", "rebalance-facts", "facts", cluster=cluster, params=params),
            panel(
                "Phases and stalls",
                "rebalance-timeline",
                "timeline",
                cluster=cluster,
                params=params,
                note="A stall begins when the last owner stopped reading, which may be before the rebalance.",
            ),
            listing(
                "Causes",
                "rebalance-triggers",
                Triggers.COLUMNS,
                cluster=cluster,
                params=params,
                rows=_TRIGGERS_SHOWN,
                note="The first began the rebalance; the others began it again before it was complete.",
                empty="The coordinator did not report a cause.",
            ),
            table(
                "Partitions that moved",
                "rebalance-moves",
                Moves.COLUMNS,
                cluster=cluster,
                params=params,
                noun="partition",
                height_rows=12,
                note="From and to are member ids; - is no member.",
                empty="No partition changed its owner or stalled.",
            ),
        ],
        crumbs=[
            ("Groups", page_path(cluster, "groups")),
            (clean(group), page_path(cluster, "group", group=group)),
            ("Rebalances", page_path(cluster, "rebalances", group=group)),
        ],
    )


PAGE = Page("rebalance", "Rebalance", layout, in_navigation=False, parent="rebalances")
