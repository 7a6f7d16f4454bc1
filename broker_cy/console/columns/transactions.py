"""Columns of transactional ids, of hanging transactions, and of the producers of a partition."""

from __future__ import annotations

from typing import Final

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.transactions import HangingTransaction, ProducerState, TransactionListing
from broker_cy.console.columns import groups, topics
from broker_cy.console.feed_values import OpenTransaction
from broker_cy.console.rows import assignment_text
from broker_cy.console.session import now_ms
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone

# The states of open transactions.
OPEN_TONES: Final = {"Ongoing": Tone.NOTED, "PrepareCommit": Tone.WARN, "PrepareAbort": Tone.WARN}

Producer = tuple[TopicPartition, ProducerState]


def _open_tone(row: OpenTransaction) -> Tone:
    if row.open_ms is None:
        return Tone.MUTED
    is_late = row.timeout_ms is not None and row.open_ms > row.timeout_ms
    return Tone.BAD if is_late else Tone.PLAIN


def _written(row: Producer) -> int | None:
    return None if row[1].last_timestamp_ms < 0 else row[1].last_timestamp_ms


def _idle(row: Producer) -> int | None:
    written = _written(row)
    return None if written is None else max(0, now_ms() - written)


TRANSACTIONAL_ID: Final = Column[TransactionListing](
    "id", "Transactional id", lambda row: row.transactional_id, width=18
)
STATE: Final = Column[TransactionListing](
    "state", "State", lambda row: row.state, tone=lambda row: OPEN_TONES.get(row.state, Tone.PLAIN), width=14
)
PRODUCER_ID: Final = Column[TransactionListing](
    "producer", "Producer id", lambda row: row.producer_id, Kind.NUMBER, sorts=False, width=14
)
COORDINATOR: Final[Column[TransactionListing]] = groups.COORDINATOR.by(lambda row: row.coordinator_id)
OPEN_FOR: Final = Column[OpenTransaction](
    "open",
    "Open for",
    lambda row: row.open_ms,
    Kind.DURATION,
    tone=_open_tone,
    hint="Red: for longer than its timeout",
)
TIMEOUT: Final = Column[OpenTransaction]("timeout", "Timeout", lambda row: row.timeout_ms, Kind.DURATION, width=8)
PARTITIONS: Final = Column[OpenTransaction]("count", "Partitions", lambda row: len(row.partitions), Kind.COUNT)
IN_THE_TRANSACTION: Final = Column[OpenTransaction](
    "partitions",
    "In the transaction",
    lambda row: assignment_text(row.partitions) or None,
    sorts=False,
    hint="Partitions with records of the transaction",
    width=20,
)

PARTITION: Final[Column[Producer]] = topics.PARTITION.by(lambda row: row[0].partition)
PARTITION_PRODUCER_ID: Final = Column[Producer](
    "producer", "Producer id", lambda row: row[1].producer_id, Kind.NUMBER, width=14
)
EPOCH: Final = Column[Producer](
    "epoch", "Epoch", lambda row: row[1].producer_epoch, Kind.NUMBER, hint="Producer epoch", width=5
)
LAST_SEQUENCE: Final = Column[Producer](
    "sequence",
    "Last sequence",
    lambda row: row[1].last_sequence,
    Kind.COUNT,
    hint="Sequence number of the last record",
    width=13,
)
LAST_WRITE: Final = Column[Producer]("written", "Last write", _written, Kind.TIME, width=23)
IDLE: Final = Column[Producer]("idle", "Idle", _idle, Kind.DURATION, hint="Since the last write")
START_OFFSET: Final = Column[Producer](
    "open",
    "Start offset",
    lambda row: row[1].txn_start_offset,
    Kind.COUNT,
    tone=lambda row: Tone.MUTED if row[1].txn_start_offset is None else Tone.NOTED,
    hint="First offset of the open transaction",
    width=14,
)
COORDINATOR_EPOCH: Final = Column[Producer](
    "coordinator",
    "Coordinator epoch",
    lambda row: row[1].coordinator_epoch,
    Kind.NUMBER,
    sorts=False,
    hint="-1: no transaction of the producer has ended here",
    width=17,
)

HANGING_PARTITION: Final = Column[HangingTransaction]("partition", "Partition", lambda row: row.partition, width=16)
HANGING_ID: Final[Column[HangingTransaction]] = TRANSACTIONAL_ID.by(lambda row: row.transactional_id)
HANGING_PRODUCER_ID: Final[Column[HangingTransaction]] = PRODUCER_ID.by(lambda row: row.producer.producer_id)
HANGING_EPOCH: Final[Column[HangingTransaction]] = EPOCH.by(lambda row: row.producer.producer_epoch)
HANGING_START_OFFSET: Final = Column[HangingTransaction](
    "start",
    "Start offset",
    lambda row: row.producer.txn_start_offset,
    Kind.COUNT,
    sorts=False,
    hint="First offset of the open transaction",
    width=14,
)
HANGING_IDLE: Final[Column[HangingTransaction]] = IDLE.by(lambda row: row.idle_ms)
