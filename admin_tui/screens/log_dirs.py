"""Log directories (disks): how full each is, the replicas in it, and moves between those of a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.log_dirs import BrokerReplica, LogDir
from broker_cy.console.acts.directories import (
    balance_form,
    directory_form,
    plan_directory_balance,
    plan_directory_cancel,
    plan_directory_drain,
    plan_directory_move,
    policy_of,
)
from broker_cy.console.acts.pace import pace_form, pace_of
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import log_dirs
from broker_cy.console.directory_moves import MovingReplica, moving_replicas
from broker_cy.console.rows import ReplicaRow, replica_rows


class LogDirsView(View):
    """All log directories."""

    NAME = "log-dirs"
    ABOUT = """The upper table has each log directory (disk) with its state, the size of its replicas and the free space
    of its volume; the middle one has the replicas that move between directories of their broker, with the part that is
    copied. The lower one has all replicas, the largest first. `enter` opens the topic of a replica.

`m` moves the selected replica to another directory of its broker. `b` balances the directories of the broker of the
selected directory, and `d` cordons the directory and moves its replicas away. All of these ask for a throttle. `x`
cancels the selected move, and `X` all moves; both keep the replicas where they are."""
    CHANGES = frozenset({"move", "balance", "drain", "cancel", "cancel_all"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "move", "Move", id="log_dirs.move"),
        Binding("b", "balance", "Balance", id="log_dirs.balance"),
        Binding("d", "drain", "Drain", id="log_dirs.drain"),
        Binding("x", "cancel", "Cancel", id="log_dirs.cancel"),
        Binding("X", "cancel_all", "Cancel all", id="log_dirs.cancel_all"),
    ]
    DEFAULT_CSS = """
    LogDirsView #dirs { height: 3fr; max-height: 12; }
    LogDirsView #moving { height: 2fr; max-height: 7; }
    LogDirsView #replicas { height: 4fr; }
    """

    def body(self) -> ComposeResult:
        yield Grid[LogDir](
            [
                grid_column(log_dirs.BROKER),
                grid_column(log_dirs.DIRECTORY, flex=True),
                grid_column(log_dirs.REPLICAS),
                grid_column(log_dirs.SIZE),
                grid_column(log_dirs.FREE),
                grid_column(log_dirs.STATE),
            ],
            key=lambda row: (row.broker_id, row.path),
            title="Log directories",
            id="dirs",
        )
        yield Grid[MovingReplica](
            [
                grid_column(log_dirs.MOVING, flex=True),
                grid_column(log_dirs.MOVING_BROKER, drop=1),
                grid_column(log_dirs.MOVING_FROM, drop=2),
                grid_column(log_dirs.MOVING_TO),
                grid_column(log_dirs.MOVING_COPIED),
                grid_column(log_dirs.MOVING_TOTAL, drop=3),
                grid_column(log_dirs.MOVING_LAG, drop=4),
                grid_column(log_dirs.MOVING_DONE),
            ],
            key=lambda row: row.replica,
            text=lambda row: str(row.replica.partition),
            title="Moves between directories",
            id="moving",
        )
        yield Grid[ReplicaRow](
            [
                grid_column(log_dirs.REPLICA_TOPIC, flex=True, letter="T"),
                grid_column(log_dirs.REPLICA_PARTITION, letter="P"),
                grid_column(log_dirs.REPLICA_SIZE, letter="S"),
                grid_column(log_dirs.REPLICA_DIRECTORY, flex=True, drop=3),
                grid_column(log_dirs.LAG, drop=1),
                grid_column(log_dirs.REPLICA_BROKER, drop=2),
            ],
            key=lambda row: (row.broker_id, row.path, row.replica.topic, row.replica.partition),
            text=lambda row: f"{row.replica.topic}-{row.replica.partition}",
            title="Replicas",
            id="replicas",
            sort="Size",
            descending=True,
        )

    def connect(self) -> None:
        feed = self.session.log_dirs()
        self.link(feed, self.query_one("#dirs"), self._show)
        self.link(feed, self.query_one("#moving"), lambda: None)
        self.link(feed, self.query_one("#replicas"), lambda: None)
        self.query_one("#replicas").focus()

    def _show(self) -> None:
        outcome = self.session.log_dirs().value
        if outcome is None:
            return
        dirs = [each for directories in outcome.found.values() for each in directories]
        self.query_one("#dirs", Grid).set_rows(dirs)
        self.query_one("#moving", Grid).set_rows(moving_replicas(dirs))
        self.query_one("#replicas", Grid).set_rows(replica_rows(dirs))

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        if event.grid.id == "replicas":
            self.console_app.show_view("topic", event.row.replica.topic)

    def action_move(self) -> None:
        row: ReplicaRow | None = self.query_one("#replicas", Grid).selected
        outcome = self.session.log_dirs().value
        if row is None or outcome is None:
            return
        broker, replica = row.broker_id, row.replica
        others = [each.path for each in outcome.found.get(broker, ()) if each.accepts and each.path != row.path]
        if not others:
            self.tell(f"Broker {broker} has no other directory that takes replicas", is_error=True)
            return

        async def plan(values: Mapping[str, Any]) -> Plan:
            topics = [(replica.topic, (replica.partition,))]
            return await plan_directory_move(
                self.client, self.command, broker, values["directory"], topics, pace_of(values)
            )

        title = f"Move {replica.topic}-{replica.partition} on broker {broker}"
        self.act(plan, form=directory_form(title, "To the directory", others))

    def _directory(self) -> LogDir | None:
        row: LogDir | None = self.query_one("#dirs", Grid).selected
        return row

    def action_balance(self) -> None:
        row = self._directory()
        if row is None:
            return
        broker = row.broker_id

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_directory_balance(
                self.client, self.command, broker, policy_of(values), pace_of(values)
            )  # fmt: skip

        self.act(plan, form=balance_form(f"Balance the directories of broker {broker}"))

    def action_drain(self) -> None:
        row = self._directory()
        if row is None:
            return
        broker, path = row.broker_id, row.path

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_directory_drain(self.client, self.command, broker, path, pace_of(values))

        self.act(plan, form=pace_form(f"Drain {path} of broker {broker}"))

    def action_cancel(self) -> None:
        row: MovingReplica | None = self.query_one("#moving", Grid).selected
        if row is not None:
            broker, key = row.replica
            words = ("--topic", f"{key.topic}:{key.partition}", "--broker", broker)
            self._cancel(lambda each: each == BrokerReplica(broker, key), words)

    def action_cancel_all(self) -> None:
        self._cancel(lambda each: True, ())

    def _cancel(self, wanted: Callable[[BrokerReplica], bool], words: tuple[str | int, ...]) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_directory_cancel(self.client, self.command, wanted, words)

        self.act(plan)
