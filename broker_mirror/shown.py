"""The tables of `broker-mirror status` and `broker-mirror lag`: the columns are those of the consoles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_cy.client.mirror_status import FlowStatus, MirrorStatus
from broker_cy.console.columns import mirrors
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.terminal import print_rows
from broker_mirror.status import PartitionLag

LOOPS_SHOWN: Final = 5

_LAG: Final[tuple[Column[PartitionLag], ...]] = (
    mirrors.FLOW.by(lambda row: row.flow),
    mirrors.TOPIC.by(lambda row: row.topic),
    mirrors.PARTITION.by(lambda row: row.partition),
    mirrors.POSITION.by(lambda row: row.position),
    mirrors.END.by(lambda row: row.end),
    mirrors.PARTITION_LAG.by(lambda row: row.lag),
)
_FLOWS: Final[tuple[Column[FlowStatus], ...]] = (
    mirrors.FLOW.by(lambda row: row.name),
    mirrors.STATE.by(lambda row: row.state),
    # The part of this process. The consoles show a flow of all its processes.
    Column("share", "Share", lambda row: row.share),
    mirrors.PARTITIONS.by(lambda row: len(row.partitions)),
    mirrors.LAG.by(lambda row: row.lag_records),
    mirrors.LAG_TIME.by(lambda row: row.lag_ms),
    mirrors.RECORDS.by(lambda row: row.records_per_s),
    mirrors.BYTES.by(lambda row: row.bytes_per_s),
    Column("groups", "Groups", lambda row: len(row.groups), Kind.COUNT),
    mirrors.RESTARTS.by(lambda row: row.restarts),
)


def print_lags(found: Sequence[PartitionLag]) -> None:
    """Print the lag of each partition."""
    print_rows(_LAG, found)


def print_status(found: MirrorStatus) -> None:
    """Print the flows, their problems and their loops."""
    print_rows(_FLOWS, found.flows)
    for flow in found.flows:
        name = flow.name
        for what, text in flow.problems.items():
            print(f"{name}, {what}: {text}")
        for part in flow.partitions:
            if part.problem is not None:
                print(f"{name}, {part.topic}-{part.partition}: {part.problem}")
        if flow.loops:
            shown = ", ".join(flow.loops[:LOOPS_SHOWN]) + (", ..." if len(flow.loops) > LOOPS_SHOWN else "")
            print(f"{name}: {len(flow.loops)} topics come from {flow.target}, and are not copied back: {shown}")
