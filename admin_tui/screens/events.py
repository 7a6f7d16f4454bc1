"""Events of the cluster, the newest first."""

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
from broker_cy.console.columns import events
from broker_cy.console.event_text import detail_of
from broker_cy.metrics.events import Stamped


class EventsView(View):
    """All events."""

    NAME = "events"
    ABOUT = """All events of `__cluster_events` except commits: changes of topics and settings with their author,
    rebalances, transactions that timed out, starts and stops of brokers. The lower part has every field of the
    selected event."""
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    EventsView VerticalScroll { height: 2fr; border: round $panel-lighten-2; }
    EventsView Grid { height: 3fr; }
    EventsView Static { height: auto; }
    """

    def body(self) -> ComposeResult:
        yield Grid[Stamped](
            [
                *time_columns(lambda row: row.time_ms, lambda: self.console_app.settings.utc),
                grid_column(events.EVENT),
                grid_column(events.ABOUT, letter="A"),
                grid_column(events.HOW, flex=True),
                grid_column(events.BY, drop=1),
                grid_column(events.BROKER, drop=3),
            ],
            key=lambda row: (row.time_ms, row.event.TYPE, row.key),
            title="Events",
            stays_first=True,
        )
        with VerticalScroll(can_focus=True):
            yield Static("")

    def connect(self) -> None:
        self.link(self.session.events, self.grid, lambda: self.grid.set_rows(reversed(self.session.events.items)))
        self.grid.focus()

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        row: Any = self.grid.selected
        shown = "" if row is None else detail_of(row, utc=self.console_app.settings.utc)
        self.query_one(Static).update(Text(shown))
