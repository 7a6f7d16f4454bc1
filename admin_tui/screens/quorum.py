"""The metadata quorum: leader, voters and their lag; add and remove voters; and the features of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.facts import Facts, toned
from admin_tui.widgets.grid import Grid
from broker_cy.admin.cluster import FeatureRange
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.quorum import (
    add_voter_form,
    plan_add_voter_of,
    plan_remove_voter_of,
    plan_upgrade,
    remove_voter_form,
)
from broker_cy.console.columns import quorum
from broker_cy.console.session import now_ms
from broker_cy.console.voters import voters_fact
from broker_cy.reporting.numbers import count, duration

_Replica = quorum.QuorumRow


class QuorumView(View):
    """Quorum and features."""

    NAME = "quorum"
    ABOUT = """The leader of the metadata log, the lag of each voter and observer behind it, the endpoints of voters,
    and the feature levels of the cluster.

`a` makes the selected observer a voter, which needs its controller endpoints; `r` makes the selected voter an observer.
`U` stores the voters in the metadata log (kraft.version 1), which both need; this cannot be undone."""
    CHANGES = frozenset({"add_voter", "remove_voter", "upgrade"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "add_voter", "Add voter", id="quorum.add_voter"),
        Binding("r", "remove_voter", "Remove voter", id="quorum.remove_voter"),
        Binding("U", "upgrade", "Upgrade", id="quorum.upgrade"),
    ]
    DEFAULT_CSS = "QuorumView Facts { max-height: 5; }"

    def body(self) -> ComposeResult:
        yield Facts("Metadata quorum", id="facts")
        yield Grid[_Replica](
            [
                grid_column(quorum.NODE),
                grid_column(quorum.ROLE),
                grid_column(quorum.LOG_END),
                grid_column(quorum.LAG),
                grid_column(quorum.CAUGHT_UP, drop=1, time=_ago),
                grid_column(quorum.ENDPOINTS, flex=True),
                grid_column(quorum.DIRECTORY_ID, drop=2),
            ],
            # The leader shows an observer for minutes after its directory was formatted again.
            key=lambda row: (row[1].replica_id, row[1].directory_id),
            title="Replicas",
            id="replicas",
        )
        yield Grid[FeatureRange](
            [
                grid_column(quorum.FEATURE, flex=True, letter="F"),
                grid_column(quorum.FINALIZED),
                grid_column(quorum.SUPPORTED),
            ],
            key=lambda row: row.name,
            title="Features",
            id="features",
        )

    def connect(self) -> None:
        described, features = self.session.quorum(), self.session.features()
        self.link(described, self.query_one("#replicas"), self._show)
        self.link(described, self.query_one("#facts"), lambda: None)
        self.link(features, self.query_one("#features"), self._show_features)
        self.query_one("#replicas").focus()

    def _show(self) -> None:
        found = self.session.quorum().value
        if found is None:
            return
        has_leader = found.leader_id >= 0
        facts: list[Any] = [
            ("leader", str(found.leader_id) if has_leader else "none", "bold green" if has_leader else "bold red"),
            ("epoch", str(found.leader_epoch)),
            ("high watermark", count(found.high_watermark)),
            *toned([voters_fact(found)]),
            ("observers", str(len(found.observers))),
        ]
        self.query_one(Facts).set_facts(facts)
        self.query_one("#replicas", Grid).set_rows(quorum.quorum_rows(found))

    def _selected(self, *roles: str) -> int | None:
        """The node of the selected replica, if it has one of these roles."""
        row: _Replica | None = self.query_one("#replicas", Grid).selected
        return row[1].replica_id if row is not None and row[0] in roles else None

    def action_add_voter(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_add_voter_of(self.client, self.command, values)

        self.act(plan, form=add_voter_form(self._selected("observer")))

    def action_remove_voter(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_remove_voter_of(self.client, self.command, values)

        self.act(plan, form=remove_voter_form(self._selected("voter", "leader")))

    def action_upgrade(self) -> None:
        async def plan(values: Mapping[str, Any]) -> Plan:
            return await plan_upgrade(self.client, self.command)

        self.act(plan)

    def _show_features(self) -> None:
        features = self.session.features().value
        if features is not None:
            self.query_one("#features", Grid).set_rows(features)


def _ago(ms: int) -> str:
    return f"{duration(max(0, now_ms() - ms))} ago"
