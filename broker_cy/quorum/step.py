"""The events of the quorum's state machine, and what it returns for each: values, which can be printed and compared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.messages import Batch, Message


class Role(Enum):
    UNATTACHED = "unattached"  # knows an epoch but no leader; may have voted
    RESIGNED = "resigned"  # was the leader of this epoch and must not lead it again
    PROSPECTIVE = "prospective"  # asks whether it would be elected (KIP-996)
    CANDIDATE = "candidate"  # has voted for itself in this epoch
    LEADER = "leader"
    FOLLOWER = "follower"  # fetches from the leader of this epoch
    CLOSED = "closed"  # takes part no longer


@dataclass(frozen=True, slots=True)
class Start:
    """The first event. The log and quorum-state were read, and the log is on disk as it was read."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: at the latest when the `wake_ms` of the last output is reached."""


@dataclass(frozen=True, slots=True)
class Received:
    source: int
    message: Message


class Proposal(NamedTuple):
    """One batch to append, of `entries` entries."""

    entries: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Append:
    """Append to the log as the leader of `epoch`, from `offset` on, which is its end. Raises NotLeaderError."""

    epoch: int
    offset: int
    proposals: tuple[Proposal, ...]


@dataclass(frozen=True, slots=True)
class NotWritten:
    """The batches of an output could not be written, and none of them is in the log, which ends at `end_offset`."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything below `end_offset` is on disk. Nothing was truncated below it since the sync began."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Take part no longer: the node stops, or no longer knows what is on its disk."""


Event = Start | Tick | Received | Append | NotWritten | Synced | Stop


class Send(NamedTuple):
    to: int
    message: Message


# The order in which the parts of an Output are carried out.
DURABILITY_ORDER: Final = ("persist", "truncate_to", "append", "send")


@dataclass(frozen=True, slots=True)
class Output:
    """What one event leads to. The parts are carried out in DURABILITY_ORDER, each completely before the next:

    1. `persist` (None: unchanged) is on disk. Otherwise a node that crashes could vote twice in one epoch, or lead an
       epoch twice. If that fails, nothing else of the output may be done, and the node must stop.
    2. The log is truncated to `truncate_to` (-1: it is not).
    3. `append` is written to the log, all or nothing (else NotWritten follows). It need not be on disk: `Synced`
       reports that later, and only its output counts the entries, or fetches on behalf of them.
    4. `send` leaves.

    The rest describes the machine after the event. `wake_ms` is when it needs a Tick at the latest, -1 if never.
    """

    role: Role
    epoch: int
    leader_id: int
    high_watermark: int
    persist: ElectionState | None = None
    truncate_to: int = -1
    append: tuple[Batch, ...] = ()
    send: tuple[Send, ...] = ()
    wake_ms: int = -1


class NotLeaderError(Exception):
    """Only the leader appends, in its own epoch and at the end of its log."""


class Timeouts(NamedTuple):
    """In milliseconds; the defaults are Kafka's: controller.quorum.*.timeout.ms and controller.quorum.retry.backoff.ms.

    An election starts after `election_ms` to twice as much without a leader, or if a follower fetched nothing for
    `fetch_ms`. A request without a response is repeated after `request_ms`. The leader holds a fetch with nothing new
    for `fetch_wait_ms` at most. A follower that could not write what it fetched fetches again after `backoff_ms`.
    """

    election_ms: int = 1000
    fetch_ms: int = 2000
    request_ms: int = 2000
    fetch_wait_ms: int = 500
    backoff_ms: int = 20
