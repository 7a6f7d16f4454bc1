"""Groups: state, lag with its trend, and a verdict; reset, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.tones import STYLES
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.group_values import GroupListing
from broker_cy.console.acts.groups import plan_delete_groups, plan_reset, reset_form
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import groups
from broker_cy.console.feed_values import GroupSummary
from broker_cy.console.rows import STATUS_TONES, GroupRow
from broker_cy.console.session import now_ms

STATUS_STYLES = {status: STYLES[tone] for status, tone in STATUS_TONES.items()}


def _listing(row: GroupRow) -> GroupListing:
    return row.listing


def _summary(row: GroupRow) -> GroupSummary | None:
    return row.summary


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
                grid_column(groups.GROUP.of(_listing), flex=True, letter="O"),
                grid_column(groups.STATE.of(_listing), letter="S"),
                grid_column(groups.TYPE.of(_listing), drop=4),
                grid_column(groups.PROTOCOL.of(_listing), drop=5),
                grid_column(groups.PARTITIONS.of(_summary), drop=3, letter="P"),
                grid_column(groups.LAG.of(_summary), letter="L"),
                grid_column(groups.TREND.of(_summary), letter="T"),
                grid_column(groups.CATCH_UP.of(_summary), drop=2),
                grid_column(groups.STATUS.of(_summary), letter="U"),
            ],
            key=lambda row: row.listing.group_id,
            text=lambda row: f"{row.listing.group_id} {row.listing.state} {row.listing.group_type}",
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
