"""Failed logins and denied operations, the newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from admin_tui.screens.acls import answer_text
from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column, time_columns
from admin_tui.widgets.grid import Grid
from broker_cy.console.acts.acls import asked_of, explain_form, verdict_lines
from broker_cy.console.columns import access
from broker_cy.console.denials import Denial, asked_texts, denials_of, details
from broker_cy.reporting.foreign_text import clean
from broker_cy.security.explain import authorizer_of, explain


class DeniedRequestsView(View):
    """All denials that the console has seen."""

    NAME = "denied-requests"
    ABOUT = """Failed logins and denied operations, from `__cluster_events`. Equal denials within ten seconds are one
    row with their number. The lower part has the ACL that decided at that time, or the nearest ones; `x` decides again
    by the current ACLs."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "explain", "Explain now", id="denied-requests.explain")]
    DEFAULT_CSS = """
    DeniedRequestsView Grid { height: 1fr; }
    DeniedRequestsView #about { height: 9; border: round $panel-lighten-2; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        # The row that is explained by the current ACLs, until the cursor leaves it.
        self._explained: object = None

    def body(self) -> ComposeResult:
        yield Grid[Denial](
            [
                *time_columns(lambda row: row.time_ms, lambda: self.console_app.settings.utc),
                grid_column(access.DENIED_PRINCIPAL, letter="P"),
                grid_column(access.DENIED_HOST, letter="H", drop=1),
                grid_column(access.DENIED_OPERATION, letter="O", flex=True),
                grid_column(access.DENIED_COUNT, letter="T"),
                grid_column(access.DENIED_REASON, flex=True, drop=2),
            ],
            key=_key,
            text=lambda row: f"{row.who} {row.host} {row.what} {row.why}",
            title="Denied requests",
            stays_first=True,
        )
        yield Static("", id="about")

    def connect(self) -> None:
        self.link(self.session.events, self.grid, self._show)
        self.also(self.session.acls(), lambda: None)
        self.grid.focus()

    def _show(self) -> None:
        self.grid.set_rows(reversed(denials_of(self.session.events.items)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "explain":
            row: Denial | None = self.grid.selected if self.query(Grid) else None
            return row is not None and asked_texts(row.stamped) is not None
        return super().check_action(action, parameters)

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        self.refresh_bindings()
        row: Denial | None = self.grid.selected
        if row is not None and _key(row) == self._explained:
            return
        self._explained = None
        about = self.query_one("#about", Static)
        about.border_title = "Why, at that time"
        about.update(Text("" if row is None else clean_lines(details(row))))

    def action_explain(self) -> None:
        row: Denial | None = self.grid.selected
        texts: Mapping[str, Any] | None = None if row is None else asked_texts(row.stamped)
        bindings = self.session.acls().value
        if texts is None:
            return
        if bindings is None:
            self.tell(self.session.acls().error or "the ACLs are not known yet", is_error=True)
            return
        checked = explain_form(texts).checked(texts)
        if checked.problems:
            self.tell("; ".join(checked.problems.values()), is_error=True)
            return
        assert row is not None
        self._explained = _key(row)
        asked = asked_of(checked.values)
        about = self.query_one("#about", Static)
        about.border_title = "By the current ACLs"
        about.update(answer_text(verdict_lines(asked, explain(authorizer_of(bindings), bindings, asked))))


def _key(row: Denial) -> tuple[object, ...]:
    return (row.time_ms, row.stamped.broker, row.who, row.host, row.what, row.why, row.api)


def clean_lines(lines: list[str]) -> str:
    return "\n".join(clean(line) for line in lines)
