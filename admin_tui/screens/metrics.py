"""Requests by API, and the time of their phases: queue, handler, waiting, sending."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from admin_tui.screens.view import View
from admin_tui.widgets.chart import Chart
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts, toned
from admin_tui.widgets.grid import Grid
from broker_cy.console.columns import requests
from broker_cy.console.figures import ApiRow, PhaseRow, api_p99_us, api_rows, newest_of, phase_rows, process_facts
from broker_cy.reporting.numbers import micros


class MetricsView(View):
    """APIs and phases."""

    NAME = "metrics"
    ABOUT = """Requests of the last ten seconds by API, from `__broker_metrics`. The lower table has the phases of the
    selected API, and how much of its time each takes. Quantiles are those of the worst second, and at most 1/16 too
    high. The chart shows the p99 of that API over ten minutes."""
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    MetricsView Facts { max-height: 6; }
    MetricsView #apis { height: 1fr; }
    MetricsView #phase-row { height: 1fr; }
    MetricsView #phases { width: 3fr; }
    MetricsView Chart { width: 2fr; height: 100%; }
    """

    def body(self) -> ComposeResult:
        yield Facts("Process", id="process")
        yield Grid[ApiRow](
            [
                grid_column(requests.API, flex=True, letter="A"),
                grid_column(requests.REQUESTS, letter="R"),
                grid_column(requests.ERRORS, letter="E"),
                grid_column(requests.IN, drop=1, letter="I"),
                grid_column(requests.OUT, drop=2, letter="O"),
                grid_column(requests.MEAN, letter="M"),
                grid_column(requests.P99, letter="P"),
                grid_column(requests.MAX, drop=3, letter="X"),
            ],
            key=lambda row: row.name,
            title="APIs",
            id="apis",
            sort="Requests/s",
            descending=True,
        )
        with Horizontal(id="phase-row"):
            yield Grid[PhaseRow](
                [
                    grid_column(requests.PHASE, flex=True),
                    grid_column(requests.PHASE_MEAN),
                    grid_column(requests.PHASE_P50, drop=2),
                    grid_column(requests.PHASE_P99),
                    grid_column(requests.PHASE_MAX, drop=1),
                    grid_column(requests.PHASE_SHARE),
                ],
                key=lambda row: row.name,
                title="Phases",
                id="phases",
            )
            yield Chart("p99", micros, id="chart")

    def connect(self) -> None:
        samples = self.session.samples
        self.link(samples, self.query_one("#apis"), self._show)
        for name in ("#process", "#phases", "#chart"):
            self.link(samples, self.query_one(name), lambda: None)
        self.query_one("#apis").focus()

    def _show(self) -> None:
        samples = list(self.session.samples.items)
        if samples:
            self.query_one("#apis", Grid).set_rows(api_rows(newest_of(samples)))
            self.query_one("#process", Facts).set_facts(toned(process_facts(samples[-1])))
            self._show_api()

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        if event.grid.id == "apis":
            self._show_api()

    def _show_api(self) -> None:
        row: ApiRow | None = self.query_one("#apis", Grid).selected
        samples = list(self.session.samples.items)
        if row is None or not samples:
            return
        phases = self.query_one("#phases", Grid)
        phases.title = f"Phases of {row.name}"
        phases.set_rows(phase_rows(row.name, newest_of(samples)))
        values = [api_p99_us(sample, row.name) for sample in samples]
        self.query_one("#chart", Chart).set_values(values, samples[-1].interval_ms)
