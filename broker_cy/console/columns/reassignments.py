"""Columns of partitions that are being reassigned."""

from __future__ import annotations

from typing import Final

from broker_cy.console.moving import MovingPartition
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import percent

PARTITION: Final = Column[MovingPartition]("partition", "Partition", lambda row: row.partition, width=20)
BEFORE: Final = Column[MovingPartition](
    "before", "Before", lambda row: row.reassignment.before, Kind.IDS, sorts=False, hint="Replicas before"
)
AFTER: Final = Column[MovingPartition](
    "after", "After", lambda row: row.reassignment.after, Kind.IDS, sorts=False, hint="Replicas afterwards"
)
ADDING: Final = Column[MovingPartition](
    "adding", "Adding", lambda row: row.reassignment.adding, Kind.IDS, sorts=False, hint="Brokers that copy the log"
)
COPIED: Final = Column[MovingPartition]("copied", "Copied", lambda row: row.copied_bytes, Kind.BYTES)
TOTAL: Final = Column[MovingPartition]("total", "Total", lambda row: row.total_bytes, Kind.BYTES, hint="Bytes to copy")
DONE: Final = Column[MovingPartition](
    "done",
    "Done",
    lambda row: row.copied_bytes / row.total_bytes if row.total_bytes else None,
    Kind.RATE,
    text=lambda row: percent(row.copied_bytes, row.total_bytes),
    width=5,
)
