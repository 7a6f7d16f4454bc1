"""Brokers of the cluster, with figures of their own samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from admin_tui.screens.view import ListView
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.console.acts.brokers import plan_cordon
from broker_cy.console.acts.decommission import plan_decommission
from broker_cy.console.acts.moves import Wish, plan_drain, plan_moves
from broker_cy.console.acts.pace import pace_form, pace_of
from broker_cy.console.acts.plan import Plan
from broker_cy.console.broker_state import newest_about, state_of_host
from broker_cy.console.columns import brokers
from broker_cy.console.rows import BrokerRow, broker_rows, host_rows
from broker_cy.metrics.events import Event
from broker_cy.reporting.tone import Tone


class BrokersView(ListView):
    """All brokers."""

    NAME = "brokers"
    ABOUT = """Every broker: its state (fenced, with the cause from the cluster's events; shutting down; cordoned), how
    many partitions it leads, the size of its logs, and from its own samples its uptime, CPU, memory and connections.
    `enter` or `e` opens its settings. The shards of a host (`broker-cy start --shards`) are one row, with their sums:
    `enter` opens it into its shards, and closes it.

`c` cordons a broker, so that it gets no new replicas, or uncordons it. `d` cordons it and moves its replicas away; `D`
does the same to decommission it, and removes its registration once it has stopped. `f` moves replicas to a new broker,
and `b` balances all. All of these ask for a throttle. Cancelling keeps completed moves. `m` shows all reassignments,
`r` the partitions that lack replicas."""
    CHANGES = frozenset({"cordon", "drain", "decommission", "fill", "balance"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "settings", "Settings", id="brokers.settings"),
        Binding("l", "log_dirs", "Log dirs", id="brokers.log_dirs"),
        Binding("c", "cordon", "Cordon", id="brokers.cordon"),
        Binding("d", "drain", "Drain", id="brokers.drain"),
        Binding("D", "decommission", "Decommission", id="brokers.decommission"),
        Binding("f", "fill", "Fill", id="brokers.fill"),
        Binding("b", "balance", "Balance", id="brokers.balance"),
        Binding("m", "reassignments", "Reassignments", id="brokers.reassignments"),
        Binding("r", "replication", "Replication", id="brokers.replication"),
        Binding("u", "quorum", "Quorum", id="brokers.quorum"),
    ]

    def __init__(self) -> None:
        super().__init__()
        # The newest event about the state of each broker.
        self._newest: Mapping[int, Event] = {}
        # The first brokers of hosts that are opened into their shards.
        self._opened: set[int] = set()

    def _state(self, row: BrokerRow) -> tuple[str, Tone]:
        return state_of_host(row, self._newest)

    def make_grid(self) -> Grid[Any]:
        return Grid[BrokerRow](
            [
                grid_column(brokers.BROKER, letter="B"),
                grid_column(brokers.ADDRESS, flex=True),
                grid_column(brokers.RACK, drop=5),
                grid_column(brokers.STATE.of(self._state), drop=1),
                grid_column(brokers.LEADERS, letter="L"),
                grid_column(brokers.SIZE, letter="S"),
                grid_column(brokers.UPTIME, drop=2),
                grid_column(brokers.CPU, drop=3),
                grid_column(brokers.MEMORY, drop=4),
                grid_column(brokers.CONNECTIONS, drop=3),
            ],
            key=lambda row: (row.info.broker_id, bool(row.shards)),
            title="Brokers",
        )

    def connect(self) -> None:
        self.link(self.session.cluster(), self.grid, self._show)
        for source in (self.session.topics(), self.session.log_dirs(), self.session.samples, self.session.events):
            self.also(source, self._show)

    def _show(self) -> None:
        cluster = self.session.cluster().value
        if cluster is None or not self.is_attached:
            return
        session = self.session
        self._newest = newest_about(session.events.items)
        rows = broker_rows(cluster, session.topics().value, session.log_dirs().value, list(session.samples.items))
        self.grid.set_rows(host_rows(rows, self._opened))

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        row: BrokerRow | None = self.grid.selected
        if row is not None and row.shards:
            self._opened ^= {row.info.broker_id}
            self._show()
        else:
            self.action_settings()

    def _broker(self) -> BrokerRow | None:
        """The selected broker; None for a host, which has to be opened into its shards first."""
        row: BrokerRow | None = self.grid.selected
        if row is None or not row.shards:
            return row
        self.tell("This row is a host: enter opens it into its shards", is_error=True)
        return None

    def action_settings(self) -> None:
        row = self._broker()
        if row is not None:
            self.console_app.show_view("broker-settings", str(row.info.broker_id))

    def action_log_dirs(self) -> None:
        self.console_app.show_view("log-dirs")

    def action_cordon(self) -> None:
        row = self._broker()
        if row is None:
            return
        broker, cordoned = row.info.broker_id, not row.is_cordoned

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_cordon(self.client, self.command, broker, cordoned=cordoned)

        self.act(plan)

    def action_drain(self) -> None:
        row = self._broker()
        if row is None:
            return
        broker = row.info.broker_id

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_drain(self.client, self.command, [broker], pace_of(values))

        self.act(plan, form=pace_form(f"Drain broker {broker}"))

    def action_decommission(self) -> None:
        row = self._broker()
        if row is None:
            return
        broker = row.info.broker_id

        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_decommission(self.client, self.command, broker, pace_of(values))

        self.act(plan, form=pace_form(f"Decommission broker {broker}"))

    def action_fill(self) -> None:
        row = self._broker()
        if row is not None:
            self._move(Wish(add=(row.info.broker_id,)), f"Give broker {row.info.broker_id} its share")

    def action_balance(self) -> None:
        self._move(Wish(is_balance=True), "Balance replicas and bytes of all brokers")

    def _move(self, wish: Wish, title: str) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_moves(self.client, self.command, wish, pace_of(values))

        self.act(plan, form=pace_form(title))

    def action_replication(self) -> None:
        self.console_app.show_view("replication")

    def action_reassignments(self) -> None:
        self.console_app.show_view("reassignments")

    def action_quorum(self) -> None:
        self.console_app.show_view("quorum")
