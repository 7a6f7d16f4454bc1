"""Brokers of the cluster, with figures of their own samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.widgets.grid import Column, Grid
from broker_cy.client.text import clean, count, duration, percent, size
from broker_cy.console.acts.brokers import plan_cordon
from broker_cy.console.acts.plan import Plan
from broker_cy.console.rows import BrokerRow, broker_rows


class BrokersView(ListView):
    """All brokers."""

    NAME = "brokers"
    ABOUT = """Every broker, including fenced ones: how many partitions it leads, the size of its logs, and from its
    own samples its uptime, CPU, memory and connections. `enter` or `e` opens its settings.

`c` cordons a broker, so that it takes no new replicas, or lifts that. `broker-cy brokers drain` moves its replicas
away; `m` shows how far that is."""
    CHANGES = frozenset({"cordon"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "settings", "Settings", id="brokers.settings"),
        Binding("l", "log_dirs", "Log dirs", id="brokers.log_dirs"),
        Binding("c", "cordon", "Cordon", id="brokers.cordon"),
        Binding("m", "moves", "Moves", id="brokers.moves"),
        Binding("u", "quorum", "Quorum", id="brokers.quorum"),
    ]

    def make_grid(self) -> Grid[Any]:
        return Grid[BrokerRow](
            [
                Column(
                    "Id", lambda row: str(row.info.broker_id), 5, lambda row: row.info.broker_id, "right", letter="I"
                ),
                Column("Address", lambda row: clean(f"{row.info.host}:{row.info.port}"), 21, flex=True),
                Column("Rack", lambda row: clean(row.info.rack or "-"), 8, drop=5),
                Column("Role", _role, 10, drop=1),
                Column("Leads", lambda row: count(row.leads), 7, lambda row: row.leads, "right", letter="L"),
                Column("Logs", lambda row: size(row.size_bytes), 9, lambda row: row.size_bytes, "right", letter="S"),
                Column(
                    "Up", lambda row: duration(row.sample.uptime_ms) if row.sample else "-", 10, None, "right", drop=2
                ),
                Column(
                    "CPU",
                    lambda row: percent(row.sample.cpu_us / 1000, row.sample.interval_ms) if row.sample else "-",
                    5,
                    None,
                    "right",
                    drop=3,
                ),
                Column(
                    "Memory",
                    lambda row: size(row.sample.resident_bytes) if row.sample else "-",
                    9,
                    None,
                    "right",
                    drop=4,
                ),
                Column(
                    "Conns", lambda row: count(row.sample.connections) if row.sample else "-", 6, None, "right", drop=3
                ),
            ],
            key=lambda row: row.info.broker_id,
            title="Brokers",
        )

    def connect(self) -> None:
        self.link(self.session.cluster(), self.grid, self._show)
        for source in (self.session.topics(), self.session.log_dirs(), self.session.samples):
            self.also(source, self._show)

    def _show(self) -> None:
        cluster = self.session.cluster().value
        if cluster is None or not self.is_attached:
            return
        session = self.session
        self.grid.set_rows(
            broker_rows(cluster, session.topics().value, session.log_dirs().value, list(session.samples.items))
        )

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_settings()

    def action_settings(self) -> None:
        row: BrokerRow | None = self.grid.selected
        if row is not None:
            self.console_app.show_view("broker-settings", str(row.info.broker_id))

    def action_log_dirs(self) -> None:
        self.console_app.show_view("log-dirs")

    def action_cordon(self) -> None:
        row: BrokerRow | None = self.grid.selected
        if row is None:
            return
        broker, cordoned = row.info.broker_id, not row.is_cordoned

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_cordon(self.client, self.command, broker, cordoned=cordoned)

        self.act(plan)

    def action_moves(self) -> None:
        self.console_app.show_view("moves")

    def action_quorum(self) -> None:
        self.console_app.show_view("quorum")


def _role(row: BrokerRow) -> Text:
    if row.info.is_fenced:
        return Text("fenced", "bold red")
    if row.is_cordoned:
        return Text("cordoned", "yellow")
    return Text("controller", "cyan") if row.is_controller else Text("broker")
