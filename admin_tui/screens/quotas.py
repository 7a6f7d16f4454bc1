"""Quotas: those that are set, which of them apply to a client, and what clients use of them now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from admin_tui.dialogs.form import FormDialog
from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.quotas import (
    change_quota_form,
    effect_form,
    new_quota_form,
    new_row_of,
    plan_remove_quotas,
    plan_set_quota,
)
from broker_cy.console.columns import quotas
from broker_cy.console.figures import newest_of
from broker_cy.console.quotas import QuotaRow, QuotaUse, effect_lines, quota_rows, quota_uses
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count

HINT = "x shows which quotas apply to a user, a client id or an address"


class QuotasView(View):
    """All quotas, and their use."""

    NAME = "quotas"
    ABOUT = """Quotas of users, client ids and addresses; `(default)` applies to all names without one. Each broker
    counts separately. The first quota of this order applies to a client: user with client id, user, client id,
    each by name before the default.

The lower table has the clients that use a quota or were throttled in the last ten seconds, at each broker; it needs the
samples of broker-cy. `x` shows which quotas apply to a client. `c` sets a quota, `e` changes the selected one, `ctrl+d`
removes the marked ones, or the selected one."""
    CHANGES = frozenset({"create", "change", "remove"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "explain", "Which apply", id="quotas.explain"),
        Binding("c", "create", "Set", id="quotas.create"),
        Binding("e", "change", "Change", id="quotas.change"),
        Binding("ctrl+d", "remove", "Remove", id="quotas.remove"),
    ]
    DEFAULT_CSS = """
    QuotasView Grid { height: 1fr; }
    QuotasView #answer { height: auto; max-height: 8; border: round $panel-lighten-2; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._asked: Mapping[str, str] = {}

    def body(self) -> ComposeResult:
        yield Grid[QuotaRow](
            [
                grid_column(quotas.ENTITY, flex=True, letter="E"),
                grid_column(quotas.QUOTA, letter="Q"),
                grid_column(quotas.VALUE, letter="V"),
            ],
            key=lambda row: row.id,
            text=lambda row: f"{row.whose} {row.key}",
            noun="quota",
            title="Quotas",
            id="quotas",
            can_mark=True,
        )
        yield Grid[QuotaUse](
            [
                grid_column(quotas.USE_ENTITY, 18, flex=True, letter="E"),
                grid_column(quotas.BROKER, drop=4),
                grid_column(quotas.USE_QUOTA, letter="Q"),
                grid_column(quotas.RATE, drop=2, letter="R"),
                grid_column(quotas.LIMIT, drop=3),
                grid_column(quotas.USED, letter="U"),
                grid_column(quotas.THROTTLED, drop=1, letter="D"),
                grid_column(quotas.THROTTLE_TIME, letter="T"),
            ],
            key=lambda row: (row.broker, row.key, row.user, row.client_id),
            text=lambda row: f"{row.whose} {row.key}",
            title="Use, of the last 10 s",
            id="uses",
            sort="Throttle time",
            descending=True,
        )
        yield Static(Text(HINT, "bright_black"), id="answer")

    def connect(self) -> None:
        self.link(self.session.quotas(), self.query_one("#quotas"), self._show)
        self.link(self.session.samples, self.query_one("#uses"), self._show_uses)
        self.query_one("#quotas").focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#answer", Static).border_title = "Which quotas apply"

    def _show(self) -> None:
        found = self.session.quotas().value
        if found is not None:
            self.query_one("#quotas", Grid).set_rows(quota_rows(found))

    def _show_uses(self) -> None:
        rows, left_out = quota_uses(newest_of(list(self.session.samples.items)))
        grid = self.query_one("#uses", Grid)
        grid.title = f"Use, of the last 10 s{f' ({count(left_out)} left out)' if left_out else ''}"
        grid.set_rows(rows)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("change", "remove") and self._selected is None:
            return False
        return super().check_action(action, parameters)

    @property
    def _selected(self) -> QuotaRow | None:
        return self.query_one("#quotas", Grid).selected if self.query("#quotas") else None

    def action_create(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_set_quota(self.client, self.command, new_row_of(values))

        self.act(plan, form=new_quota_form())

    def action_change(self) -> None:
        row = self._selected
        if row is None:
            return

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_set_quota(self.client, self.command, QuotaRow(row.entity, row.key, values["value"]))

        self.act(plan, form=change_quota_form(row))

    def action_remove(self) -> None:
        chosen = list(self.query_one("#quotas", Grid).chosen)
        if not chosen:
            return

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_remove_quotas(self.command, chosen)

        self.act(plan)

    def action_explain(self) -> None:
        self.run_worker(self._explain(), group="explain", exclusive=True)

    async def _explain(self) -> None:
        values = await self.app.push_screen_wait(FormDialog(effect_form(self._asked)))
        if values is None:
            return
        found = self.session.quotas().value
        if found is None:
            self.tell(self.session.quotas().error or "the quotas are not known yet", is_error=True)
            return
        self._asked = values
        first, *others = effect_lines(found, **values)
        text = Text(clean(first), "bold")
        for line in others:
            text.append(f"\n{clean(line)}", "not bold")
        self.query_one("#answer", Static).update(text)
