"""Storage: log directories, the largest topics and replicas, segments. storage_space.py has free space over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.log_dirs import LogDir
from broker_cy.client.turns import Turns
from broker_cy.console.columns import log_dirs
from broker_cy.console.columns import topics as topic_columns
from broker_cy.console.directory_moves import MovingReplica, moving_replicas
from broker_cy.console.feed_values import PartitionRow
from broker_cy.console.listeners import Source
from broker_cy.console.rows import ReplicaRow
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import percent
from dashboard.collector.channel import Column, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import OfBroker
from dashboard.collector.patches import State
from dashboard.components.panel import act_button, listing, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages import directory_acts
from dashboard.pages.directory_acts import replica_row
from dashboard.pages.storage_space import DiskForecast
from dashboard.security.roles import Role

DIRECTORIES_SHOWN = 200
TOPICS_SHOWN = 15
PARTITIONS_SHOWN = 200
ROWS_HIGH = 14
MOVES_HIGH = 5


@dataclass(frozen=True, slots=True)
class Directory:
    """A log directory; `replicas` and `size_bytes` are of the topics that the viewer may see."""

    info: LogDir
    replicas: int
    size_bytes: int


def _info(row: Directory) -> LogDir:
    return row.info


@channel("log-directories")
class LogDirectories(OfBroker, TableChannel[Directory]):
    """The log directories of all brokers, or of the parameter `broker`."""

    SUBJECT = frozenset({"broker"})
    COLUMNS = (
        table_column(log_dirs.BROKER.of(_info)),
        table_column(log_dirs.DIRECTORY.of(_info), is_flex=True),
        table_column(log_dirs.STATE.of(_info)),
        table_column(log_dirs.REPLICAS.by(lambda row: None if row.info.error else row.replicas)),
        table_column(log_dirs.SIZE.by(lambda row: None if row.info.error else row.size_bytes)),
        table_column(log_dirs.FREE.of(_info)),
        table_column(log_dirs.VOLUME.of(_info)),
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: list[Directory] | None = None

    def sources(self) -> Sequence[Source]:
        return [self.session.log_dirs()]

    async def state(self) -> State | None:
        outcome = self.session.log_dirs().value
        if outcome is not None:
            wanted = self.broker
            self._rows = []
            turns = Turns()
            for broker in sorted(outcome.found):
                for info in outcome.found[broker] if wanted in (None, broker) else ():
                    replicas = size_bytes = 0
                    for replica in info.replicas:
                        if self.scope.sees_topic(replica.topic):
                            replicas += 1
                            size_bytes += replica.size_bytes
                        await turns.pause()
                    self._rows.append(Directory(info, replicas, size_bytes))
            for broker, error in sorted(outcome.failed.items()):
                if wanted in (None, broker):
                    unknown = LogDir(broker, "-", clean(error.reason), None, None, False, ())
                    self._rows.append(Directory(unknown, 0, 0))
        return await super().state()

    def rows(self) -> Iterable[Directory] | None:
        return self._rows

    def row_id(self, row: Directory) -> str:
        return f"{row.info.broker_id} {row.info.path}"

    def _cells(self, row: Directory) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "broker", broker=str(row.info.broker_id))), *rest]


@channel("directory-moves")
class DirectoryMoves(OfBroker, TableChannel[MovingReplica]):
    """The replicas that move between directories of their brokers, or of the broker of the parameter `broker`."""

    SUBJECT = frozenset({"broker"})
    COLUMNS = (
        table_column(log_dirs.MOVING, 150, is_flex=True),
        table_column(log_dirs.MOVING_BROKER, 90),
        table_column(log_dirs.MOVING_FROM, 170),
        table_column(log_dirs.MOVING_TO, 170),
        table_column(log_dirs.MOVING_COPIED, 100),
        table_column(log_dirs.MOVING_TOTAL, 100),
        table_column(log_dirs.MOVING_LAG, 100),
        table_column(log_dirs.MOVING_DONE, 90),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.log_dirs()]

    def rows(self) -> Iterable[MovingReplica] | None:
        outcome = self.session.log_dirs().value
        if outcome is None:
            return None
        wanted = self.broker
        found = moving_replicas(
            each
            for broker, directories in outcome.found.items()
            if wanted in (None, broker)
            for each in directories
        )  # fmt: skip
        return [each for each in found if self.scope.sees_topic(each.replica.partition.topic)]

    def row_id(self, row: MovingReplica) -> str:
        return replica_row(row.replica)


@dataclass(frozen=True, slots=True)
class TopicSize:
    name: str
    size_bytes: int
    share: str


@channel("topic-sizes")
class TopicSizes(TableChannel[TopicSize]):
    """Topics by the bytes of all their replicas, and their share of the bytes that the viewer may see."""

    SORT = "size"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(topic_columns.TOPIC.by(lambda row: row.name), is_flex=True),
        table_column(log_dirs.REPLICA_SIZE.by(lambda row: row.size_bytes)),
        Column("share", "Share", lambda row: row.share, None, True),
        Column("segments", "Segments", lambda row: "Partitions"),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.log_dirs()]

    def rows(self) -> Iterable[TopicSize] | None:
        sizes = self.session.topic_sizes()
        if sizes is None:
            return None
        seen = {name: size_bytes for name, size_bytes in sizes.items() if self.scope.sees_topic(name)}
        total = sum(seen.values())
        return [TopicSize(name, size_bytes, percent(size_bytes, total)) for name, size_bytes in seen.items()]

    def row_id(self, row: TopicSize) -> str:
        return row.name

    def _cells(self, row: TopicSize) -> list[Any]:
        cells = super()._cells(row)
        cells[0] = linked(cells[0], page_path(self.hub.name, "topic", topic=row.name))
        cells[-1] = linked(cells[-1], page_path(self.hub.name, "storage", topic=row.name))
        return cells


@channel("largest-replicas")
class LargestReplicas(TableChannel[ReplicaRow]):
    """Every replica, the largest first."""

    SORT = "size"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(log_dirs.REPLICA_TOPIC, 200, is_flex=True),
        table_column(log_dirs.REPLICA_PARTITION, 100),
        table_column(log_dirs.REPLICA_SIZE, 110),
        table_column(log_dirs.LAG, 100),
        table_column(log_dirs.REPLICA_BROKER, 90),
        table_column(log_dirs.REPLICA_DIRECTORY, 200),
        table_column(log_dirs.REPLICA_STATE, 150),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.log_dirs()]

    def rows(self) -> Iterable[ReplicaRow] | None:
        outcome = self.session.log_dirs().value
        if outcome is None:
            return None
        return (
            ReplicaRow(directory.broker_id, directory.path, replica)
            for directories in outcome.found.values()
            for directory in directories
            for replica in directory.replicas
            if self.scope.sees_topic(replica.topic)
        )

    def row_id(self, row: ReplicaRow) -> str:
        # As directory_acts.replica_of reads it; of 200,000 rows.
        return f"{row.replica.topic}-{row.replica.partition} {row.broker_id} {row.path}"

    def row_text(self, row: ReplicaRow) -> str:
        return f"{row.replica.topic}-{row.replica.partition}"

    def _cells(self, row: ReplicaRow) -> list[Any]:
        first, *rest = super()._cells(row)
        return [linked(first, page_path(self.hub.name, "topic", topic=row.replica.topic)), *rest]


@channel("topic-segments")
class TopicSegments(TableChannel[PartitionRow]):
    """The partitions of one topic, with their segments if the broker reports them."""

    SUBJECT = REQUIRED = frozenset({"topic"})
    SORT = "size"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(topic_columns.PARTITION),
        table_column(topic_columns.PARTITION_SIZE),
        table_column(topic_columns.SEGMENTS),
        table_column(topic_columns.LOG_START),
        table_column(topic_columns.LOG_END),
        table_column(topic_columns.DIRECTORY, is_flex=True),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.partitions(self.params["topic"])]

    def rows(self) -> Iterable[PartitionRow] | None:
        return self.session.partitions(self.params["topic"]).value

    def row_id(self, row: PartitionRow) -> str:
        return str(row.partition)


def layout(context: Context, cluster: str, range: str = "", topic: str = "", **_: str) -> Component:
    chosen = {"range": range} if range else {}
    segments = (
        listing(
            f"Partitions of {clean(topic)}",
            "topic-segments",
            TopicSegments.COLUMNS,
            cluster=cluster,
            params={"topic": topic},
            rows=PARTITIONS_SHOWN,
            note="Segments are known if broker-cy serves its metrics (brokercy.metrics.listener).",
        )
        if topic
        else html.P("Choose a topic to see its partitions with their segments.", className="panel-note panel")
    )
    return shell(
        context,
        cluster,
        "storage",
        "Storage",
        [
            listing(
                "Log directories",
                "log-directories",
                LogDirectories.COLUMNS,
                cluster=cluster,
                rows=DIRECTORIES_SHOWN,
                note="Free: of the volume of the directory; less than 10 % is red. Size: of the replicas.",
                empty="No broker reports a log directory.",
                actions=[act_button("Balance", directory_acts.BalanceDirectories.name, role=Role.ADMIN)],
            ),
            table(
                "Moves between directories",
                "directory-moves",
                DirectoryMoves.COLUMNS,
                cluster=cluster,
                noun="replica",
                can_mark=True,
                height_rows=MOVES_HIGH,
                note="By any tool. Lag: the offsets that the copy lacks.",
                empty="No replica moves between directories.",
                actions=[
                    act_button(
                        "Cancel marked",
                        directory_acts.CancelDirectoryMoves.name,
                        role=Role.ADMIN,
                        destructive=True,
                        rows="marked",
                    ),
                    act_button(
                        "Cancel all", directory_acts.CancelDirectoryMoves.name, role=Role.ADMIN, destructive=True
                    ),
                ],
            ),
            html.Div(
                [
                    panel(
                        "Free space",
                        "disk-free",
                        "chart",
                        cluster=cluster,
                        params=chosen,
                        note="Free bytes of each volume, from broker-cy.",
                    ),
                    panel(
                        "Not flushed",
                        "unflushed",
                        "chart",
                        cluster=cluster,
                        params=chosen,
                        note="Bytes written to logs and not yet synced to the disk, from broker-cy.",
                    ),
                ],
                className="columns wide",
            ),
            listing(
                "Forecast",
                "disk-forecast",
                DiskForecast.COLUMNS,
                cluster=cluster,
                params=chosen,
                rows=DIRECTORIES_SHOWN,
                note="The time when a volume is full if its free space keeps changing as in the range above: "
                "a linear forecast, which is unreliable for a short range.",
                empty="No samples of free space.",
            ),
            html.Div(
                [
                    listing(
                        "Largest topics",
                        "topic-sizes",
                        TopicSizes.COLUMNS,
                        cluster=cluster,
                        rows=TOPICS_SHOWN,
                        note="Bytes over all replicas.",
                        empty="No topics.",
                    ),
                    segments,
                ],
                className="columns wide",
            ),
            table(
                "Replicas",
                "largest-replicas",
                LargestReplicas.COLUMNS,
                cluster=cluster,
                noun="replica",
                can_mark=True,
                height_rows=ROWS_HIGH,
                note="The filter finds topics and partitions (orders-3).",
                actions=[
                    act_button(
                        "Move marked to a directory",
                        directory_acts.MoveToDirectory.name,
                        role=Role.ADMIN,
                        rows="marked",
                    )
                ],
            ),
        ],
        actions=[ranges(cluster, "storage", range, topic=topic)],
    )


PAGE = Page("storage", "Storage", layout)
