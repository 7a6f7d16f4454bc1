"""Log directories: how full each is, and the replicas in it."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.log_dirs import LogDir
from broker_cy.console.rows import ReplicaRow, replica_rows
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, percent, size

# A smaller free share of the volume is shown in red.
FREE_SHARE_MIN = 0.1


def _free(row: LogDir) -> Text:
    if row.usable_bytes is None or row.total_bytes is None:
        return Text("-")
    low = row.usable_bytes < row.total_bytes * FREE_SHARE_MIN
    return Text(f"{size(row.usable_bytes)} {percent(row.usable_bytes, row.total_bytes)}", "bold red" if low else "")


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
                Column("Broker", lambda row: str(row.broker_id), 6, lambda row: row.broker_id, "right"),
                Column("Directory", lambda row: clean(row.path), 20, flex=True),
                Column("Replicas", lambda row: count(len(row.replicas)), 8, None, "right"),
                Column("Logs", lambda row: size(row.size_bytes), 10, None, "right"),
                Column("Free", _free, 15, align="right"),
                Column("State", lambda row: Text(row.error, "bold red") if row.error else Text("ok", "green"), 8),
            ],
            key=lambda row: (row.broker_id, row.path),
            title="Log directories",
            id="dirs",
        )
        yield Grid[ReplicaRow](
            [
                Column(
                    "Topic",
                    lambda row: clean(row.replica.topic),
                    20,
                    lambda row: row.replica.topic,
                    flex=True,
                    letter="T",
                ),
                Column(
                    "Part",
                    lambda row: str(row.replica.partition),
                    6,
                    lambda row: row.replica.partition,
                    "right",
                    letter="P",
                ),
                Column(
                    "Size",
                    lambda row: size(row.replica.size_bytes),
                    10,
                    lambda row: row.replica.size_bytes,
                    "right",
                    letter="S",
                ),
                Column("Behind", lambda row: count(row.replica.offset_lag), 8, None, "right", drop=1),
                Column("Broker", lambda row: str(row.broker_id), 6, None, "right", drop=2),
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
