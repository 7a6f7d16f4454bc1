"""Brokers: the state of each, its replicas and resources; the partitions without all their replicas, and failures.

quorum.py has the quorum, moves.py the replicas that are being moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.metadata import PartitionInfo, TopicPartition
from broker_cy.admin.partition_health import PartitionHealth
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell, Channel, Column, FactsChannel, TableChannel, channel, linked
from dashboard.collector.history_measures import LOOP_LAG
from dashboard.collector.holdings import (
    BrokerChart,
    Holdings,
    Remembered,
    Troubled,
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


def ids(brokers: Iterable[int]) -> str:
    """Return broker ids as `1, 2, 3`; a dash if there are none."""
    return ", ".join(map(str, brokers)) or "-"


def leader_of(part: PartitionInfo) -> str | Cell:
    return Cell("none", Tone.BAD) if part.is_offline else str(part.leader_id)


class Sick(NamedTuple):
    """A partition that lacks replicas, and what it needs, if that is known already."""

    held: Troubled
    health: PartitionHealth | None


def trouble_of(row: Sick) -> Cell:
    part = row.held.part
    if part.is_offline:
        return Cell("offline", Tone.BAD)
    if row.health is not None and row.health.is_below_min_isr:
        return Cell("refuses acks=all", Tone.BAD)
    return Cell(f"{len(part.replicas) - len(part.in_sync_replicas)} of {len(part.replicas)} out of sync", Tone.WARN)


def _missing(row: Sick) -> str:
    return ids(sorted({*row.held.part.replicas} - {*row.held.part.in_sync_replicas}))


def _needs(row: Sick) -> str:
    least = None if row.health is None else row.health.needed
    return "-" if least is None else count(least)


def _may_lead(row: Sick) -> str:
    """The replicas that can become leader without data loss although they are not in sync (KIP-966)."""
    known = None if row.health is None else row.health.eligible
    return "-" if known is None else ids(known.eligible)


@channel("troubled-partitions")
class TroubledPartitions(_Counted, TableChannel[Sick]):
    """Offline partitions first, then those with replicas that are not in sync."""

    COLUMNS = (
        Column("topic", "Topic", lambda row: clean(row.held.topic), width=200, is_flex=True),
        Column("partition", "Partition", lambda row: str(row.held.part.partition), None, True, 100),
        Column("state", "State", trouble_of, width=150),
        Column("leader", "Leader", lambda row: leader_of(row.held.part), None, True, 90),
        Column("replicas", "Replicas", lambda row: ids(row.held.part.replicas), width=110),
        Column("in-sync", "In sync", lambda row: ids(row.held.part.in_sync_replicas), width=110),
        Column("missing", "Out of sync", _missing, width=110),
        Column("needs", "Needs", _needs, None, True, 80, "min.insync.replicas"),
        Column("may-lead", "May lead", _may_lead, width=100, hint="Eligible leader replicas (KIP-966)"),
    )

    def sources(self) -> Sequence[Source]:
        return [*super().sources(), self.session.sick()]

    def rows(self) -> Iterable[Sick] | None:
        if self.holdings is None:
            return None
        known = {each.partition: each for each in self.session.sick().value or ()}
        return [
            Sick(each, known.get(TopicPartition(each.topic, each.part.partition))) for each in self.holdings.troubled
        ]

    def row_id(self, row: Sick) -> str:
        return f"{row.held.topic}-{row.held.part.partition}"

    def row_text(self, row: Sick) -> str:
        return f"{self.row_id(row)} {trouble_of(row).text}"

    def _cells(self, row: Sick) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "topic", topic=row.held.topic)), *rest]


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
                    link("Reassignments", page_path(cluster, "moves")),
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
