"""Log directories: how full each is, and the replicas in it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.log_dirs import LogDir
from broker_cy.console.columns import log_dirs
from broker_cy.console.rows import ReplicaRow, replica_rows


class LogDirsView(View):
    """All log directories."""

    NAME = "log-dirs"
    ABOUT = """The upper table has each log directory with the size of its replicas and the free space of its volume.
    The lower one has the replicas, the largest first. `enter` opens the topic of a replica."""
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = "LogDirsView #dirs { height: 1fr; max-height: 10; } LogDirsView #replicas { height: 3fr; }"

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
        yield Grid[ReplicaRow](
            [
                grid_column(log_dirs.REPLICA_TOPIC, flex=True, letter="T"),
                grid_column(log_dirs.REPLICA_PARTITION, letter="P"),
                grid_column(log_dirs.REPLICA_SIZE, letter="S"),
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
        self.link(feed, self.query_one("#replicas"), lambda: None)
        self.query_one("#replicas").focus()

    def _show(self) -> None:
        outcome = self.session.log_dirs().value
        if outcome is None:
            return
        dirs = [each for directories in outcome.found.values() for each in directories]
        self.query_one("#dirs", Grid).set_rows(dirs)
        self.query_one("#replicas", Grid).set_rows(replica_rows(dirs))

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        if event.grid.id == "replicas":
            self.console_app.show_view("topic", event.row.replica.topic)
