"""The history of rebalances: cause, member, phases, partitions moved, stall."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column, time_columns
from admin_tui.widgets.grid import Grid
from broker_cy.console.columns import rebalances
from broker_cy.console.event_text import detail_of
from broker_cy.metrics.events import Rebalance, Stamped, StaticReplacement


class RebalancesView(View):
    """Rebalances of one group, or of all."""

    NAME = "rebalances"
    ABOUT = """Each rebalance with its cause and the member that caused it, how long the group waited for its members
    (join) and for the assignment (sync), how many partitions moved, and the longest stall of a partition. The lower
    part has every field of the selected rebalance. Source: `__cluster_events`, groups of the classic protocol."""
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    RebalancesView VerticalScroll { height: 2fr; border: round $panel-lighten-2; }
    RebalancesView Grid { height: 3fr; }
    RebalancesView Static { height: auto; }
    """

    def __init__(self, group_id: str = "") -> None:
        super().__init__()
        self.group_id = group_id

    @property
    def path(self) -> str:
        return f"groups > {self.group_id} > rebalances" if self.group_id else "rebalances"

    def body(self) -> ComposeResult:
        yield Grid[Stamped](
            [
                *time_columns(lambda row: row.time_ms, lambda: self.console_app.settings.utc),
                grid_column(rebalances.GROUP, flex=True, letter="O"),
                grid_column(rebalances.GENERATION, drop=5),
                grid_column(rebalances.CAUSE),
                grid_column(rebalances.MEMBER, drop=3),
                grid_column(rebalances.MEMBERS, drop=2),
                grid_column(rebalances.JOIN, drop=4),
                grid_column(rebalances.SYNC, drop=4),
                grid_column(rebalances.TOTAL, drop=1, letter="T"),
                grid_column(rebalances.MOVED, letter="M"),
                grid_column(rebalances.LONGEST_STALL, letter="S"),
            ],
            key=lambda row: (row.time_ms, row.event.key, row.event.TYPE),
            title="Rebalances",
            stays_first=True,
        )
        with VerticalScroll(can_focus=True):
            yield Static("")

    def connect(self) -> None:
        self.link(self.session.events, self.grid, self._show)
        self.grid.focus()

    def _show(self) -> None:
        self.grid.set_rows(
            row
            for row in reversed(self.session.events.items)
            if isinstance(row.event, Rebalance | StaticReplacement)
            and (not self.group_id or row.event.key == self.group_id)
        )

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        row: Any = self.grid.selected
        shown = "" if row is None else detail_of(row, utc=self.console_app.settings.utc)
        self.query_one(Static).update(Text(shown))
