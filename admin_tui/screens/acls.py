"""Access control lists: create, delete, and explain what decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding as Key
from textual.binding import BindingType
from textual.widgets import Static

from admin_tui.dialogs.form import FormDialog
from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.console.acts.acls import (
    asked_of,
    explain_form,
    new_acl_form,
    plan_create_acl,
    plan_delete_acls,
    verdict_lines,
)
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import access
from broker_cy.reporting.foreign_text import clean
from broker_cy.security.acl_words import shown, word_of
from broker_cy.security.acls import Binding
from broker_cy.security.explain import authorizer_of, explain

HINT = "x explains a decision by the current ACLs"


def answer_text(lines: list[str]) -> Text:
    """An explanation, with the decision in green or red."""
    text = Text()
    for at, line in enumerate(lines):
        is_allowed = line.startswith("ALLOWED")
        text.append(f"{clean(line)}\n", ("bold green" if is_allowed else "bold red") if at == 0 else "")
    text.rstrip()
    return text


class AclsView(View):
    """All ACLs."""

    NAME = "acls"
    ABOUT = """Access control lists. An ACL allows or denies a principal an operation on a resource, on all resources
    with a prefix (a trailing `*`), or on all (`*`). A DENY ACL overrides every ALLOW. An operation without a matching
    ACL is denied, unless the brokers have allow.everyone.if.no.acl.found.

`x` asks for a principal, an operation and a resource, and names the ACL that decides, or the nearest ones. `c` creates
an ACL, `ctrl+d` deletes the marked ones, or the selected one."""
    CHANGES = frozenset({"create", "delete"})
    NEEDS_ROW = frozenset({"delete"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Key("x", "explain", "Explain", id="acls.explain"),
        Key("c", "create", "Create", id="acls.create"),
        Key("ctrl+d", "delete", "Delete", id="acls.delete"),
    ]
    DEFAULT_CSS = """
    AclsView Grid { height: 1fr; }
    AclsView #answer { height: auto; max-height: 9; border: round $panel-lighten-2; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._asked: Mapping[str, str] = {}

    def body(self) -> ComposeResult:
        yield Grid[Binding](
            [
                grid_column(access.RESOURCE, flex=True, letter="R"),
                grid_column(access.PERMISSION, letter="P"),
                grid_column(access.PRINCIPAL, letter="U"),
                grid_column(access.OPERATION, letter="O"),
                grid_column(access.HOST, letter="H", drop=1),
            ],
            key=lambda row: row,
            text=shown,
            title="ACLs",
            id="acls",
            can_mark=True,
        )
        yield Static(Text(HINT, "bright_black"), id="answer")

    def connect(self) -> None:
        self.link(self.session.acls(), self.grid, self._show)
        self.grid.focus()

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#answer", Static).border_title = "Explanation"

    def _show(self) -> None:
        found = self.session.acls().value
        if found is not None:
            self.grid.set_rows(found)

    def action_create(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_create_acl(self.client, self.command, values)

        self.act(plan, form=new_acl_form(self.grid.selected))

    def action_delete(self) -> None:
        chosen = list(self.grid.chosen)
        if not chosen:
            return

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_delete_acls(self.command, chosen)

        self.act(plan)

    def action_explain(self) -> None:
        self.run_worker(self._explain(), group="explain", exclusive=True)

    async def _explain(self) -> None:
        form = FormDialog(explain_form(self._asked))
        values = await self.app.push_screen_wait(form)
        if values is None:
            return
        bindings = self.session.acls().value
        if bindings is None:
            self.tell("the ACLs are not known yet", is_error=True)
            return
        asked = asked_of(values)
        self._asked = {
            "principal": asked.principal,
            "operation": word_of(asked.operation),
            "resource": f"{word_of(asked.resource_type)}:{asked.name}",
            "host": asked.host,
        }
        verdict = explain(authorizer_of(bindings), bindings, asked)
        self.query_one("#answer", Static).update(answer_text(verdict_lines(asked, verdict)))
