"""The page of reassignments: progress, rate, time left and throttle, for those of every tool; and cancelling them.

A viewer who may see only some topics sees their reassignments but no runs, which are about every topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.admin import AdminClient
from broker_cy.admin.throttles import Throttle
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.moves import plan_cancel
from broker_cy.console.acts.pace import progress_text
from broker_cy.console.acts.plan import Plan, Report
from broker_cy.console.columns import reassignments
from broker_cy.console.feeds import Feed
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.console.moving import Moving, MovingPartition, throttle_text
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration, percent, size
from broker_cy.reporting.tone import Tone
from dashboard.acts import Act, Call, act
from dashboard.collector.channel import (
    Cell,
    Column,
    FactsChannel,
    SupportedChannel,
    TableChannel,
    channel,
    linked,
)
from dashboard.collector.columns import table_column
from dashboard.collector.move_runs import KEPT_MAX, MoveRuns, Run
from dashboard.collector.patches import State
from dashboard.components.panel import act_button, link, listing, page_path, panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.group import parse_partition
from dashboard.security.roles import EVERYTHING, Need, Role, Scope

NAME: Final = "reassignments"
TITLE: Final = "Reassignments"
HIDDEN: Final = "Runs move replicas of every topic; your account may see only some topics."
ROWS_HIGH: Final = 8


def seen_moves(moving: Moving, scope: Scope) -> Moving:
    """Return the moves that a viewer may see. The rate is that of all moves, so it is left out if some are hidden."""
    if scope.topics == EVERYTHING:
        return moving
    throttle = moving.throttle
    return Moving(
        tuple(each for each in moving.partitions if scope.sees_topic(each.partition.topic)),
        Throttle(throttle.rates, {name: each for name, each in throttle.replicas.items() if scope.sees_topic(name)}),
    )


@channel("reassignments")
class Reassignments(SupportedChannel, FactsChannel):
    """All reassignments together."""

    def feed(self) -> Feed[Any]:
        return self.session.moves()

    def facts(self) -> Sequence[Fact] | None:
        found = self.session.moves().value
        if found is None:
            return None
        moving = seen_moves(found, self.scope)
        rate = moving.rate_bytes_per_s
        throttle = moving.throttle
        # Without moves, a throttle that was left behind is not removed any more.
        tone = Tone.WARN if throttle.is_set and not moving.partitions else Tone.PLAIN
        return [
            Fact("partitions", count(len(moving.partitions)), Tone.NOTED if moving.partitions else Tone.PLAIN),
            Fact("copied", f"{size(moving.copied_bytes)} of {size(moving.total_bytes)}"),
            Fact("done", percent(moving.copied_bytes, moving.total_bytes)),
            Fact("rate", "-" if rate is None else f"{size(rate)}/s"),
            Fact("time left", "-" if moving.left_s is None else duration(moving.left_s * 1000)),
            Fact("throttle", clean(throttle_text(throttle)) if throttle.is_set else "none", tone),
        ]


@channel("moving-partitions")
class MovingPartitions(SupportedChannel, TableChannel[MovingPartition]):
    """Each partition that is being moved."""

    SORT = "partition"
    COLUMNS = (
        table_column(reassignments.PARTITION, 200, is_flex=True),
        table_column(reassignments.BEFORE, 130),
        table_column(reassignments.AFTER, 130),
        table_column(reassignments.ADDING, 110),
        table_column(reassignments.COPIED, 110),
        table_column(reassignments.TOTAL, 110),
        table_column(reassignments.DONE, 90),
    )

    def feed(self) -> Feed[Any]:
        return self.session.moves()

    def rows(self) -> Iterable[MovingPartition] | None:
        moving = self.session.moves().value
        return None if moving is None else seen_moves(moving, self.scope).partitions

    def row_id(self, row: MovingPartition) -> str:
        return str(row.partition)

    def _cells(self, row: MovingPartition) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "topic", topic=row.partition.topic)), *rest]


def _result(run: Run) -> Cell:
    if run.report is not None:
        return Cell(clean(run.report.problem or run.report.said), Tone.BAD if run.report.failed else Tone.GOOD)
    if run.is_stopping:
        return Cell("stopping: reassignments under way are cancelled, and the throttle is removed", Tone.WARN)
    return Cell("starting" if run.progress is None else progress_text(run.progress), Tone.NOTED)


@channel("move-runs")
class MoveRunsChannel(TableChannel[Run]):
    """Runs that users of this dashboard started, the newest first."""

    COLUMNS = (
        Column("began", "Began", lambda row: f"@{row.began_ms}", width=170, is_time=True),
        Column("what", "Run", lambda row: clean(row.title), width=200),
        Column("by", "By", lambda row: clean(row.user), width=120),
        Column("progress", "Progress", _result, width=320, is_flex=True),
        Column("ended", "Ended", lambda row: "-" if row.ended_ms is None else f"@{row.ended_ms}", is_time=True),
    )

    def sources(self) -> Sequence[Source]:
        return [self.hub.moves]

    async def state(self) -> State | None:
        if self.scope.topics != EVERYTHING:
            raise ClientError(Failure.REFUSED, HIDDEN)
        return await super().state()

    def rows(self) -> Iterable[Run] | None:
        return self.hub.moves.runs

    def row_id(self, row: Run) -> str:
        return row.id


@act("cancel-moves", Role.ADMIN)
class CancelMoves(Act):
    """Cancels the marked moves; or those of all topics if none are marked."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        topics = tuple(sorted({parse_partition(row).topic for row in rows}))
        return replace(super().need(cluster, params, rows), topics=topics, every_topic=not rows)

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        chosen = {parse_partition(row) for row in call.rows}
        words = [word for key in sorted(chosen) for word in ("--topic", f"{key.topic}:{key.partition}")]
        plan = await plan_cancel(call.client, call.command, lambda key: not chosen or key in chosen, words)
        busy = next((run for run in call.hub.moves.runs if not run.is_over), None)
        if busy is None or plan.problem:
            return plan
        note = "only the current reassignments: the run continues with its next partitions until it is stopped"
        return replace(plan, affected=f"{plan.affected}; {note}")


@dataclass(frozen=True, slots=True)
class _Stop:
    """Stops a run. It sends no request itself: the run cancels its current moves."""

    runs: MoveRuns
    run_id: str

    async def run(self, client: AdminClient) -> Report:
        found = self.runs.of(self.run_id)
        await self.runs.stop(found)
        return Report(f"stopped: {found.title}", (found.title,))


@act("stop-moves", Role.ADMIN)
class StopMoves(Act):
    """Stops the current run."""

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return replace(super().need(cluster, params, rows), every_topic=True)

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        run = next((each for each in call.hub.moves.runs if not each.is_over), None)
        if run is None:
            raise ClientError(Failure.INVALID, "no run of this dashboard is under way")
        progress = "" if run.progress is None else f" ({progress_text(run.progress)})"
        return Plan(
            f"Stop: {run.title}",
            f"completed reassignments stay{progress}; current ones are cancelled, and the throttle is removed",
            "",
            _Stop(call.hub.moves, run.id),
            verb="Stop",
        )


def layout(context: Context, cluster: str, **_: str) -> Component:
    is_limited = context.identity().scope.topics != EVERYTHING
    return shell(
        context,
        cluster,
        NAME,
        TITLE,
        [
            panel(
                "All reassignments",
                "reassignments",
                "facts",
                cluster=cluster,
                note="Those of every tool. The rate is that of the last 15 seconds.",
            ),
            table(
                "Moving partitions",
                "moving-partitions",
                MovingPartitions.COLUMNS,
                cluster=cluster,
                noun="partition",
                can_mark=True,
                height_rows=ROWS_HIGH,
                note="Bytes are those that the new replicas copy together.",
                empty="No replica is being moved.",
                actions=[
                    act_button("Cancel marked", "cancel-moves", role=Role.ADMIN, destructive=True, rows="marked"),
                    act_button("Cancel all", "cancel-moves", role=Role.ADMIN, destructive=True),
                ],
            ),
            html.P(HIDDEN, className="panel")
            if is_limited
            else listing(
                "Runs of this dashboard",
                "move-runs",
                MoveRunsChannel.COLUMNS,
                cluster=cluster,
                rows=KEPT_MAX,
                note="Drains and other plans that were started here. They end with the dashboard.",
                empty="No reassignment was started from this dashboard. Drain a broker on its page, or balance all on "
                "the page Brokers.",
                actions=[act_button("Stop", "stop-moves", role=Role.ADMIN, destructive=True)],
            ),
        ],
        actions=[link("Brokers", page_path(cluster, "brokers"))],
    )


PAGE = Page(NAME, TITLE, layout, old_names=("moves",))
