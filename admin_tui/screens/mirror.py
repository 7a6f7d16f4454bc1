"""One flow of a mirror: its partitions, and its problems, loops and restarts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts, toned
from admin_tui.widgets.grid import Grid
from broker_cy.console.acts.mirrors import plan_pause, plan_promote
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import mirrors as columns
from broker_cy.console.mirrors import FlowPartition, MirrorFlow, Note, facts_of
from broker_cy.reporting.numbers import when

GONE = "The cluster has no such flow."


class MirrorView(View):
    """The partitions of a flow."""

    NAME = "mirror"
    ABOUT = """The partitions of a flow with the next offset to copy, the end of the source, and the lag in records and
time. Below are its problems, its loops (topics that come from the target, and are not copied back) and its restarts,
with their causes.

Topics of a link can be paused (`p`), resumed (`r`) and promoted (`o`): the topics of the marked partitions, or of the
selected one. A promotion ends the mirror: producers may write into the topic. It cannot be undone. `enter` opens the
topic of the target."""
    CHANGES = frozenset({"pause", "resume_mirror", "promote"})
    NEEDS_ROW = frozenset({"pause", "resume_mirror", "promote", "topic"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "topic", "Topic", id="mirror.topic"),
        Binding("p", "pause", "Pause", id="mirror.pause"),
        Binding("r", "resume_mirror", "Resume", id="mirror.resume"),
        Binding("o", "promote", "Promote", id="mirror.promote"),
    ]
    DEFAULT_CSS = """
    MirrorView Facts { max-height: 6; }
    MirrorView #partitions { height: 2fr; }
    MirrorView #notes { height: 1fr; min-height: 5; }
    """

    def __init__(self, flow: str) -> None:
        super().__init__()
        self.flow_name = flow

    @property
    def path(self) -> str:
        return f"mirrors > {self.flow_name}"

    @property
    def flow(self) -> MirrorFlow | None:
        found = self.session.mirrors().value
        return None if found is None else found.flow(self.flow_name)

    def body(self) -> ComposeResult:
        yield Facts("Flow", id="facts")
        yield Grid[FlowPartition](
            [
                grid_column(columns.TOPIC, 14, flex=True, letter="T"),
                grid_column(columns.PARTITION, letter="P"),
                grid_column(columns.REMOTE_TOPIC, 14, flex=True, drop=4, letter="R"),
                grid_column(columns.POSITION, drop=2),
                grid_column(columns.END, drop=3),
                grid_column(columns.PARTITION_LAG, 8, letter="L"),
                grid_column(columns.PARTITION_LAG_TIME, 8, letter="I"),
                grid_column(columns.PARTITION_STATE, letter="S"),
                grid_column(columns.PROBLEM, 16, flex=True, drop=1, letter="E"),
            ],
            key=lambda row: row.id,
            text=lambda row: f"{row.id} {row.topic} {row.state} {row.problem or ''}",
            noun="partition",
            title="Partitions",
            can_mark=True,
            sort="Partition",
            id="partitions",
        )
        yield Grid[Note](
            [
                grid_column(columns.NOTE_KIND, letter="K"),
                grid_column(columns.NOTE_TIME, drop=1, time=lambda ms: when(ms, utc=self.console_app.settings.utc)),
                grid_column(columns.NOTE_SUBJECT, 20, letter="S"),
                grid_column(columns.NOTE_TEXT, 30, flex=True),
            ],
            key=lambda row: (row.kind, row.subject, row.text, row.time_ms),
            text=lambda row: f"{row.kind} {row.subject} {row.text}",
            noun="note",
            title="Problems, loops and restarts",
            id="notes",
        )

    def connect(self) -> None:
        feed = self.session.mirrors()
        self.link(feed, self.query_one("#partitions", Grid), self._show)
        self.also(feed, self._show_rest)
        self.query_one("#partitions", Grid).focus()

    def _show(self) -> None:
        found = self.session.mirrors().value
        if found is None:
            return
        flow = self.flow
        self.query_one("#partitions", Grid).set_rows(() if flow is None else flow.partitions)

    def _show_rest(self) -> None:
        if self.session.mirrors().value is None:
            return
        flow = self.flow
        facts, notes = self.query_one(Facts), self.query_one("#notes", Grid)
        if flow is None:
            facts.set_facts([("flow", self.flow_name), ("state", GONE)])
            notes.set_rows(())
            return
        facts.set_facts(toned(facts_of(flow)))
        notes.set_notice("no problem, no loop and no restart")
        notes.set_rows(flow.notes)

    # ------------------------------------------------------------------------------------------------ acts

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in self.CHANGES and (self.flow is None or not self.flow.is_link):
            return False
        return super().check_action(action, parameters)

    @property
    def _topics(self) -> list[str]:
        """The topics of the marked partitions, or of the selected one."""
        return list(dict.fromkeys(row.remote_topic for row in self.query_one("#partitions", Grid).chosen))

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_topic()

    def action_topic(self) -> None:
        row = self.query_one("#partitions", Grid).selected
        if row is not None:
            self.console_app.show_view("topic", row.remote_topic)

    def action_pause(self) -> None:
        self._set_paused(True)

    def action_resume_mirror(self) -> None:
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        names = self._topics

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_pause(self.client, self.command, names, paused=paused)

        self.act(plan)

    def action_promote(self) -> None:
        names = self._topics

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_promote(self.session, self.client, self.command, names)

        self.act(plan)
