"""Partitions that are offline or under-replicated, what each needs, and electing leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts
from admin_tui.widgets.grid import Grid
from broker_cy.admin.partition_health import PartitionHealth
from broker_cy.console.acts.leaders import plan_preferred, plan_unclean_of, unclean_form
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import replication
from broker_cy.reporting.numbers import count


class ReplicationView(View):
    """Partitions without all their replicas."""

    NAME = "replication"
    ABOUT = """Every partition that has no leader, or replicas that are not in sync: offline ones, then those that
    refuse `acks=all` because fewer replicas are in sync than `min.insync.replicas`, then the others. "May lead" are
    replicas out of sync that can lead without data loss (KIP-966). `enter` opens the topic.

`p` elects the preferred leaders that are in sync. `U` elects any live replica of a topic whose in-sync replicas are
permanently lost: its name has to be entered, and typed once more, because acknowledged records may be lost."""
    CHANGES = frozenset({"preferred", "unclean"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "preferred", "Elect preferred", id="replication.preferred"),
        Binding("U", "unclean", "Elect uncleanly", id="replication.unclean"),
        Binding("m", "reassignments", "Reassignments", id="replication.reassignments"),
    ]
    DEFAULT_CSS = "ReplicationView Facts { max-height: 4; }"

    def body(self) -> ComposeResult:
        yield Facts("Replication", id="facts")
        yield Grid[PartitionHealth](
            [
                grid_column(replication.PARTITION, flex=True),
                grid_column(replication.STATE, letter="S"),
                grid_column(replication.LEADER),
                grid_column(replication.REPLICAS, 10, drop=1),
                grid_column(replication.IN_SYNC, 10, drop=2),
                grid_column(replication.OUT_OF_SYNC),
                grid_column(replication.MIN_ISR, drop=3),
                grid_column(replication.ELR, drop=4),
            ],
            key=lambda row: row.partition,
            text=lambda row: f"{row.partition} {replication.STATE.shown(row)}",
            title="Partitions out of sync",
            id="partitions",
        )

    def connect(self) -> None:
        self.link(self.session.sick(), self.query_one("#partitions"), self._show)
        self.link(self.session.topics(), self.query_one("#facts"), self._show_facts)
        self.query_one("#partitions").focus()

    def _show(self) -> None:
        found = self.session.sick().value
        if found is not None:
            self.query_one("#partitions", Grid).set_rows(
                sorted(found, key=lambda row: (replication.rank(row), row.partition))
            )

    def _show_facts(self) -> None:
        counts = self.session.topic_counts()
        if counts is None:
            return
        facts: list[Any] = [
            ("partitions", count(counts.partitions)),
            ("offline", count(counts.offline), "bold red" if counts.offline else "green"),
            ("under-replicated", count(counts.behind), "yellow" if counts.behind else "green"),
        ]
        self.query_one(Facts).set_facts(facts)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        row: PartitionHealth | None = self.grid.selected
        if row is not None:
            self.console_app.show_view("topic", row.partition.topic)

    def action_preferred(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_preferred(self.client, self.command, lambda key: True)

        self.act(plan)

    def action_unclean(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_unclean_of(self.client, self.command, values)

        self.act(plan, form=unclean_form())

    def action_reassignments(self) -> None:
        self.console_app.show_view("reassignments")
