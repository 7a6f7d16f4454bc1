"""Connections by traffic, from the broker's own samples."""

from __future__ import annotations

from typing import Any

from admin_tui.screens.view import ListView
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.console.columns import requests
from broker_cy.console.figures import connection_rates, newest_of
from broker_cy.metrics.sample import Connection
from broker_cy.reporting.numbers import count


class ConnectionsView(ListView):
    """The connections of the broker."""

    NAME = "connections"
    ABOUT = """Connections with traffic in the last ten seconds, from `__broker_metrics`: client id, address, age,
    requests and bytes per second. A sample has only the busiest connections; the title shows how many were
    omitted."""

    def make_grid(self) -> Grid[Any]:
        return Grid[Connection](
            [
                grid_column(requests.CLIENT_ID, flex=True, letter="C"),
                grid_column(requests.HOST, letter="H"),
                grid_column(requests.LISTENER, drop=2),
                grid_column(requests.OPEN_FOR, drop=1, letter="F"),
                grid_column(requests.CONNECTION_REQUESTS, letter="R"),
                grid_column(requests.CONNECTION_IN, letter="I"),
                grid_column(requests.CONNECTION_OUT, letter="O"),
                grid_column(requests.CONNECTION_ID, drop=3),
            ],
            key=lambda row: row.id,
            text=lambda row: f"{row.client_id} {row.host} {row.id}",
            title="Connections",
            sort="In/s",
            descending=True,
        )

    def connect(self) -> None:
        self.link(self.session.samples, self.grid, self._show)

    def _show(self) -> None:
        samples = newest_of(list(self.session.samples.items))
        if not samples:
            return
        last = samples[-1]
        left_out = f", {count(last.busy_left_out)} left out" if last.busy_left_out else ""
        self.grid.title = f"Connections ({count(last.connections)} open{left_out})"
        self.grid.set_rows(connection_rates(samples))
