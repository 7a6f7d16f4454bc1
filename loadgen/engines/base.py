"""The interface between producing users and what sends their records.

An engine is made once per process and kind of users, when the run is prepared. `work` of it is what all its users
share. A user's greenlet calls `produce`, which blocks until the pacer has no more operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from broker_cy.wire.compression import Codec
from loadgen.figures.book import Book
from loadgen.figures.meter import Meter
from loadgen.pace.pacer import Pacer
from loadgen.scenario.model import Scenario, UserSpec
from loadgen.scenario.share import Share
from loadgen.verify.ledger import Ledger

# What a scenario calls them, as the protocol knows them.
ACKS = {"all": -1, "1": 1, "0": 0}
CODECS = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


class EngineError(Exception):
    """The engine cannot do what the scenario asks for, or the cluster cannot be reached; the text says why."""


@dataclass(frozen=True)
class Work:
    """What the users of one entry of the scenario share in one process."""

    bootstrap: tuple[tuple[str, int], ...]
    scenario: Scenario
    spec: UserSpec
    partitions: int
    run: int  # random, in the prefix of each value
    worker: int  # index of the process
    share: Share  # of the entry's users
    pacer: Pacer
    meter: Meter
    book: Book
    ledger: Ledger | None  # None: values have no prefix, and nothing is verified

    def producer_id(self, user: int) -> int:
        """Return the number of a user in this process that is unique in the run, for prefixes."""
        kind = self.scenario.users.index(self.spec)
        return (self.worker << 40) | (kind << 32) | user


class Engine(Protocol):
    """Sends the records of one kind of users in one process."""

    def prepare(self) -> None:
        """Connect and encode what does not change; raises EngineError."""

    def connect(self, user: int) -> None:
        """Open what user `user` (0, 1, ... in this process) needs, before the run; raises EngineError."""

    def produce(self, user: int) -> None:
        """Perform operations of a user until the pacer ends. Failures are counted."""

    def settle(self, timeout_s: float) -> None:
        """Wait for the outcomes of what was sent, at most this long; what is open then is UNKNOWN."""

    def close(self) -> None:
        """Close the connections and end the threads."""
