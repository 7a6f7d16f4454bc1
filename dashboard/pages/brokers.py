"""Brokers: the state of each, its replicas and resources; the partitions without all their replicas, and failures.

quorum.py has the quorum, moves.py the replicas that are being moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.metadata import PartitionInfo, TopicPartition
from broker_cy.admin.partition_health import PartitionHealth
from broker_cy.console.columns import replication
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Channel, FactsChannel, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.history_measures import LOOP_LAG
from dashboard.collector.holdings import (
    BrokerChart,
    Holdings,
    Remembered,
    holdings_of,
)
from dashboard.collector.patches import State
from dashboard.components.panel import act_button, link, listing, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages import broker_acts, leader_acts
from dashboard.pages.broker_list import HOST, Brokers, Topics, host_of
from dashboard.pages.events import DEFAULT_RANGE, FAILURES, Events
from dashboard.security.roles import Role

# Rows of the lists of this page; the counts above them include all.
BROKERS_SHOWN = 200
TROUBLED_HIGH = 8
FAILURES_SHOWN = 20


class _Counted(Channel):
    """Channels that need the holdings of the newest answer."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._remembered: Remembered[Topics, Holdings] = Remembered(lambda topics: holdings_of(topics, self.scope))
        self.holdings: Holdings | None = None

    def sources(self) -> Sequence[Source]:
        return [self.session.topics(), self.session.cluster()]

    async def state(self) -> State | None:
        topics = self.session.topics().value
        if topics is not None:
            self.holdings = await self._remembered.of(topics)
        return await super().state()


@channel("replication")
class Replication(_Counted, FactsChannel):
    """Partitions, and how many of them lack a leader or replicas."""

    def facts(self) -> Sequence[Fact] | None:
        counts, cluster = self.holdings, self.session.cluster().value
        if counts is None:
            return None
        replicas = sum(held.replicas for held in counts.brokers.values())
        in_sync = sum(held.in_sync for held in counts.brokers.values())
        facts = [
            Fact("topics", count(counts.topics)),
            Fact("partitions", count(counts.partitions)),
            Fact("offline", count(counts.offline), Tone.BAD if counts.offline else Tone.GOOD),
            Fact("under-replicated", count(counts.behind), Tone.WARN if counts.behind else Tone.GOOD),
            Fact("replicas", count(replicas)),
            Fact("in sync", count(in_sync), Tone.WARN if in_sync < replicas else Tone.GOOD),
        ]
        if cluster is not None:
            facts.append(Fact("cluster id", clean(cluster.cluster_id)))
        return facts


@channel("troubled-partitions")
class TroubledPartitions(_Counted, TableChannel[PartitionHealth]):
    """Offline partitions first, then those with replicas that are not in sync."""

    COLUMNS = (
        table_column(replication.TOPIC, 200, is_flex=True),
        table_column(replication.NUMBER, 100),
        table_column(replication.STATE, 150),
        table_column(replication.LEADER, 90),
        table_column(replication.REPLICAS, 110),
        table_column(replication.IN_SYNC, 110),
        table_column(replication.OUT_OF_SYNC, 110),
        table_column(replication.MIN_ISR, 80),
        table_column(replication.ELR, 100),
    )

    def sources(self) -> Sequence[Source]:
        return [*super().sources(), self.session.sick()]

    def rows(self) -> Iterable[PartitionHealth] | None:
        if self.holdings is None:
            return None
        known = {each.partition: each for each in self.session.sick().value or ()}
        return [
            _health(TopicPartition(each.topic, each.part.partition), each.part, known)
            for each in self.holdings.troubled
        ]

    def row_id(self, row: PartitionHealth) -> str:
        return str(row.partition)

    def row_text(self, row: PartitionHealth) -> str:
        return f"{self.row_id(row)} {replication.STATE.shown(row)}"

    def _cells(self, row: PartitionHealth) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "topic", topic=row.partition.topic)), *rest]


def _health(
    key: TopicPartition, part: PartitionInfo, known: Mapping[TopicPartition, PartitionHealth]
) -> PartitionHealth:
    """Return the partition with the requirements that are known already."""
    found = known.get(key)
    return PartitionHealth(key, part, None) if found is None else replace(found, info=part)


@channel("broker-cpu")
class BrokerCpu(BrokerChart):
    UNIT = "%"
    MEASURES = (("CPU", "cpu_percent"),)


@channel("broker-memory")
class BrokerMemory(BrokerChart):
    UNIT = "B"
    MEASURES = (("memory", "resident_bytes"),)


@channel("broker-loop-lag")
class BrokerLoopLag(BrokerChart):
    UNIT = "us"
    SHOWS_HIGH = True
    MEASURES = (("p99", LOOP_LAG), ("largest", "loop_lag_max_us"))


@channel("broker-connections")
class BrokerConnections(BrokerChart):
    UNIT = ""
    MEASURES = (("connections", "connections"),)


CHARTS = (
    ("CPU", "broker-cpu", "Percent of one core, from broker-cy."),
    ("Memory", "broker-memory", "Resident memory, from broker-cy."),
    ("Loop lag", "broker-loop-lag", "How late the event loop of broker-cy was: p99 and largest value of each second."),
    ("Connections", "broker-connections", "Open connections, from broker-cy."),
)


def charts(cluster: str, chosen: dict[str, str]) -> Component:
    """Return the charts of the processes: of the broker in `chosen`, else a line for each broker."""
    return html.Div(
        [panel(title, name, "chart", cluster=cluster, params=chosen, note=note) for title, name, note in CHARTS],
        className="columns wide",
    )


def layout(context: Context, cluster: str, range: str = "", host: str = "") -> Component:
    chosen = {"range": range} if range else {}
    first = host_of({HOST: host})
    is_one = first is not None
    return shell(
        context,
        cluster,
        "brokers",
        "Brokers",
        [
            panel("Replication", "replication", "facts", cluster=cluster),
            listing(
                f"Shards of the host of broker {first}" if is_one else "All brokers",
                "brokers",
                Brokers.COLUMNS,
                cluster=cluster,
                params={HOST: host} if is_one else {},
                rows=BROKERS_SHOWN,
                note="Every broker, including fenced ones; an id leads to its replicas and to acts on it. The shards "
                "of a host are one row, whose id leads to them. Uptime, CPU, memory and connections come from "
                "broker-cy only.",
                empty=f"Broker {first} does not exist." if is_one else "No brokers.",
                actions=[
                    *([link("All hosts", page_path(cluster, "brokers", range=range))] if is_one else []),
                    link("Log directories", page_path(cluster, "storage")),
                    link("Reassignments", page_path(cluster, "reassignments")),
                    act_button("Balance", broker_acts.BalanceBrokers.name, role=Role.ADMIN),
                ],
            ),
            table(
                "Partitions out of sync",
                "troubled-partitions",
                TroubledPartitions.COLUMNS,
                cluster=cluster,
                noun="partition",
                height_rows=TROUBLED_HIGH,
                note="Offline ones first. Needs: in-sync replicas that acks=all requires. May lead: out of sync, but "
                "without loss.",
                empty="Every partition has a leader, and all its replicas are in sync.",
                actions=[
                    act_button("Elect preferred leaders", leader_acts.ElectPreferred.name, role=Role.ADMIN),
                    act_button("Elect uncleanly …", leader_acts.ElectUnclean.name, role=Role.ADMIN, destructive=True),
                ],
            ),
            listing(
                "Failures and elections",
                "events",
                Events.COLUMNS,
                cluster=cluster,
                params={"range": range or DEFAULT_RANGE, "kind": FAILURES},
                rows=FAILURES_SHOWN,
                note=f"With their cause, the newest {FAILURES_SHOWN} of the range; from broker-cy only.",
                empty="No broker was lost, and no leader was elected in this range.",
                actions=[link("All events", page_path(cluster, "events", range=range, kind=FAILURES))],
            ),
            charts(cluster, chosen),
        ],
        actions=[ranges(cluster, "brokers", range, **({HOST: host} if is_one else {}))],
    )


PAGE = Page("brokers", "Brokers", layout)
