"""One stream processing application: its tasks, instances and problems."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts, toned
from admin_tui.widgets.grid import Grid
from broker_cy.admin.streams_rows import BatchRow, InstanceRow, TaskRow
from broker_cy.console.columns import streams as columns
from broker_cy.console.streams import facts_of
from broker_cy.reporting.numbers import when


class StreamView(View):
    """The tasks of an application."""

    NAME = "stream"
    ABOUT = """The tasks of an application at its instances: active ones, standbys that copy their state, and warm-ups,
which become active. The lag counts records of the inputs of a task that were not processed; dropped records were late,
had no key, or were skipped by a handler. Below are its instances, with what is wrong, and the batches of an
application on Spark.

Tasks, instances and lag come from the brokers. States, rates, rows and restoring come from instances that answer at
application.server. `enter` opens the group."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "group", "Group", id="stream.group"),
    ]
    DEFAULT_CSS = """
    StreamView Facts { max-height: 6; }
    StreamView #tasks { height: 2fr; }
    StreamView #instances { height: 1fr; min-height: 5; }
    StreamView #batches { height: 1fr; min-height: 5; display: none; }
    """

    def __init__(self, application: str) -> None:
        super().__init__()
        self.application_name = application

    @property
    def path(self) -> str:
        return f"streams > {self.application_name}"

    def body(self) -> ComposeResult:
        yield Facts("Application", id="facts")
        yield Grid[TaskRow](
            [
                grid_column(columns.TASK, letter="T"),
                grid_column(columns.ROLE, letter="O"),
                grid_column(columns.WHERE, 14, flex=True, drop=2, letter="I"),
                grid_column(columns.TASK_STATE, letter="S"),
                grid_column(columns.TASK_LAG, 8, letter="L"),
                grid_column(columns.TASK_RECORDS, drop=1, letter="R"),
                grid_column(columns.TASK_ROWS, drop=5),
                grid_column(columns.STATE_BYTES, drop=6),
                grid_column(columns.RESTORED, drop=7),
                grid_column(columns.TO_RESTORE, drop=3, letter="E"),
                grid_column(columns.DROPPED, drop=4, letter="D"),
                grid_column(columns.STREAM_TIME, drop=8, time=lambda ms: when(ms, utc=self.console_app.settings.utc)),
            ],
            key=lambda row: (row.task, row.role, row.where),
            text=lambda row: f"{row.task} {row.role} {row.where} {row.state}",
            noun="task",
            title="Tasks",
            sort="Task",
            id="tasks",
        )
        yield Grid[InstanceRow](
            [
                grid_column(columns.ENDPOINT, 14, flex=True, letter="E"),
                grid_column(columns.HOST, drop=3, letter="H"),
                grid_column(columns.INSTANCE_STATE, letter="S"),
                grid_column(columns.ACTIVE, letter="A"),
                grid_column(columns.STANDBY, drop=4),
                grid_column(columns.WARMUP, drop=5),
                grid_column(columns.INSTANCE_RECORDS, drop=1, letter="R"),
                grid_column(columns.COMMITS, drop=2),
                grid_column(columns.INSTANCE_PROBLEM, 16, flex=True, letter="P"),
            ],
            key=lambda row: row.member,
            text=lambda row: f"{row.endpoint or ''} {row.host} {row.state} {row.problem}",
            noun="instance",
            title="Instances",
            id="instances",
        )

        yield Grid[BatchRow](
            [
                grid_column(columns.BATCH_PART, letter="U"),
                grid_column(columns.BATCH_NUMBER, drop=9, letter="N"),
                grid_column(columns.BATCHES, letter="B"),
                grid_column(columns.BATCH_RECORDS, letter="R"),
                grid_column(columns.TRIGGER_LAG, letter="G"),
                grid_column(columns.BATCH_MS, letter="D"),
                grid_column(columns.BATCH_MAX_MS, drop=8),
                grid_column(columns.PLAN_MS, drop=5),
                grid_column(columns.TASKS_MS, drop=4),
                grid_column(columns.READ_MS, drop=7),
                grid_column(columns.PROCESS_MS, drop=3),
                grid_column(columns.WRITE_MS, drop=6),
                grid_column(columns.DECIDE_MS, drop=2),
                grid_column(columns.COMMIT_MS, drop=1),
                grid_column(columns.RUNS),
            ],
            key=lambda row: row.subtopology,
            text=lambda row: row.subtopology,
            noun="sub-topology",
            title="Batches on Spark",
            id="batches",
        )

    def connect(self) -> None:
        feed = self.session.streams_application(self.application_name)
        self.link(feed, self.query_one("#tasks", Grid), self._show)
        self.also(feed, self._show_rest)
        self.query_one("#tasks", Grid).focus()

    def _show(self) -> None:
        view = self.session.streams_application(self.application_name).value
        if view is not None:
            self.query_one("#tasks", Grid).set_rows(view.application.tasks)

    def _show_rest(self) -> None:
        view = self.session.streams_application(self.application_name).value
        if view is None:
            return
        self.query_one(Facts).set_facts(toned(facts_of(view)))
        instances: Grid[Any] = self.query_one("#instances", Grid)
        instances.set_notice("no instance")
        instances.set_rows(view.application.instances)
        batches: Grid[Any] = self.query_one("#batches", Grid)
        batches.display = bool(view.application.batches)
        batches.set_rows(view.application.batches)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_group()

    def action_group(self) -> None:
        self.console_app.show_view("group", self.application_name)
