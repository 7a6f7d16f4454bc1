"""The state of a copy flow for people and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CopyState(Enum):
    """The phase of a copy flow."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    FENCED = "fenced"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of the source and its copy.

    `source_position` is the next offset of the source to copy, as of the last commit; `source_end` and `target_end` are
    the ends of both partitions as far as they are known. `lag_ms` is the age of the last copied record while records
    wait, else 0; `latency_ms` is the age of the newest record of the last batch when the target had it. None: not known
    yet. `problem` is a sentence: the partition waits, or lost records to retention.
    """

    topic: str
    partition: int
    remote_topic: str
    source_position: int | None = None
    source_end: int | None = None
    target_end: int | None = None
    lag_records: int | None = None
    lag_ms: int | None = None
    records: int = 0
    bytes: int = 0
    problem: str | None = None
    waits: bool = False
    latency_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """`records` and `bytes` were produced and committed since the start; `aborts` counts transactions that failed.
    `error` is the reason for FENCED and FAILED, or the last failure; `note` the reason why a flow that should have
    transactions has none.
    """

    state: CopyState
    partitions: tuple[PartitionStatus, ...]
    records: int = 0
    bytes: int = 0
    transactions: int = 0
    aborts: int = 0
    buffered_bytes: int = 0
    error: str | None = None
    note: str | None = None
