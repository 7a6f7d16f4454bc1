"""The stream processing applications of the cluster."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.streams_applications import StreamsApplication
from broker_cy.console.columns import streams as columns


class StreamsView(ListView):
    """All applications."""

    NAME = "streams"
    ABOUT = """The groups of the streams protocol (KIP-1071): applications of broker-streams, and of Kafka Streams; and
applications that a driver on Spark has announced. The lag counts records of all inputs that were not processed. Records
in a second, rows of stores and records to restore are those of instances that report their state (application.server).

`enter` shows the tasks of an application, with its instances and problems."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Tasks", id="streams.open"),
    ]
    NEEDS_ROW = frozenset({"open"})

    def make_grid(self) -> Grid[Any]:
        return Grid[StreamsApplication](
            [
                grid_column(columns.APPLICATION, 14, flex=True, letter="A"),
                grid_column(columns.STATE, letter="S"),
                grid_column(columns.INSTANCES, drop=3, letter="I"),
                grid_column(columns.TASKS, drop=4, letter="T"),
                grid_column(columns.LAG, 8, letter="L"),
                grid_column(columns.RECORDS, drop=1, letter="R"),
                grid_column(columns.ROWS, drop=5),
                grid_column(columns.REMAINING, drop=2, letter="E"),
                grid_column(columns.PROBLEMS, letter="P"),
            ],
            key=lambda row: row.name,
            text=lambda row: f"{row.name} {row.state}",
            noun="application",
            title="Streams",
            sort="Application",
        )

    def connect(self) -> None:
        self.link(self.session.streams(), self.grid, self._show)

    def _show(self) -> None:
        found = self.session.streams().value
        if found is not None:
            self.grid.set_rows(found)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        row: StreamsApplication | None = self.grid.selected
        if row is not None:
            self.console_app.show_view("stream", row.name)
