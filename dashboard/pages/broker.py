"""One broker: its process, its charts, its log directories, and its replicas; and the acts that take it out of the
cluster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dash.development.base_component import Component

from broker_cy.admin.log_dirs import LogDir
from broker_cy.admin.metadata import PartitionInfo, TopicPartition
from broker_cy.admin.partition_health import PartitionHealth
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.broker_state import newest_about, state_of
from broker_cy.console.columns import log_dirs, replication
from broker_cy.console.columns import topics as topic_columns
from broker_cy.console.figures import Fact, newest_of, process_facts
from broker_cy.console.listeners import Source
from broker_cy.console.rows import ReplicaRow, broker_rows
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import count, duration
from broker_cy.reporting.tone import Tone
from dashboard.acts import Act
from dashboard.collector.channel import Cell, Column, FactsChannel, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import Held, Holdings, OfBroker, Remembered, holdings_of
from dashboard.collector.patches import State
from dashboard.components.panel import act_button, link, listing, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages import broker_acts, directory_acts
from dashboard.pages.broker_list import Topics
from dashboard.pages.brokers import charts
from dashboard.pages.storage import DIRECTORIES_SHOWN, DirectoryMoves, LogDirectories
from dashboard.security.roles import Role

ROWS_HIGH = 16
MOVES_SHOWN = 10


class OfOneBroker(OfBroker):
    """Channels of one broker."""

    PARAMS = REQUIRED = frozenset({"broker"})

    @property
    def broker(self) -> int:
        return int(self.params["broker"])


@channel("broker-facts")
class BrokerFacts(OfOneBroker, FactsChannel):
    """Address and role of a broker, the number of its replicas, and the resources of its process."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._remembered: Remembered[Topics, Holdings] = Remembered(lambda topics: holdings_of(topics, self.scope))
        self._held: Held | None = None

    def sources(self) -> Sequence[Source]:
        session = self.session
        return [session.cluster(), session.topics(), session.log_dirs(), session.samples, session.events]

    async def state(self) -> State | None:
        topics = self.session.topics().value
        if topics is not None:
            self._held = (await self._remembered.of(topics)).brokers.get(self.broker, Held())
        return await super().state()

    def facts(self) -> Sequence[Fact] | None:
        cluster = self.session.cluster().value
        if cluster is None:
            return None
        info = next((each for each in cluster.brokers if each.broker_id == self.broker), None)
        if info is None:
            known = ", ".join(str(each.broker_id) for each in cluster.brokers)
            facts = [Fact("state", f"not in the cluster now, which has {known}", Tone.BAD)]
        else:
            dirs = self.session.log_dirs().value
            (row,) = broker_rows(replace(cluster, brokers=(info,)), None, dirs, ())
            facts = [
                Fact("state", *state_of(row, newest_about(self.session.events.items).get(self.broker))),
                Fact("address", clean(f"{info.host}:{info.port}")),
                Fact("rack", clean(info.rack or "-")),
            ]
        held = self._held
        if held is not None:
            behind = held.replicas - held.in_sync
            facts += [
                Fact("leads", count(held.leads)),
                Fact("replicas", count(held.replicas)),
                Fact("out of sync", count(behind), Tone.WARN if behind else Tone.GOOD),
            ]
        # The samples of a stopped broker are older.
        samples = [each for each in newest_of(list(self.session.samples.items)) if each.broker == self.broker]
        if samples:
            facts += [Fact("up", duration(samples[-1].uptime_ms)), *process_facts(samples[-1])]
        return facts


class Replica(NamedTuple):
    """A replica of `broker`. Its log directory is looked up when it is needed: most rows are never shown."""

    topic: str
    part: PartitionInfo
    broker: int
    directories: Sequence[LogDir]

    @property
    def role(self) -> Cell:
        if self.broker == self.part.leader_id:
            return Cell("leader")
        if self.broker in self.part.in_sync_replicas:
            return Cell("in sync", Tone.GOOD)
        return Cell("out of sync", Tone.WARN)

    @property
    def on_disk(self) -> ReplicaRow | None:
        """Return the replica and its log directory; None if it is not known. The replicas of a directory are sorted."""
        key: Any = (self.topic, self.part.partition)
        for directory in self.directories:
            at = bisect_left(directory.replicas, key)
            if at < len(directory.replicas) and directory.replicas[at][:2] == key:
                return ReplicaRow(self.broker, directory.path, directory.replicas[at])
        return None


def _on_disk(row: Replica) -> ReplicaRow | None:
    return row.on_disk


def _health(row: Replica) -> PartitionHealth:
    return PartitionHealth(TopicPartition(row.topic, row.part.partition), row.part, None)


@channel("broker-replicas")
class BrokerReplicas(OfOneBroker, TableChannel[Replica]):
    """The replicas of a broker, by topic and partition."""

    SUBJECT = REQUIRED = frozenset({"broker"})
    COLUMNS = (
        table_column(topic_columns.TOPIC.by(lambda row: row.topic), 200, is_flex=True),
        table_column(topic_columns.PARTITION.by(lambda row: row.part.partition), 100),
        Column("role", "Role", lambda row: row.role, lambda row: row.role.text, width=110),
        table_column(replication.LEADER.of(_health), 90),
        table_column(replication.REPLICAS.of(_health), 120),
        table_column(replication.IN_SYNC.of(_health), 120),
        table_column(log_dirs.REPLICA_SIZE.of(_on_disk), 110, hint="On this broker"),
        table_column(log_dirs.LAG.of(_on_disk), 100),
        table_column(log_dirs.REPLICA_DIRECTORY.of(_on_disk), 180),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.topics(), self.session.log_dirs()]

    def rows(self) -> Iterable[Replica] | None:
        topics, dirs = self.session.topics().value, self.session.log_dirs().value
        if topics is None:
            return None
        broker = self.broker
        directories = () if dirs is None else dirs.found.get(broker, ())
        return (
            Replica(topic.name, part, broker, directories)
            for topic in sorted(topics, key=lambda each: each.name)
            if self.scope.sees_topic(topic.name)
            for part in topic.partitions
            if broker in part.replicas
        )

    def row_id(self, row: Replica) -> str:
        return f"{row.topic}-{row.part.partition}"

    def row_text(self, row: Replica) -> str:
        return f"{row.topic}-{row.part.partition} {row.role.text}"

    def _cells(self, row: Replica) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "topic", topic=row.topic)), *rest]


_ACTS: Sequence[tuple[str, type[Act], bool]] = (
    ("Cordon", broker_acts.CordonBroker, False),
    ("Uncordon", broker_acts.UncordonBroker, False),
    ("Fill", broker_acts.FillBroker, False),
    ("Drain", broker_acts.DrainBroker, False),
    ("Decommission", broker_acts.DecommissionBroker, True),
)


def layout(context: Context, cluster: str, broker: str = "", range: str = "", **_: str) -> Component:
    if not broker:
        raise ClientError(Failure.INVALID, "the address names no broker: ?broker=ID is expected")
    one = {"broker": broker}
    chosen = {**one, "range": range} if range else one
    return shell(
        context,
        cluster,
        "broker",
        f"Broker {broker}",
        [
            panel(
                "Broker",
                "broker-facts",
                "facts",
                cluster=cluster,
                params=one,
                note="Uptime and resources of the process come from broker-cy only, and are of the last second.",
                actions=[link("Settings", page_path(cluster, "broker-settings", broker=broker))],
            ),
            charts(cluster, chosen),
            listing(
                "Log directories",
                "log-directories",
                LogDirectories.COLUMNS,
                cluster=cluster,
                params=one,
                rows=DIRECTORIES_SHOWN,
                empty="The broker reports no log directories.",
                actions=[
                    act_button(label, each.name, role=Role.ADMIN, broker=broker)
                    for label, each in (
                        ("Balance", directory_acts.BalanceDirectories),
                        ("Drain a directory", directory_acts.DrainDirectory),
                    )
                ],
            ),
            listing(
                "Moves between directories",
                "directory-moves",
                DirectoryMoves.COLUMNS,
                cluster=cluster,
                params=one,
                rows=MOVES_SHOWN,
                note="The page Storage cancels them.",
                empty="No replica moves between directories of this broker.",
            ),
            table(
                "Replicas",
                "broker-replicas",
                BrokerReplicas.COLUMNS,
                cluster=cluster,
                params=one,
                noun="replica",
                height_rows=ROWS_HIGH,
                note="The filter finds topics, partitions (orders-3) and roles (leader, in sync, out of sync).",
            ),
        ],
        crumbs=[("Brokers", page_path(cluster, "brokers"))],
        actions=[
            *(
                act_button(label, each.name, role=Role.ADMIN, needs="Broker", destructive=is_last, broker=broker)
                for label, each, is_last in _ACTS
            ),
            ranges(cluster, "broker", range, broker=broker),
        ],
    )


PAGE = Page("broker", "Broker", layout, in_navigation=False, parent="brokers")
