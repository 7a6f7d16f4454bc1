"""The interface between producing users and the engines that send their records.

An engine is created once per process and kind of users, when the run is prepared. `work` is shared by all of its users.
A user's greenlet calls `produce`, which blocks until the pacer has no more operations.
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

# From the names in scenarios to the values of the protocol.
ACKS = {"all": -1, "1": 1, "0": 0}
CODECS = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


class EngineError(Exception):
    """The engine does not support the scenario, or the cluster cannot be reached; the text says why."""


@dataclass(frozen=True)
class Work:
    """State that the users of one scenario entry share in one process."""

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
        """Return a number, unique in the run, for a user of this process; it is used in prefixes."""
        kind = self.scenario.users.index(self.spec)
        return (self.worker << 40) | (kind << 32) | user


class Engine(Protocol):
    """Sends the records of one kind of users in one process."""

    def prepare(self) -> None:
        """Connect, and encode the constant parts; raises EngineError."""

    def connect(self, user: int) -> None:
        """Open the connections of user `user` (0, 1, ... in this process) before the run; raises EngineError."""

    def produce(self, user: int) -> None:
        """Perform operations of a user until the pacer ends. Failures are counted."""

    def settle(self, timeout_s: float) -> None:
        """Wait for the outcomes of sent records, at most this long; outcomes that are open then are UNKNOWN."""

    def close(self) -> None:
        """Close the connections and end the threads."""
