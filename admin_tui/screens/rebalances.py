"""The history of rebalances: cause, member, phases, partitions moved, stall."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from admin_tui.screens.view import View
from admin_tui.widgets.grid import Column, Grid, time_columns
from broker_cy.console.event_text import detail_of
from broker_cy.metrics.events import Rebalance, Stamped, StaticReplacement
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import duration

# A longer stall of a partition is shown in red.
STALL_NOTED_MS = 5_000


def _rebalance(row: Stamped) -> Rebalance | None:
    return row.event if isinstance(row.event, Rebalance) else None


def _reason(row: Stamped) -> Text:
    event = _rebalance(row)
    if event is None:
        return Text("static replacement", "cyan")
    reasons = ", ".join(dict.fromkeys(trigger.reason.replace("_", " ") for trigger in event.triggers))
    return Text(clean(reasons or "-"), "yellow" if "timeout" in reasons else "")


def _stall(row: Stamped) -> Text:
    event = _rebalance(row)
    if event is None:
        return Text("-")
    return Text(duration(event.stall_max_ms), "bold red" if event.stall_max_ms > STALL_NOTED_MS else "")


def _who(row: Stamped) -> str:
    event = row.event
    if isinstance(event, StaticReplacement):
        return clean(event.instance_id)
    if isinstance(event, Rebalance) and event.triggers:
        first = event.triggers[0]
        return clean(first.client_id or first.instance_id or first.member_id)
    return "-"


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
                Column("Group", lambda row: clean(row.event.key), 12, lambda row: row.event.key, flex=True, letter="O"),
                Column("Gen", lambda row: str(getattr(row.event, "generation", "-")), 5, None, "right", drop=3),
                Column("Why", _reason, 15),
                Column("Who", _who, 12, drop=2),
                Column(
                    "Members",
                    lambda row: (
                        "-" if (event := _rebalance(row)) is None else f"{event.members_before}->{event.members_after}"
                    ),
                    7,
                    None,
                    "right",
                    drop=1,
                ),
                Column("Join", lambda row: _ms(row, "join_ms"), 8, None, "right", drop=4),
                Column("Sync", lambda row: _ms(row, "sync_ms"), 8, None, "right", drop=4),
                Column(
                    "Total", lambda row: _ms(row, "total_ms"), 8, lambda row: _of(row, "total_ms"), "right", letter="T"
                ),
                Column(
                    "Moved",
                    lambda row: str(getattr(row.event, "moves_total", "-")),
                    6,
                    lambda row: _of(row, "moves_total"),
                    "right",
                    letter="M",
                ),
                Column("Stall", _stall, 9, lambda row: _of(row, "stall_max_ms"), "right", letter="S"),
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


def _of(row: Stamped, name: str) -> int | None:
    return getattr(row.event, name, None)


def _ms(row: Stamped, name: str) -> str:
    return duration(_of(row, name))
