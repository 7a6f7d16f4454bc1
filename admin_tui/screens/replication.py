"""Partitions that are offline or under-replicated, what each needs, and electing leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.facts import Facts
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.partition_health import PartitionHealth
from broker_cy.console.acts.leaders import plan_preferred, plan_unclean_of, unclean_form
from broker_cy.console.acts.plan import Plan
from broker_cy.reporting.foreign_text import clean
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
        Binding("m", "moves", "Moves", id="replication.moves"),
    ]
    DEFAULT_CSS = "ReplicationView Facts { max-height: 4; }"

    def body(self) -> ComposeResult:
        yield Facts("Replication", id="facts")
        yield Grid[PartitionHealth](
            [
                Column("Partition", lambda row: clean(str(row.partition)), 20, lambda row: row.partition, flex=True),
                Column("State", _state, 11, _rank, letter="S"),
                Column("Leader", _leader, 6, None, "right"),
                Column("Replicas", lambda row: _ids(row.info.replicas), 10),
                Column("In sync", lambda row: _ids(row.info.in_sync_replicas), 10),
                Column("Missing", lambda row: _ids(row.missing), 9, drop=1),
                Column("Needs", lambda row: count(row.needed), 5, None, "right", drop=2),
                Column("May lead", lambda row: "-" if row.eligible is None else _ids(row.eligible.eligible), 9, drop=3),
            ],
            key=lambda row: row.partition,
            text=lambda row: f"{row.partition} {_state(row).plain}",
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
            self.query_one("#partitions", Grid).set_rows(sorted(found, key=lambda row: (_rank(row), row.partition)))

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

    def action_moves(self) -> None:
        self.console_app.show_view("moves")


def _state(row: PartitionHealth) -> Text:
    if row.is_offline:
        return Text("offline", "bold red")
    return Text("no acks=all", "bold red") if row.is_below_min_isr else Text("behind", "yellow")


def _rank(row: PartitionHealth) -> int:
    return 0 if row.is_offline else 1 if row.is_below_min_isr else 2


def _leader(row: PartitionHealth) -> Text:
    return Text("none", "bold red") if row.is_offline else Text(str(row.info.leader_id))


def _ids(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas)) or "-"
