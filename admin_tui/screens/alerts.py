"""The rules, the alerts that fire with their cause and duration, and the counts of the webhook's deliveries."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts, toned
from admin_tui.widgets.grid import Grid
from broker_cy.console.alerts.watch import Finding, Watch
from broker_cy.console.columns import alerts
from broker_cy.reporting.foreign_text import clean


class AlertsView(View):
    """All rules."""

    NAME = "alerts"
    ABOUT = """Every rule, evaluated every few seconds on any screen. The built-in rules need no file: offline and
    under-replicated partitions, hanging transactions, disks below 10 % free, stalled and stopped groups, a broker
    that is down, a quorum without a leader. `alerts.toml` adds, changes and silences rules.

`pending`: the rule is violated, but not yet for as long as it requires. `unknown`: the broker did not answer, or there
are too few observations."""
    DEFAULT_CSS = """
    AlertsView Facts { max-height: 6; }
    AlertsView #detail { height: 5; border: round $panel-lighten-2; border-title-color: $text-accent; }
    """

    def body(self) -> ComposeResult:
        if self.console_app.alerts.settings.webhook is not None:
            yield Facts("Webhook", id="webhook")
        yield Grid[Finding](
            [
                grid_column(alerts.STATE, letter="S"),
                grid_column(alerts.RULE, letter="R"),
                grid_column(alerts.KIND, drop=2),
                grid_column(alerts.WHAT, flex=True),
                grid_column(alerts.FOR),
            ],
            key=lambda row: (row.rule.name, row.subject, row.state),
            text=lambda row: f"{row.state} {row.rule.name} {row.text}",
            title="Alerts",
            sort="State",
        )
        yield Static(Text(""), id="detail")

    def on_grid_moved(self, event: Grid.Moved) -> None:
        """Show the full text of the selected alert, because its column is truncated on a narrow screen."""
        event.stop()
        finding: Finding | None = self.grid.selected
        detail = self.query_one("#detail", Static)
        detail.border_title = Text("" if finding is None else clean(finding.rule.name))
        detail.update(Text("" if finding is None else clean(finding.text) or "no alert"))

    @property
    def _watch(self) -> Watch:
        return self.console_app.alerts.watch(self.session.entry.name)

    def connect(self) -> None:
        self.link(self._watch, self.grid, self._show)
        self.grid.focus()
        self._show_webhook()

    def _show(self) -> None:
        self.grid.set_rows(self._watch.findings)
        self._show_webhook()

    def _show_webhook(self) -> None:
        facts = self.console_app.alerts.webhook_facts()
        if facts:
            self.query_one(Facts).set_facts(toned(facts))
