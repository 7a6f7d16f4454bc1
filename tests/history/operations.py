"""What clients did to a broker and what they were told: the history that tests/history/checker.py judges.

Values are unique over the whole history, so that a value names its send. Times are numbers of one counter that all
threads of the recording process share.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

Place = tuple[str, int]
"""(topic, partition)."""


class Fate(Enum):
    """What the sender of a record knows."""

    ACKED = "acked"
    REFUSED = "refused"
    """The record was certainly not written."""
    UNKNOWN = "unknown"


class Outcome(Enum):
    """What the owner of a transaction knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Still open, or the one who could have been told was killed or fenced."""


@dataclass(frozen=True, slots=True)
class Send:
    """One record and how its sending ended."""

    value: str
    place: Place
    fate: Fate
    offset: int | None = None
    """Of an acknowledged record."""
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class Transaction:
    """How one transaction ended; its name is unique in the history."""

    name: str
    outcome: Outcome
    commit_began: int | None
    """The time just before the commit was asked for the first time; None where it never was."""


@dataclass(frozen=True, slots=True)
class Assign:
    """A consumer begins anew, or its group gave it other partitions: of what it read before, nothing holds."""

    consumer: str
    committed: bool
    """Whether it reads read_committed."""
    positions: Mapping[Place, int | None]
    """None where the client goes on where its group committed, and does not tell where that is."""


@dataclass(frozen=True, slots=True)
class Seek:
    """A consumer goes on at another offset of one partition."""

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
    """What one poll returned, in its order, and where the consumer says that it stands afterwards."""

    consumer: str
    ended: int
    records: tuple[Read, ...]
    positions: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """Records of a partition before `offset` may be gone from now on: DeleteRecords is about to be asked for."""

    place: Place
    offset: int
    began: int


@dataclass(frozen=True, slots=True)
class Crash:
    """A process was killed: the broker, or a client by its name."""

    who: str


Operation = Send | Transaction | Assign | Seek | Poll | Delete | Crash


class Recorder:
    """Takes operations from many threads. Those of one consumer come from one thread, and so in their order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._times = itertools.count()
        self._lock = threading.Lock()

    def now(self) -> int:
        """A time that is greater than all given before."""
        with self._lock:
            return next(self._times)

    def add(self, operation: Operation) -> None:
        with self._lock:
            self.operations.append(operation)
