"""Brokers: what each holds and uses, and the partitions without all their replicas. quorum.py has the quorum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.metadata import TopicInfo
from broker_cy.client.text import clean, count, duration, percent, size
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.console.rows import BrokerRow, LogDirs, broker_rows
from broker_cy.console.tone import Tone
from broker_cy.metrics.sample import Sample
from dashboard.collector.channel import Cell, Channel, Column, FactsChannel, TableChannel, channel, linked
from dashboard.collector.history_measures import LOOP_LAG
from dashboard.collector.holdings import (
    BrokerChart,
    Held,
    Holdings,
    Remembered,
    Troubled,
    holdings_of,
    sizes_of,
)
from dashboard.collector.patches import State
from dashboard.components.panel import link, listing, page_path, panel
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages import quorum

Topics = tuple[TopicInfo, ...]

# Rows of the lists of this page; the counts above them are complete.
BROKERS_SHOWN = 200
TROUBLED_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Row:
    """A broker; `row` is None if it holds replicas and is not in the cluster now, `size_bytes` if it is not known."""

    broker_id: int
    row: BrokerRow | None
    held: Held | None
    size_bytes: int | None

    @property
    def sample(self) -> Sample | None:
        return None if self.row is None else self.row.sample


def role_of(row: BrokerRow | None) -> Cell:
    if row is None:
        return Cell("away", Tone.BAD)
    if row.info.is_fenced:
        return Cell("fenced", Tone.BAD)
    return Cell("controller", Tone.GOOD) if row.is_controller else Cell("broker")


def _held(row: Row, name: str) -> str:
    return "-" if row.held is None else count(getattr(row.held, name))


def _behind(row: Row) -> str | Cell:
    if row.held is None:
        return "-"
    behind = row.held.replicas - row.held.in_sync
    return Cell(count(behind), Tone.WARN) if behind > 0 else "0"


def _cpu(row: Row) -> str:
    return "-" if row.sample is None else percent(row.sample.cpu_us / 1000, row.sample.interval_ms)


def _address(row: Row) -> str:
    return "-" if row.row is None else clean(f"{row.row.info.host}:{row.row.info.port}")


@channel("brokers")
class Brokers(TableChannel[Row]):
    """Every broker of the cluster, and those that only hold replicas."""

    SORT = "id"
    COLUMNS = (
        Column("id", "Id", lambda row: str(row.broker_id), lambda row: row.broker_id),
        Column("role", "Role", lambda row: role_of(row.row)),
        Column("address", "Address", _address),
        Column("rack", "Rack", lambda row: clean((row.row and row.row.info.rack) or "-")),
        Column("leads", "Leads", lambda row: _held(row, "leads"), None, True),
        Column("replicas", "Replicas", lambda row: _held(row, "replicas"), None, True),
        Column("in-sync", "In sync", lambda row: _held(row, "in_sync"), None, True),
        Column("behind", "Out of sync", _behind, None, True),
        Column("logs", "Logs", lambda row: size(row.size_bytes), None, True),
        Column("up", "Up", lambda row: duration(row.sample.uptime_ms) if row.sample else "-", None, True),
        Column("cpu", "CPU", _cpu, None, True),
        Column("memory", "Memory", lambda row: size(row.sample.resident_bytes) if row.sample else "-", None, True),
        Column(
            "connections", "Connections", lambda row: count(row.sample.connections) if row.sample else "-", None, True
        ),
        Column("settings", "Settings", lambda row: "Settings" if row.row else ""),
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._holdings: Remembered[Topics, Holdings] = Remembered(lambda topics: holdings_of(topics, self.scope))
        self._sizes: Remembered[LogDirs, dict[int, int]] = Remembered(lambda dirs: sizes_of(dirs, self.scope))
        self._rows: list[Row] | None = None

    def sources(self) -> Sequence[Source]:
        return [self.session.cluster(), self.session.topics(), self.session.log_dirs(), self.session.samples]

    async def state(self) -> State | None:
        cluster = self.session.cluster().value
        if cluster is not None:
            topics, dirs = self.session.topics().value, self.session.log_dirs().value
            held = None if topics is None else (await self._holdings.of(topics)).brokers
            sizes = {} if dirs is None else await self._sizes.of(dirs)
            samples = list(self.session.samples.items)
            found = {row.info.broker_id: row for row in broker_rows(cluster, None, None, samples)}
            self._rows = [
                Row(broker, found.get(broker), None if held is None else held.get(broker, Held()), sizes.get(broker))
                for broker in sorted(found.keys() | (held or {}).keys())
            ]
        return await super().state()

    def rows(self) -> Iterable[Row] | None:
        return self._rows

    def row_id(self, row: Row) -> str:
        return str(row.broker_id)

    def _cells(self, row: Row) -> list[Any]:
        cells = super()._cells(row)
        if row.row is not None:
            broker = str(row.broker_id)
            cells[0] = linked(cells[0], page_path(self.hub.name, "broker", broker=broker))
            cells[-1] = linked(cells[-1], page_path(self.hub.name, "broker-settings", broker=broker))
        return cells


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


def trouble_of(row: Troubled) -> Cell:
    if row.part.is_offline:
        return Cell("offline", Tone.BAD)
    missing = len(row.part.replicas) - len(row.part.in_sync_replicas)
    return Cell(f"{missing} of {len(row.part.replicas)} out of sync", Tone.WARN)


@channel("troubled-partitions")
class TroubledPartitions(_Counted, TableChannel[Troubled]):
    """Offline partitions first, then those with replicas that are not in sync."""

    COLUMNS = (
        Column("topic", "Topic", lambda row: clean(row.topic), is_flex=True),
        Column("partition", "Partition", lambda row: str(row.part.partition), None, True),
        Column("state", "State", trouble_of),
        Column("leader", "Leader", lambda row: "none" if row.part.is_offline else str(row.part.leader_id), None, True),
        Column("replicas", "Replicas", lambda row: ids(row.part.replicas)),
        Column("in-sync", "In sync", lambda row: ids(row.part.in_sync_replicas)),
        Column("missing", "Out of sync", lambda row: ids(sorted({*row.part.replicas} - {*row.part.in_sync_replicas}))),
    )

    def rows(self) -> Iterable[Troubled] | None:
        return None if self.holdings is None else self.holdings.troubled

    def row_id(self, row: Troubled) -> str:
        return f"{row.topic}-{row.part.partition}"

    def _cells(self, row: Troubled) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "topic", topic=row.topic)), *rest]


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
    """Return the charts of the processes: of one broker if `chosen` has one, else a line for each."""
    return html.Div(
        [panel(title, name, "chart", cluster=cluster, params=chosen, note=note) for title, name, note in CHARTS],
        className="columns wide",
    )


def layout(context: Context, cluster: str, range: str = "") -> Component:
    chosen = {"range": range} if range else {}
    return shell(
        context,
        cluster,
        "brokers",
        "Brokers",
        [
            panel("Replication", "replication", "facts", cluster=cluster),
            listing(
                "All brokers",
                "brokers",
                Brokers.COLUMNS,
                cluster=cluster,
                rows=BROKERS_SHOWN,
                note="Every broker, including fenced ones; an id leads to its replicas. "
                "Uptime, CPU, memory and connections come from broker-cy only.",
                actions=[link("Log directories", page_path(cluster, "storage"))],
            ),
            listing(
                "Partitions out of sync",
                "troubled-partitions",
                TroubledPartitions.COLUMNS,
                cluster=cluster,
                rows=TROUBLED_SHOWN,
                note=f"Offline ones first, at most {TROUBLED_SHOWN}; the counts above are complete.",
                empty="Every partition has a leader, and all its replicas are in sync.",
            ),
            charts(cluster, chosen),
            quorum.panels(cluster),
        ],
        actions=[ranges(cluster, "brokers", range)],
    )


PAGE = Page("brokers", "Brokers", layout)
