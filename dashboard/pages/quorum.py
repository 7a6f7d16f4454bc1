"""The metadata quorum: leader, voters and observers with their endpoints and lag; add and remove voters. And the
features of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dash.development.base_component import Component

from broker_cy.admin.cluster import FeatureRange
from broker_cy.console.acts.plan import Plan
from broker_cy.console.acts.quorum import (
    add_voter_form,
    plan_add_voter_of,
    plan_remove_voter_of,
    plan_upgrade,
    remove_voter_form,
)
from broker_cy.console.columns import quorum as columns
from broker_cy.console.feeds import Feed
from broker_cy.console.fields import Form
from broker_cy.console.figures import Fact
from broker_cy.console.voters import voters_fact
from broker_cy.reporting.numbers import count
from broker_cy.reporting.tone import Tone
from dashboard.acts import Act, Call, act
from dashboard.collector.channel import FactsChannel, SupportedChannel, TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.components.panel import act_button, link, listing, page_path, panel
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.security.roles import Role

# Rows of the lists: a quorum has a handful of voters, and an observer for each broker.
REPLICAS_SHOWN = 200
FEATURES_SHOWN = 50


@channel("quorum")
class Quorum(SupportedChannel, FactsChannel):
    """The metadata quorum as a whole."""

    def feed(self) -> Feed[Any]:
        return self.session.quorum()

    def facts(self) -> Sequence[Fact] | None:
        quorum = self.session.quorum().value
        if quorum is None:
            return None
        leader = str(quorum.leader_id) if quorum.leader_id >= 0 else "none"
        return [
            Fact("leader", leader, Tone.GOOD if quorum.leader_id >= 0 else Tone.BAD),
            Fact("epoch", str(quorum.leader_epoch)),
            Fact("high watermark", count(quorum.high_watermark)),
            voters_fact(quorum),
            Fact("observers", str(len(quorum.observers))),
        ]


@channel("quorum-replicas")
class QuorumReplicas(SupportedChannel, TableChannel[columns.QuorumRow]):
    """Voters and observers, and the number of records of the metadata log that each lacks."""

    COLUMNS = (
        table_column(columns.NODE),
        table_column(columns.ROLE),
        table_column(columns.LOG_END),
        table_column(columns.LAG),
        table_column(columns.FETCHED),
        table_column(columns.CAUGHT_UP),
        table_column(columns.ENDPOINTS, is_flex=True),
        table_column(columns.DIRECTORY_ID, is_flex=True),
    )

    def feed(self) -> Feed[Any]:
        return self.session.quorum()

    def rows(self) -> Iterable[columns.QuorumRow] | None:
        quorum = self.session.quorum().value
        return None if quorum is None else columns.quorum_rows(quorum)

    def row_id(self, row: columns.QuorumRow) -> str:
        return f"{row[1].replica_id} {row[1].directory_id}"


@channel("features")
class Features(SupportedChannel, TableChannel[FeatureRange]):
    """Feature levels: those that the cluster has finalized, and those that brokers support."""

    COLUMNS = (
        table_column(columns.FEATURE, is_flex=True),
        table_column(columns.FINALIZED),
        table_column(columns.SUPPORTED),
    )

    def feed(self) -> Feed[Any]:
        return self.session.features()

    def rows(self) -> Iterable[FeatureRange] | None:
        return self.session.features().value

    def row_id(self, row: FeatureRange) -> str:
        return row.name


@act("add-voter", Role.ADMIN)
class AddVoter(Act):
    async def form(self, call: Call) -> Form | None:
        return add_voter_form()

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_add_voter_of(call.client, call.command, values)


@act("remove-voter", Role.ADMIN)
class RemoveVoter(Act):
    async def form(self, call: Call) -> Form | None:
        return remove_voter_form()

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_remove_voter_of(call.client, call.command, values)


@act("upgrade-quorum", Role.ADMIN)
class UpgradeQuorum(Act):
    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        return await plan_upgrade(call.client, call.command)


def layout(context: Context, cluster: str, **_: str) -> Component:
    return shell(
        context,
        cluster,
        "quorum",
        "Quorum",
        [
            panel("Metadata quorum", "quorum", "facts", cluster=cluster),
            listing(
                "Quorum replicas",
                "quorum-replicas",
                QuorumReplicas.COLUMNS,
                cluster=cluster,
                rows=REPLICAS_SHOWN,
                note="Lag: records of the metadata log that a replica lacks.",
                actions=[
                    act_button("Add voter", "add-voter", role=Role.ADMIN),
                    act_button("Remove voter", "remove-voter", role=Role.ADMIN, destructive=True),
                    act_button("Upgrade kraft.version", "upgrade-quorum", role=Role.ADMIN),
                ],
            ),
            listing(
                "Features",
                "features",
                Features.COLUMNS,
                cluster=cluster,
                rows=FEATURES_SHOWN,
                note="Levels that the cluster has finalized, and those that the brokers support.",
                empty="The cluster reports no features.",
            ),
        ],
        actions=[link("Brokers", page_path(cluster, "brokers"))],
    )


PAGE = Page("quorum", "Quorum", layout)
