"""The rules of the alert file: which are broken, by what, since when."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from admin_tui.screens.view import ListView
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.text import clean, duration
from broker_cy.console.alerts import Finding

_STYLES = {"broken": "bold red", "waiting": "yellow", "ok": "green", "unknown": "bright_black"}


class AlertsView(ListView):
    """All rules."""

    NAME = "alerts"
    ABOUT = """The rules of the file given with `--alerts` (or `alerts` in tui.toml), looked at every few seconds,
    whatever is on the screen. `waiting`: it does not hold, but not yet for as long as `for` says. `unknown`: what it
    is about could not be asked for."""

    def make_grid(self) -> Grid[Any]:
        return Grid[Finding](
            [
                Column("State", lambda row: Text(row.state, _STYLES[row.state]), 8, lambda row: row.state, letter="S"),
                Column("Rule", lambda row: clean(row.rule.name), 20, lambda row: row.rule.name, letter="R"),
                Column("Kind", lambda row: row.rule.kind, 19, drop=2),
                Column("What", lambda row: clean(row.text), 20, flex=True),
                Column("Since", lambda row: "-" if row.for_s is None else duration(row.for_s * 1000), 9, None, "right"),
            ],
            key=lambda row: (row.rule.name, row.subject),
            title="Alerts",
        )

    def connect(self) -> None:
        watch = self.console_app.alerts
        if watch is None:
            self.grid.set_notice("no rules: start with --alerts FILE, or name it in tui.toml")
            return
        self.link(watch, self.grid, lambda: self.grid.set_rows(watch.findings))
