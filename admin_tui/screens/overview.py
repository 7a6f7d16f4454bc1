"""The first screen: health, throughput, latency, the busiest topics and recent events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal

from admin_tui.screens.view import View
from admin_tui.widgets.chart import Chart
from admin_tui.widgets.columns import Column, grid_column
from admin_tui.widgets.facts import Facts, toned
from admin_tui.widgets.grid import Grid
from broker_cy.console.columns import events, requests
from broker_cy.console.figures import (
    BusyTopic,
    api_p99_us,
    busiest,
    health_of,
    in_bytes_per_s,
    newest_of,
    out_bytes_per_s,
)
from broker_cy.metrics.events import Rebalance, Stamped
from broker_cy.metrics.sample import Sample
from broker_cy.reporting.numbers import micros, size, when

if TYPE_CHECKING:
    from collections.abc import Sequence


class OverviewView(View):
    """Overview."""

    NAME = "overview"
    ABOUT = """The health of the cluster; rates and latencies of the last ten minutes, from the broker's own topic
    `__broker_metrics`; the busiest topics over the last ten seconds; and recent events, from `__cluster_events`.

Press `:` to open another screen: `:topics`, `:groups`, `:messages TOPIC` ...; `ctrl+p` searches all screens and
actions."""
    DEFAULT_CSS = """
    OverviewView #lists { height: 3fr; }
    OverviewView #charts { height: 2fr; min-height: 7; max-height: 14; }
    OverviewView #busy { width: 1fr; }
    OverviewView #events { width: 1fr; }
    """

    def body(self) -> ComposeResult:
        yield Facts("Health", id="health")
        with Horizontal(id="charts"):
            yield Chart("In", size, "/s", id="in")
            yield Chart("Out", size, "/s", id="out")
            yield Chart("Produce p99", micros, id="p99")
        with Horizontal(id="lists"):
            yield Grid[BusyTopic](
                [
                    grid_column(requests.BUSY_TOPIC, 12, flex=True, letter="T"),
                    grid_column(requests.BUSY_RECORDS, letter="R"),
                    grid_column(requests.BUSY_IN, drop=1, letter="I"),
                    grid_column(requests.BUSY_OUT, drop=2, letter="O"),
                ],
                key=lambda row: row.name,
                title="Busiest topics",
                id="busy",
                sort="In/s",
                descending=True,
            )
            yield Grid[Stamped](
                [
                    Column("Time", lambda row: self._when(row), 8),
                    grid_column(events.SUMMARY, flex=True),
                ],
                key=lambda row: (row.time_ms, row.event.TYPE, row.key),
                title="Recent events",
                stays_first=True,
                id="events",
            )

    def _when(self, row: Stamped) -> str:
        return when(row.time_ms, utc=self.console_app.settings.utc, date=False)[:8]

    def connect(self) -> None:
        health = self.query_one("#health", Facts)
        for source in (self.session.cluster(), self.session.topics()):
            self.link(source, health, self._show_health)
        self.link(self.session.samples, self.query_one("#in"), self._show_samples)
        for name in ("#out", "#p99", "#busy"):
            self.link(self.session.samples, self.query_one(name), lambda: None)
        self.link(self.session.events, self.query_one("#events"), self._show_events)
        self.query_one("#busy").focus()

    def _show_health(self) -> None:
        session = self.session
        facts = health_of(session.cluster().value, session.topic_counts(), session.samples.last)
        self.query_one("#health", Facts).set_facts(toned(facts))

    def _show_samples(self) -> None:
        samples: Sequence[Sample] = list(self.session.samples.items)
        if not samples:
            return
        interval = samples[-1].interval_ms or 1_000
        self.query_one("#in", Chart).set_values([in_bytes_per_s(each) for each in samples], interval)
        self.query_one("#out", Chart).set_values([out_bytes_per_s(each) for each in samples], interval)
        self.query_one("#p99", Chart).set_values([api_p99_us(each, "Produce") for each in samples], interval)
        self.query_one("#busy", Grid).set_rows(busiest(newest_of(samples)))
        self._show_health()

    def _show_events(self) -> None:
        self.query_one("#events", Grid).set_rows(reversed(self.session.events.items))

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        if event.grid.id == "busy":
            self.console_app.show_view("topic", event.row.name)
        elif isinstance(event.row.event, Rebalance):
            self.console_app.show_view("rebalances", event.row.event.group)
        else:
            self.console_app.show_view("events")
