"""Rebalances of one group or of all: a timeline with causes, phases and the stall of each partition, totals, a table.

The source is the events of the cluster, as far back as they reach. Only groups of the classic protocol have them: in
KIP-848 no rebalance stops all members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.console.columns import rebalances as columns
from broker_cy.console.columns.rebalances import STALL_NOTED_MS, cause_of, cause_tone, host_of, who_of
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.console.session import now_ms
from broker_cy.metrics.events import Rebalance, Stamped, StaticReplacement
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Column, FactsChannel, TableChannel, channel, linked
from dashboard.collector.charts import Ranged, TimeChannel
from dashboard.collector.columns import table_column
from dashboard.collector.frames import Health
from dashboard.collector.patches import State
from dashboard.components.panel import link, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.rebalance_bars import (
    PHASE_ROWS,
    ROWS_MAX,
    Bar,
    phase_bars,
    stall_bars,
    stalled_partitions,
    timeline,
)
from dashboard.pages.rebalance_rows import labels, seen_rebalances

# Events of one answer; if there are more, the newest.
EVENTS_MAX: Final = 2_000
# A timeline up to now advances in steps: of this length, or of this part of its range.
STEP_MS: Final = 10_000
_STEP_PARTS: Final = 200


class RebalanceChannel(Ranged):
    """Base of what is shown of a range: `load` first, then `found`, the oldest first."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.group = self.params.get("group", "")
        self.over = self.range
        self.found: list[Stamped] = []
        self._loaded: list[Stamped] = []
        self._loaded_for: object = None

    def sources(self) -> Sequence[Source]:
        return [self.session.events, self.hub.history]

    def health(self) -> Health:
        events, history = self.session.events, self.hub.history
        # Samples arrive each second, and events only if something happens.
        age_s = events.age_s if history.age_s is None else history.age_s
        error = events.error or history.events_error or ""
        return Health(None if age_s is None else round(age_s * 1000), error, events.is_absent)

    async def load(self) -> bool:
        """Return whether `found` is known. Events are decoded again only if there are others than before."""
        history = self.hub.history
        if history.events_covered_from_ms is None and not history.is_complete:
            return False
        from_ms, to_ms = self.over.bounds(now_ms())
        newest = await history.rebalances(self.group or None, from_ms, to_ms, 1)
        replaced = await history.events(from_ms, to_ms, [StaticReplacement.TYPE], EVENTS_MAX)
        wanted = (newest, len(replaced), replaced[-1:], history.events_covered_from_ms)
        if wanted != self._loaded_for:
            self._loaded_for = wanted
            found = await history.rebalances(self.group or None, from_ms, to_ms, EVENTS_MAX)
            found += [each for each in replaced if not self.group or each.event.key == self.group]
            found.sort(key=lambda each: each.time_ms)
            self._loaded = seen_rebalances(found, self.scope)
        self.found = [each for each in self._loaded if each.time_ms >= from_ms]
        return True

    def note(self) -> str:
        """Say which part of the range is not known."""
        from_ms, _ = self.over.bounds(now_ms())
        covered_ms = self.hub.history.events_covered_from_ms
        notes = []
        if covered_ms is not None and covered_ms > from_ms:
            notes.append(f"events are known from @{covered_ms} on")
        if len(self._loaded) >= EVENTS_MAX:
            notes.append(f"the newest {EVENTS_MAX:,} rebalances are shown")
        return "; ".join(notes)


def rebalances_of(found: Iterable[Stamped]) -> list[Rebalance]:
    return [each.event for each in found if isinstance(each.event, Rebalance)]


@channel("rebalances-timeline")
class RebalanceTimeline(RebalanceChannel, TimeChannel):
    """For one group: causes, phases, and the stall of each partition. For all groups: a row each."""

    SUBJECT = frozenset({"group"})

    async def state(self) -> State | None:
        if not await self.load():
            return None
        from_ms, to_ms = self.over.bounds(now_ms())
        if self.over.to_ms is None:
            # In steps, so that bars do not slide away from under the pointer, and frames are few.
            step_ms = max(STEP_MS, self.over.length_ms // _STEP_PARTS)
            to_ms = to_ms // step_ms * step_ms + step_ms
            from_ms = to_ms - self.over.length_ms
        bars, rows, note = self._of_group() if self.group else self._of_all()
        return timeline(bars, rows, from_ms, to_ms, "; ".join(filter(None, (note, self.note()))))

    def _paths(self) -> Iterable[tuple[Rebalance, str]]:
        """Return each rebalance with the path of its page."""
        for each in self.found:
            if isinstance(each.event, Rebalance):
                yield each.event, rebalance_path(self.hub.name, each.event, each.time_ms)

    def _of_group(self) -> tuple[list[Bar], list[str], str]:
        rows, total = stalled_partitions(rebalances_of(self.found))
        bars: list[Bar] = []
        for event, path in self._paths():
            bars += phase_bars(event, path) + stall_bars(event, rows, path)
        note = f"the {len(rows)} partitions with the longest stalls, of {total:,}" if total > len(rows) else ""
        return bars, [*PHASE_ROWS, *rows.values()], note

    def _of_all(self) -> tuple[list[Bar], list[str], str]:
        totals: Counter[str] = Counter()
        for event in rebalances_of(self.found):
            totals[event.group] += max(1, event.total_ms)
        groups = labels([name for name, _ in totals.most_common(ROWS_MAX)])
        bars = [
            replace(phase_bars(event, path)[0], row=groups[event.group])
            for event, path in self._paths()
            if event.group in groups
        ]
        left_out = len(totals) > len(groups)
        note = f"the {len(groups)} groups that rebalanced for longest, of {len(totals):,}" if left_out else ""
        return bars, list(groups.values()), note


def rebalance_path(cluster: str, event: Rebalance, time_ms: int) -> str:
    """Return the path of the page of one rebalance (pages/rebalance.py)."""
    return page_path(cluster, "rebalance", group=event.group, at=str(time_ms))


@channel("rebalances-totals")
class RebalanceTotals(RebalanceChannel, TimeChannel, FactsChannel):
    """Sums over the range."""

    SUBJECT = frozenset({"group"})

    async def state(self) -> State | None:
        return await FactsChannel.state(self) if await self.load() else None

    def facts(self) -> Sequence[Fact]:
        return totals_of(rebalances_of(self.found), len(self.found))


def totals_of(events: Sequence[Rebalance], total: int) -> list[Fact]:
    """Return the sums; `total` includes static replacements, which are not rebalances."""
    causes = Counter(reason for event in events for reason in cause_of(event).split(", "))
    longest_ms = max((event.total_ms for event in events), default=0)
    stall_ms = max((event.stall_max_ms for event in events), default=0)
    facts = [
        Fact("rebalances", count(len(events))),
        Fact("time in rebalances", duration(sum(event.total_ms for event in events))),
        Fact("longest", duration(longest_ms)),
        Fact("join", duration(sum(event.join_ms for event in events))),
        Fact("sync", duration(sum(event.sync_ms for event in events))),
        Fact("partitions moved", count(sum(event.moves_total for event in events))),
        Fact("longest stall", duration(stall_ms), Tone.BAD if stall_ms > STALL_NOTED_MS else Tone.PLAIN),
    ]
    if total >= EVENTS_MAX:
        facts.insert(0, Fact("limited to the newest", count(EVENTS_MAX), Tone.WARN))
    if total > len(events):
        facts.append(Fact("static replacements", count(total - len(events))))
    return [*facts, *(Fact(f"by {cause}", count(number), cause_tone(cause)) for cause, number in causes.most_common(4))]


@channel("rebalances")
class Rebalances(RebalanceChannel, TableChannel[Stamped]):
    """Rebalances of a range, the newest first."""

    SUBJECT = frozenset({"group", "range"})
    SORT = "time"
    IS_DESCENDING = True
    COLUMNS: ClassVar[Sequence[Column[Any]]] = (
        table_column(columns.TIME, 195),
        table_column(columns.GROUP, 140, is_flex=True),
        table_column(columns.CAUSE, 135),
        table_column(columns.MEMBER, 110),
        table_column(columns.HOST, 100),
        table_column(columns.TOTAL, 80),
        table_column(columns.LONGEST_STALL, 110),
        table_column(columns.MOVED, 80),
        table_column(columns.JOIN, 80),
        table_column(columns.SYNC, 80),
        table_column(columns.MEMBERS, 90),
        table_column(columns.KEPT, 70),
        table_column(columns.GENERATION, 100),
    )

    async def state(self) -> State | None:
        return await TableChannel.state(self) if await self.load() else None

    def rows(self) -> Iterable[Stamped]:
        return reversed(self.found)

    def row_id(self, row: Stamped) -> str:
        return f"{row.time_ms} {row.event.TYPE} {row.event.key}"

    def row_text(self, row: Stamped) -> str:
        assert isinstance(row.event, Rebalance | StaticReplacement)
        return f"{row.event.key} {cause_of(row.event)} {who_of(row.event)} {host_of(row.event)}"

    def _cells(self, row: Stamped) -> list[Any]:
        first, *rest = super()._cells(row)
        if not isinstance(row.event, Rebalance):
            return [first, *rest]
        return [linked(first, rebalance_path(self.hub.name, row.event, row.time_ms)), *rest]


def layout(context: Context, cluster: str, group: str = "", range: str = "", **_: str) -> Component:
    subject = {"group": group} if group else {}
    chosen = {**subject, **({"range": range} if range else {})}
    crumbs = [("Groups", page_path(cluster, "groups"))]
    if group:
        crumbs.append((clean(group), page_path(cluster, "group", group=group)))
    note = (
        "Cause, join, sync, then the stall of each partition: from when its last owner stopped reading it until its "
        "new owner could."
        if group
        else "A row for each group, a bar for each rebalance, in the colour of its cause."
    )
    return shell(
        context,
        cluster,
        "rebalances",
        f"Rebalances of {clean(group)}" if group else "Rebalances",
        [
            panel(
                "Totals",
                "rebalances-totals",
                "facts",
                cluster=cluster,
                params=chosen,
                note="Over the range, from the broker's own events. Moves and stalls are those of classic and "
                "consumer groups.",
            ),
            panel(
                "Timeline",
                "rebalances-timeline",
                "timeline",
                cluster=cluster,
                params=chosen,
                note=f"{note} A click on a bar opens its rebalance.",
                empty="No rebalance in this range.",
            ),
            table(
                "History",
                "rebalances",
                Rebalances.COLUMNS,
                cluster=cluster,
                params=chosen,
                noun="rebalance",
                height_rows=12,
                note="The link in the first column opens the moved partitions.",
                empty="No rebalance in this range.",
                actions=[html.Span(link("All groups", page_path(cluster, "rebalances", range=range)))] if group else (),
            ),
        ],
        crumbs=crumbs if group else (),
        actions=[ranges(cluster, "rebalances", range, **subject)],
    )


PAGE = Page("rebalances", "Rebalances", layout)
