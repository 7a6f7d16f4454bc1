"""Delegation tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.tokens import DelegationToken
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.tokens import (
    expire_form,
    new_token_form,
    plan_create_token,
    plan_expire_token,
    plan_renew_token,
    renew_form,
    token_time,
)
from broker_cy.console.columns import tokens


class DelegationTokensView(ListView):
    """All tokens that the user of the console may see."""

    NAME = "delegation-tokens"
    ABOUT = """Delegation tokens, with which jobs log in as a user without its password: those that the user of this
    console owns, has requested, may renew or may describe. A token is valid until it expires; renewing extends it, at
    most until the end of its life.

`c` creates a token, and shows its HMAC once. `e` renews the selected one, `ctrl+d` expires it: clients that logged in
with it are disconnected."""
    CHANGES = frozenset({"create", "renew", "expire"})
    NEEDS_ROW = frozenset({"renew", "expire"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "create", "Create", id="delegation-tokens.create"),
        Binding("e", "renew", "Renew", id="delegation-tokens.renew"),
        Binding("ctrl+d", "expire", "Expire", id="delegation-tokens.expire"),
    ]

    def make_grid(self) -> Grid[Any]:
        return Grid[DelegationToken](
            [
                grid_column(tokens.OWNER, flex=True, letter="O"),
                grid_column(tokens.TOKEN_ID, letter="I"),
                grid_column(tokens.RENEWERS, flex=True, drop=2, letter="R"),
                grid_column(tokens.REQUESTER, drop=4),
                grid_column(tokens.ISSUED, drop=3, time=self._time),
                grid_column(tokens.EXPIRES, letter="E", time=self._time),
                grid_column(tokens.END_OF_LIFE, drop=1, time=self._time),
            ],
            key=lambda row: row.token_id,
            text=lambda row: f"{row.owner} {row.token_id} {' '.join(row.renewers)} {row.requester}",
            noun="token",
            title="Delegation tokens",
            sort="Expires",
        )

    def _time(self, ms: int) -> str:
        # To the second: nothing about a token needs more.
        shown = token_time(ms, utc=self.console_app.settings.utc)
        return shown.partition(".")[0]

    def connect(self) -> None:
        self.link(self.session.tokens(), self.grid, self._show)

    def _show(self) -> None:
        found = self.session.tokens().value
        if found is not None:
            self.grid.set_rows(found)

    def action_create(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_create_token(self.command, values)

        self.act(plan, form=new_token_form())

    def action_renew(self) -> None:
        row: DelegationToken | None = self.grid.selected
        if row is None:
            return
        chosen = row

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_renew_token(self.command, chosen, values)

        self.act(plan, form=renew_form(chosen))

    def action_expire(self) -> None:
        row: DelegationToken | None = self.grid.selected
        if row is None:
            return
        chosen = row

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_expire_token(self.command, chosen, values)

        self.act(plan, form=expire_form(chosen))
