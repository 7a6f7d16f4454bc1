"""Connections by traffic, from the broker's own samples."""

from __future__ import annotations

from typing import Any

from admin_tui.screens.view import ListView
from admin_tui.widgets.grid import Column, Grid
from broker_cy.console.figures import connection_rates, newest_of
from broker_cy.metrics.sample import Connection
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration, short, size


class ConnectionsView(ListView):
    """The connections of the broker."""

    NAME = "connections"
    ABOUT = """Connections with traffic in the last ten seconds, from `__broker_metrics`: client id, address, age,
    requests and bytes per second. A sample has only the busiest connections; the title shows how many were
    omitted."""

    def make_grid(self) -> Grid[Any]:
        return Grid[Connection](
            [
                Column(
                    "Client id",
                    lambda row: clean(row.client_id or "-"),
                    16,
                    lambda row: row.client_id,
                    flex=True,
                    letter="C",
                ),
                Column("Host", lambda row: clean(row.host), 16, lambda row: row.host, letter="H"),
                Column("Listener", lambda row: clean(row.listener), 10, drop=2),
                Column(
                    "Open for",
                    lambda row: duration(row.age_ms),
                    10,
                    lambda row: row.age_ms,
                    "right",
                    drop=1,
                    letter="F",
                ),
                Column(
                    "Requests/s", lambda row: short(row.requests), 10, lambda row: row.requests, "right", letter="R"
                ),
                Column("In/s", lambda row: size(row.in_bytes), 9, lambda row: row.in_bytes, "right", letter="I"),
                Column("Out/s", lambda row: size(row.out_bytes), 9, lambda row: row.out_bytes, "right", letter="O"),
                Column("Id", lambda row: clean(row.id), 14, drop=3),
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
