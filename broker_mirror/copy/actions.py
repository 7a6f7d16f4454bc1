"""The stages of a copy machine, the actions that it returns, and the verdicts on its batches."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from broker_mirror.copy.partition import Key, Piece
from broker_mirror.formats.offset_syncs import OffsetSync

Identity = tuple[int, int]
"""A producer id and its epoch."""


class Stage(enum.Enum):
    """See copy/flow.py. Without transactions, a flow remains OPEN. RENEWING: it waits for answers, then for a new
    producer id.
    """

    STARTING = enum.auto()
    LOADING = enum.auto()
    IDLE = enum.auto()
    BEGINNING = enum.auto()
    OPEN = enum.auto()
    WRITING = enum.auto()
    COMMITTING = enum.auto()
    ABORTING = enum.auto()
    RENEWING = enum.auto()
    ENDED = enum.auto()


class Verdict(enum.Enum):
    """How a batch failed: RETRY: it may be sent again; ORDER: a batch before it did not arrive; TOO_LARGE: for the
    target; REFUSED: the partition has a problem; FAILED: the transaction, or the producer id, is given up.
    """

    RETRY = enum.auto()
    ORDER = enum.auto()
    TOO_LARGE = enum.auto()
    REFUSED = enum.auto()
    FAILED = enum.auto()


@dataclass(frozen=True, slots=True)
class Initialize:
    """Get a producer id: `initialized`."""


@dataclass(frozen=True, slots=True)
class Load:
    """Read the committed offsets of these partitions: `loaded`."""

    partitions: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction: `began`."""


@dataclass(frozen=True, slots=True)
class Produce:
    """Send a batch to a partition of the target: `stored` or `refused`."""

    source: Key
    target: Key
    piece: Piece
    sequence: int
    identity: Identity


@dataclass(frozen=True, slots=True)
class Write:
    """Write the next offset of each partition of the source, and offset syncs: `written` or `failed`."""

    offsets: Mapping[Key, int]
    syncs: tuple[OffsetSync, ...]


@dataclass(frozen=True, slots=True)
class End:
    """End the transaction, and repeat that until its outcome is known: `ended`."""

    commit: bool


@dataclass(frozen=True, slots=True)
class Announce:
    """Write offset syncs into the source, after the commit. Nothing waits for it."""

    syncs: tuple[OffsetSync, ...]


Action = Initialize | Load | Begin | Produce | Write | End | Announce
