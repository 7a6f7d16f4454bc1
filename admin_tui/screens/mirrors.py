"""The flows of mirrors into the cluster."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.console.columns import mirrors as columns
from broker_cy.console.mirrors import MirrorFlow


class MirrorsView(ListView):
    """All flows."""

    NAME = "mirrors"
    ABOUT = """The flows of broker-mirror (kind copy), and the links that the brokers run (kind link). The lag counts
records of the source that were not copied yet; the lag time is the age of the last copied record while others wait.
Loops are topics that come from the target, and are not copied back.

The processes of broker-mirror are those of --mirrors, of the cluster file (mirrors), or of BROKER_CY_MIRRORS. Flows of
other processes are listed by the groups that they have in the cluster, without details.

`enter` shows the partitions of a flow with its problems, loops and restarts."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Partitions", id="mirrors.open"),
    ]
    NEEDS_ROW = frozenset({"open"})

    def make_grid(self) -> Grid[Any]:
        return Grid[MirrorFlow](
            [
                grid_column(columns.FLOW, 12, flex=True, letter="F"),
                grid_column(columns.KIND, drop=4, letter="K"),
                grid_column(columns.STATE, letter="S"),
                grid_column(columns.PROCESSES, drop=8),
                grid_column(columns.TOPICS, drop=7),
                grid_column(columns.PARTITIONS, drop=6),
                grid_column(columns.LAG, 8, letter="L"),
                grid_column(columns.LAG_TIME, 8, letter="T"),
                grid_column(columns.RECORDS, drop=1, letter="R"),
                grid_column(columns.BYTES, drop=2, letter="B"),
                grid_column(columns.PROBLEMS, letter="P"),
                grid_column(columns.LOOPS, drop=3, letter="O"),
                grid_column(columns.RESTARTS, drop=5),
                grid_column(columns.CHECKPOINT, drop=9, letter="C"),
            ],
            key=lambda row: row.name,
            text=lambda row: f"{row.name} {row.kind} {row.state}",
            noun="flow",
            title="Mirrors",
            sort="Flow",
        )

    def connect(self) -> None:
        self.link(self.session.mirrors(), self.grid, self._show)

    def _show(self) -> None:
        found = self.session.mirrors().value
        if found is None:
            return
        self.grid.title = f"Mirrors ({found.remark})" if found.remark else "Mirrors"
        self.grid.set_rows(found.flows)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_open()

    def action_open(self) -> None:
        row: MirrorFlow | None = self.grid.selected
        if row is not None:
            self.console_app.show_view("mirror", row.name)
