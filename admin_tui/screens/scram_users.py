"""SCRAM users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.scram_users import ScramCredential
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.users import password_form, plan_delete_credential, plan_password
from broker_cy.console.columns import access


class ScramUsersView(ListView):
    """All credentials."""

    NAME = "scram-users"
    ABOUT = """Users that log in with SCRAM-SHA-256 or SCRAM-SHA-512: one row for each mechanism of a user. Brokers
    never return passwords or stored credentials.

`c` creates a user, `e` sets another password, `ctrl+d` deletes the credential. A change takes effect at the next
login."""
    CHANGES = frozenset({"create", "password", "delete"})
    NEEDS_ROW = frozenset({"password", "delete"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "create", "Create", id="scram-users.create"),
        Binding("e", "password", "Password", id="scram-users.password"),
        Binding("ctrl+d", "delete", "Delete", id="scram-users.delete"),
    ]

    def make_grid(self) -> Grid[Any]:
        return Grid[ScramCredential](
            [
                grid_column(access.USER, flex=True, letter="U"),
                grid_column(access.MECHANISM, letter="M"),
                grid_column(access.ITERATIONS),
            ],
            key=lambda row: (row.user, row.mechanism),
            text=lambda row: f"{row.user} {row.mechanism}",
            title="SCRAM users",
        )

    def connect(self) -> None:
        self.link(self.session.scram_users(), self.grid, self._show)

    def _show(self) -> None:
        found = self.session.scram_users().value
        if found is not None:
            self.grid.set_rows(found)

    def action_create(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_password(self.client, self.command, values, is_new=True)

        self.act(plan, form=password_form())

    def action_password(self) -> None:
        row: ScramCredential | None = self.grid.selected
        if row is None:
            return

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_password(self.client, self.command, values, is_new=False)

        self.act(plan, form=password_form(row))

    def action_delete(self) -> None:
        row: ScramCredential | None = self.grid.selected
        if row is None:
            return
        chosen = row

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_delete_credential(self.command, chosen)

        self.act(plan)
