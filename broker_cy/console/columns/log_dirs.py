"""Columns of log directories and of the replicas in them."""

from __future__ import annotations

from typing import Final

from broker_cy.admin.log_dirs import LogDir
from broker_cy.console.columns import topics
from broker_cy.console.directory_moves import MovingReplica
from broker_cy.console.rows import ReplicaRow
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN, percent, size
from broker_cy.reporting.tone import Tone

# Less free space than this share of the volume is marked.
FREE_SHARE_MIN: Final = 0.1


def _free(row: LogDir) -> str:
    if row.usable_bytes is None:
        return UNKNOWN
    share = "" if row.total_bytes is None else f" ({percent(row.usable_bytes, row.total_bytes)})"
    return f"{size(row.usable_bytes)}{share}"


def _free_tone(row: LogDir) -> Tone:
    if row.usable_bytes is None or row.total_bytes is None:
        return Tone.PLAIN
    return Tone.BAD if row.usable_bytes < row.total_bytes * FREE_SHARE_MIN else Tone.PLAIN


def _state(row: LogDir) -> str:
    if row.is_offline:
        return "offline"
    return row.error or ("cordoned" if row.is_cordoned else "ok")


def _state_tone(row: LogDir) -> Tone:
    return Tone.BAD if row.error else Tone.WARN if row.is_cordoned else Tone.GOOD


BROKER: Final = Column[LogDir]("broker", "Broker", lambda row: row.broker_id, Kind.NUMBER, width=6)
DIRECTORY: Final = Column[LogDir]("path", "Directory", lambda row: row.path, width=20)
STATE: Final = Column[LogDir]("state", "State", _state, tone=_state_tone, width=8)
# A broker does not know what is in a directory that is offline.
REPLICAS: Final = Column[LogDir](
    "replicas", "Replicas", lambda row: None if row.error else len(row.replicas), Kind.COUNT, width=8
)
SIZE: Final = Column[LogDir](
    "logs", "Size", lambda row: None if row.error else row.size_bytes, Kind.BYTES, hint="Bytes of the replicas"
)
FREE: Final = Column[LogDir](
    "free", "Free", lambda row: row.usable_bytes, Kind.BYTES, text=_free, tone=_free_tone, width=15
)
VOLUME: Final = Column[LogDir]("total", "Volume", lambda row: row.total_bytes, Kind.BYTES)

REPLICA_BROKER: Final[Column[ReplicaRow]] = BROKER.by(lambda row: row.broker_id)
REPLICA_DIRECTORY: Final = Column[ReplicaRow]("directory", "Directory", lambda row: row.path, sorts=False, width=14)
REPLICA_TOPIC: Final[Column[ReplicaRow]] = topics.TOPIC.by(lambda row: row.replica.topic)
REPLICA_PARTITION: Final[Column[ReplicaRow]] = topics.PARTITION.by(lambda row: row.replica.partition)
REPLICA_SIZE: Final = Column[ReplicaRow]("size", "Size", lambda row: row.replica.size_bytes, Kind.BYTES)
LAG: Final = Column[ReplicaRow](
    "behind", "Lag", lambda row: row.replica.offset_lag, Kind.COUNT, hint="Offsets that the replica lacks", width=8
)
REPLICA_STATE: Final = Column[ReplicaRow](
    "state", "State", lambda row: "being moved here" if row.replica.is_future else "", width=16
)

MOVING: Final = Column[MovingReplica]("replica", "Replica", lambda row: str(row.replica.partition), width=20)
MOVING_BROKER: Final[Column[MovingReplica]] = BROKER.by(lambda row: row.replica.broker_id)
MOVING_FROM: Final = Column[MovingReplica]("source", "From", lambda row: row.source or UNKNOWN, width=20)
MOVING_TO: Final = Column[MovingReplica]("target", "To", lambda row: row.target, width=20)
MOVING_COPIED: Final = Column[MovingReplica]("copied", "Copied", lambda row: row.copied_bytes, Kind.BYTES)
MOVING_TOTAL: Final = Column[MovingReplica]("total", "Total", lambda row: row.total_bytes, Kind.BYTES)
MOVING_LAG: Final = Column[MovingReplica](
    "lag", "Lag", lambda row: row.offset_lag, Kind.COUNT, hint="Offsets that the copy lacks", width=8
)
MOVING_DONE: Final = Column[MovingReplica](
    "done", "Done", lambda row: percent(row.copied_bytes, row.total_bytes), sorts=False, width=6
)
