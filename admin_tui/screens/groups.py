"""Groups: state, lag with its trend, and a verdict; reset, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.tones import STYLES
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.lag import Status, Trend
from broker_cy.console.acts.groups import plan_delete_groups, plan_reset, reset_form
from broker_cy.console.acts.plan import Plan
from broker_cy.console.rows import STATUS_TONES, GroupRow, catch_up_text
from broker_cy.console.session import now_ms
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, short

STATUS_STYLES = {status: STYLES[tone] for status, tone in STATUS_TONES.items()}


def status_text(status: Status | None) -> Text:
    """Return a verdict in its colour."""
    return Text("-", "bright_black") if status is None else Text(status.name, STATUS_STYLES[status])


def trend_text(trend: Trend | None) -> Text:
    """Return by how much the lag grows or shrinks per second."""
    if trend is None:
        return Text("-", "bright_black")
    grows = trend.lag_per_s
    if abs(grows) < 0.05:
        return Text("= 0/s", "bright_black")
    return Text(f"{'▲' if grows > 0 else '▼'} {short(abs(grows))}/s", "yellow" if grows > 0 else "green")


def _lag(row: GroupRow) -> str:
    if row.summary is None:
        return "-"
    return count(row.summary.lag) if row.summary.is_complete else f">={count(row.summary.lag)}"


class GroupsView(ListView):
    """All groups."""

    NAME = "groups"
    ABOUT = """Every group with its lag over all partitions, the trend of the lag in records per second, the time until
    it is gone, and a verdict from a window of observations:

OK keeps up · WARN consumes, but the lag grows · STALLED has members but does not consume · STOPPED no longer commits ·
REWOUND went back and has not caught up · UNKNOWN not observed for long enough."""
    CHANGES = frozenset({"reset", "delete"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "describe", "Members", id="groups.describe"),
        Binding("b", "rebalances", "Rebalances", id="groups.rebalances"),
        Binding("r", "reset", "Reset", id="groups.reset"),
        Binding("ctrl+d", "delete", "Delete", id="groups.delete"),
    ]

    def make_grid(self) -> Grid[Any]:
        return Grid[GroupRow](
            [
                Column(
                    "Group",
                    lambda row: clean(row.listing.group_id),
                    18,
                    lambda row: row.listing.group_id,
                    flex=True,
                    letter="O",
                ),
                Column("State", lambda row: row.listing.state, 10, lambda row: row.listing.state, letter="S"),
                Column("Type", lambda row: row.listing.group_type, 8, lambda row: row.listing.group_type, drop=4),
                Column(
                    "Parts",
                    lambda row: "-" if row.summary is None else count(row.summary.partitions),
                    5,
                    lambda row: None if row.summary is None else row.summary.partitions,
                    "right",
                    drop=3,
                    letter="P",
                ),
                Column("Lag", _lag, 12, lambda row: row.lag, "right", letter="L"),
                Column(
                    "Trend",
                    lambda row: trend_text(row.trend),
                    9,
                    lambda row: None if row.trend is None else row.trend.lag_per_s,
                    letter="T",
                ),
                Column(
                    "Gone in",
                    lambda row: catch_up_text(row.trend, row.lag),
                    10,
                    drop=2,
                ),
                Column(
                    "Verdict",
                    lambda row: status_text(row.status),
                    8,
                    lambda row: row.status,
                    letter="V",
                ),
            ],
            key=lambda row: row.listing.group_id,
            text=lambda row: f"{row.listing.group_id} {row.listing.state}",
            title="Groups",
            can_mark=True,
            sort="Group",
        )

    def connect(self) -> None:
        self.link(self.session.groups(), self.grid, self._show)
        self.also(self.session.group_lags(), self._show)

    def _show(self) -> None:
        listed, lags = self.session.groups().value, self.session.group_lags().value or {}
        if listed is not None:
            self.grid.set_rows(GroupRow(each, lags.get(each.group_id)) for each in listed)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("describe", "rebalances", "reset", "delete"):
            row: GroupRow | None = self.grid.selected if self.query(Grid) else None
            if row is None:
                return False
        return super().check_action(action, parameters)

    @property
    def _group(self) -> str:
        row: Any = self.grid.selected
        return str(row.listing.group_id)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_describe()

    def action_describe(self) -> None:
        self.console_app.show_view("group", self._group)

    def action_rebalances(self) -> None:
        self.console_app.show_view("rebalances", self._group)

    def action_reset(self) -> None:
        group = self._group
        self.act(
            lambda values: plan_reset(self.client, self.command, group, values, now_ms()),
            form=reset_form(group),
        )

    def action_delete(self) -> None:
        ids = [row.listing.group_id for row in self.grid.chosen]

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_delete_groups(self.client, self.command, ids)

        self.act(plan, then=self.grid.marks.clear)
