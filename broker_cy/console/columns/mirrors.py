"""Columns of the flows of mirrors, of their partitions, and of the notes about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_cy.console.mirrors import LOOP, RESTART, FlowPartition, MirrorFlow, Note
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone

_PARTITION_TONES: Final = {"waiting": Tone.BAD, "failed": Tone.BAD, "starting": Tone.NOTED, "paused": Tone.NOTED}

FLOW: Final = Column[MirrorFlow]("flow", "Flow", lambda row: row.name, width=16)
KIND: Final = Column[MirrorFlow]("kind", "Kind", lambda row: row.kind, width=4)
STATE: Final = Column[MirrorFlow]("state", "State", lambda row: row.state, tone=lambda row: row.tone, width=10)
PROCESSES: Final = Column[MirrorFlow](
    "processes", "Processes", lambda row: row.processes, Kind.COUNT, hint="Processes that report the flow", width=9
)


def _known(value: Callable[[MirrorFlow], int]) -> Callable[[MirrorFlow], int | None]:
    """Return a value that only reported flows have."""
    return lambda row: value(row) if row.is_reported else None


TOPICS: Final = Column[MirrorFlow]("topics", "Topics", _known(lambda row: row.topics), Kind.COUNT, width=6)
PARTITIONS: Final = Column[MirrorFlow](
    "partitions", "Partitions", _known(lambda row: len(row.partitions)), Kind.COUNT, width=10
)
LAG: Final = Column[MirrorFlow](
    "lag", "Lag", lambda row: row.lag_records, Kind.COUNT, hint="Records of the source that were not copied yet"
)
LAG_TIME: Final = Column[MirrorFlow](
    "lag-time",
    "Lag time",
    lambda row: row.lag_ms,
    Kind.DURATION,
    hint="Age of the last copied record while others wait",
)
RECORDS: Final = Column[MirrorFlow]("records", "Records/s", lambda row: row.records_per_s, Kind.RATE, width=9)
BYTES: Final = Column[MirrorFlow]("bytes", "Bytes/s", lambda row: row.bytes_per_s, Kind.BYTES, width=9)
PROBLEMS: Final = Column[MirrorFlow](
    "problems",
    "Problems",
    _known(lambda row: row.problems),
    Kind.COUNT,
    tone=lambda row: Tone.BAD if row.problems else Tone.PLAIN,
    width=8,
)
LOOPS: Final = Column[MirrorFlow](
    "loops",
    "Loops",
    _known(lambda row: row.loops),
    Kind.COUNT,
    hint="Topics that come from the target, and are not copied back",
    tone=lambda row: Tone.WARN if row.loops else Tone.PLAIN,
    width=5,
)
RESTARTS: Final = Column[MirrorFlow](
    "restarts",
    "Restarts",
    _known(lambda row: row.restarts),
    Kind.COUNT,
    tone=lambda row: Tone.WARN if row.restarts else Tone.PLAIN,
    width=8,
)
CHECKPOINT: Final = Column[MirrorFlow](
    "checkpoint", "Checkpoint", lambda row: row.checkpoint_age_ms, Kind.DURATION, hint="Since the last checkpoints"
)

TOPIC: Final = Column[FlowPartition]("topic", "Topic", lambda row: row.topic, width=16)
PARTITION: Final = Column[FlowPartition](
    "partition",
    "Partition",
    lambda row: row.partition,
    Kind.NUMBER,
    sort=lambda row: (row.topic, row.partition),
    width=9,
)
REMOTE_TOPIC: Final = Column[FlowPartition](
    "remote", "Target", lambda row: row.remote_topic, hint="Topic of the target", width=16
)
POSITION: Final = Column[FlowPartition](
    "position", "Copied to", lambda row: row.position, Kind.COUNT, hint="Next offset of the source to copy", width=12
)
END: Final = Column[FlowPartition](
    "end", "End", lambda row: row.end, Kind.COUNT, hint="End of the partition of the source", width=12
)
PARTITION_LAG: Final = Column[FlowPartition]("lag", "Lag", lambda row: row.lag_records, Kind.COUNT)
PARTITION_LAG_TIME: Final = Column[FlowPartition]("lag-time", "Lag time", lambda row: row.lag_ms, Kind.DURATION)
PARTITION_STATE: Final = Column[FlowPartition](
    "state", "State", lambda row: row.state, tone=lambda row: _PARTITION_TONES.get(row.state, Tone.PLAIN), width=8
)
PROBLEM: Final = Column[FlowPartition](
    "problem",
    "Problem",
    lambda row: row.problem,
    text=lambda row: row.problem or "",
    sort=lambda row: row.problem or "",
    tone=lambda row: Tone.BAD if row.problem else Tone.PLAIN,
    width=20,
)


def _note_tone(row: Note) -> Tone:
    return {LOOP: Tone.WARN, RESTART: Tone.WARN}.get(row.kind, Tone.BAD)


NOTE_KIND: Final = Column[Note]("kind", "Kind", lambda row: row.kind, tone=_note_tone, width=8)
NOTE_TIME: Final = Column[Note](
    "time", "Time", lambda row: row.time_ms, Kind.TIME, sort=lambda row: row.time_ms or 0, width=24
)
NOTE_SUBJECT: Final = Column[Note]("subject", "Subject", lambda row: row.subject, width=20)
NOTE_TEXT: Final = Column[Note]("text", "Text", lambda row: row.text, width=40)
