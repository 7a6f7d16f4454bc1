"""The operations of clients and their responses: the history that tests/history/checker.py checks.

Values are unique over the whole history, so that a value identifies its send. Times are numbers of one counter that all
threads of the recording process share.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

Place = tuple[str, int]
"""(topic, partition)."""


class Fate(Enum):
    """The fate of a record, as its sender knows it."""

    ACKED = "acked"
    REFUSED = "refused"
    """The record was certainly not written."""
    UNKNOWN = "unknown"


class Outcome(Enum):
    """The outcome of a transaction, as its owner knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Still open, or its owner was killed or fenced before it received a response."""


@dataclass(frozen=True, slots=True)
class Send:
    """One record and the outcome of its send."""

    value: str
    place: Place
    fate: Fate
    offset: int | None = None
    """The offset of an acknowledged record."""
    transaction: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Transaction:
    """How one transaction ended; its name is unique in the history."""

    name: str
    outcome: Outcome
    commit_began: int | None
    """The time just before the commit was first requested; None if it never was."""


@dataclass(frozen=True, slots=True)
class Assign:
    """A consumer starts again, or its group assigns it other partitions; its earlier positions no longer apply."""

    consumer: str
    committed: bool
    """Whether the consumer's isolation level is read_committed."""
    positions: Mapping[Place, int | None]
    """None if the client continues at its group's committed offset, which it does not report."""


@dataclass(frozen=True, slots=True)
class Seek:
    """A consumer moves to another offset of one partition."""

    consumer: str
    place: Place
    offset: int


@dataclass(frozen=True, slots=True)
class Read:
    """A record as a poll returned it."""

    place: Place
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Poll:
    """The records that one poll returned, in order, and the positions that the consumer reports afterwards."""

    consumer: str
    ended: int
    records: tuple[Read, ...]
    positions: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """DeleteRecords is about to be sent: from now on records before `offset` may be gone."""

    place: Place
    offset: int
    began: int


@dataclass(frozen=True, slots=True)
class Compact:
    """A partition is compacted throughout the history: a record may be removed if there is a newer one of its key."""

    place: Place


@dataclass(frozen=True, slots=True)
class Unclean:
    """Until `ended`, elected leaders of a partition may have lacked records: any record may be lost, and its offset
    reused.
    """

    place: Place
    ended: int


@dataclass(frozen=True, slots=True)
class Crash:
    """A process was killed: the broker, or a client by its name."""

    who: str


Operation = Send | Transaction | Assign | Seek | Poll | Delete | Compact | Unclean | Crash


class Recorder:
    """Collects operations from many threads. All operations of one consumer come from one thread, in order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._times = itertools.count()
        self._lock = threading.Lock()

    def now(self) -> int:
        """A time that is greater than all earlier ones."""
        with self._lock:
            return next(self._times)

    def add(self, operation: Operation) -> None:
        with self._lock:
            self.operations.append(operation)

    def take(self, first: Iterable[Operation]) -> list[Operation]:
        """Return the operations so far, and begin another history with the operations `first`."""
        with self._lock:
            taken, self.operations = self.operations, list(first)
        return taken
