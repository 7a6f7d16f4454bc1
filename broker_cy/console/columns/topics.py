"""Columns of topics and of their partitions."""

from __future__ import annotations

from typing import Final

from broker_cy.console.feed_values import PartitionRow
from broker_cy.console.rows import TopicRow
from broker_cy.core.uuid import to_text
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone


def _topic_state(row: TopicRow) -> str:
    if row.offline:
        return f"{row.offline} offline"
    return f"{row.under_replicated} behind" if row.under_replicated else "ok"


def _topic_tone(row: TopicRow) -> Tone:
    return Tone.BAD if row.offline else Tone.WARN if row.under_replicated else Tone.GOOD


TOPIC: Final = Column[TopicRow]("topic", "Topic", lambda row: row.info.name, width=20)
PARTITIONS: Final = Column[TopicRow]("partitions", "Partitions", lambda row: len(row.info.partitions), Kind.COUNT)
REPLICAS: Final = Column[TopicRow](
    "replicas", "Replicas", lambda row: row.info.replication_factor, Kind.NUMBER, hint="Replication factor", width=8
)
SIZE: Final = Column[TopicRow](
    "size", "Size", lambda row: row.size_bytes, Kind.BYTES, hint="Bytes on disk over all replicas"
)
RECORDS: Final = Column[TopicRow]("records", "Records/s", lambda row: row.records_per_s, Kind.RATE, width=9)
IN: Final = Column[TopicRow]("in", "In/s", lambda row: row.in_per_s, Kind.BYTES, width=9)
OFFLINE: Final = Column[TopicRow]("offline", "Offline", lambda row: row.offline, Kind.COUNT)
UNDER_REPLICATED: Final = Column[TopicRow](
    "under-replicated", "Under-replicated", lambda row: row.under_replicated, Kind.COUNT
)
TOPIC_ID: Final = Column[TopicRow]("id", "Id", lambda row: to_text(row.info.topic_id), width=22)
STATE: Final = Column[TopicRow](
    "state", "State", _topic_state, tone=_topic_tone, sort=lambda row: (row.offline, row.under_replicated)
)


def _leader_tone(row: PartitionRow) -> Tone:
    return Tone.BAD if row.is_offline else Tone.PLAIN


def _partition_state(row: PartitionRow) -> str:
    return "offline" if row.is_offline else "behind" if row.is_behind else "ok"


def _partition_tone(row: PartitionRow) -> Tone:
    return Tone.BAD if row.is_offline else Tone.WARN if row.is_behind else Tone.GOOD


PARTITION: Final = Column[PartitionRow]("partition", "Partition", lambda row: row.partition, Kind.NUMBER, width=10)
LEADER: Final = Column[PartitionRow](
    "leader",
    "Leader",
    lambda row: row.leader_id,
    Kind.NUMBER,
    text=lambda row: "none" if row.is_offline else str(row.leader_id),
    tone=_leader_tone,
    width=6,
)
LEADER_EPOCH: Final = Column[PartitionRow](
    "epoch", "Epoch", lambda row: row.leader_epoch, Kind.NUMBER, hint="Leader epoch", width=5
)
REPLICA_IDS: Final = Column[PartitionRow]("replicas", "Replicas", lambda row: row.replicas, Kind.IDS, width=8)
IN_SYNC: Final = Column[PartitionRow](
    "in-sync", "In sync", lambda row: row.in_sync, Kind.IDS, hint="In-sync replicas (ISR)", width=8
)
LOG_START: Final = Column[PartitionRow](
    "start", "Log start", lambda row: row.start, Kind.COUNT, hint="Log start offset", width=14
)
LOG_END: Final = Column[PartitionRow](
    "end", "Log end", lambda row: row.end, Kind.COUNT, hint="Log end offset", width=14
)
OFFSETS: Final = Column[PartitionRow](
    "span",
    "Offsets",
    lambda row: row.span,
    Kind.COUNT,
    hint="From the log start to the log end; compaction and transactions leave fewer records",
    width=14,
)
PARTITION_SIZE: Final = Column[PartitionRow](
    "size", "Size", lambda row: row.size_bytes, Kind.BYTES, hint="Bytes on disk", width=9
)
SEGMENTS: Final = Column[PartitionRow](
    "segments",
    "Segments",
    lambda row: row.segments,
    Kind.COUNT,
    hint="Known if the broker serves metrics: brokercy.metrics.listener",
    width=8,
)
PARTITION_STATE: Final = Column[PartitionRow](
    "state",
    "State",
    _partition_state,
    tone=_partition_tone,
    sort=lambda row: (not row.is_offline, not row.is_behind),
    width=7,
)
DIRECTORY: Final = Column[PartitionRow]("directory", "Directory", lambda row: row.directory or None)
