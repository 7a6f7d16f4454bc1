"""Columns of partitions that lack replicas."""

from __future__ import annotations

from typing import Final

from broker_cy.admin.partition_health import PartitionHealth
from broker_cy.console.columns import topics
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone


def rank(row: PartitionHealth) -> int:
    """Return the order of a state: the worst first."""
    return 0 if row.is_offline else 1 if row.is_below_min_isr else 2


def _state(row: PartitionHealth) -> str:
    states = {
        "offline": row.is_offline,
        "below min ISR": row.is_below_min_isr,
        "under-replicated": row.is_under_replicated,
    }
    return ", ".join(name for name, holds in states.items() if holds)


PARTITION: Final = Column[PartitionHealth]("partition", "Partition", lambda row: row.partition, width=20)
TOPIC: Final[Column[PartitionHealth]] = topics.TOPIC.by(lambda row: row.partition.topic)
NUMBER: Final[Column[PartitionHealth]] = topics.PARTITION.by(lambda row: row.partition.partition)
STATE: Final = Column[PartitionHealth](
    "state",
    "State",
    _state,
    tone=lambda row: Tone.WARN if rank(row) == 2 else Tone.BAD,
    sort=rank,
    width=31,
)
LEADER: Final[Column[PartitionHealth]] = topics.LEADER.by(
    lambda row: row.info.leader_id,
    text=lambda row: "none" if row.is_offline else str(row.info.leader_id),
    tone=lambda row: Tone.BAD if row.is_offline else Tone.PLAIN,
)
REPLICAS: Final[Column[PartitionHealth]] = topics.REPLICA_IDS.by(lambda row: row.info.replicas)
IN_SYNC: Final[Column[PartitionHealth]] = topics.IN_SYNC.by(lambda row: row.info.in_sync_replicas)
OUT_OF_SYNC: Final = Column[PartitionHealth](
    "missing", "Out of sync", lambda row: row.missing, Kind.IDS, tone=lambda row: Tone.WARN, width=11
)
MIN_ISR: Final = Column[PartitionHealth](
    "needs", "Min ISR", lambda row: row.needed, Kind.COUNT, hint="min.insync.replicas", width=7
)
ELR: Final = Column[PartitionHealth](
    "may-lead",
    "ELR",
    lambda row: None if row.eligible is None else row.eligible.eligible,
    Kind.IDS,
    hint="Eligible leader replicas, which can become leader without data loss (KIP-966)",
    width=9,
)
