"""The messages between the voters of the metadata quorum, as values: Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch
of KIP-595, with the pre-vote of KIP-996 and the high watermark in Fetch of KIP-1166. Who sends one, and to whom, is not
part of it. The `epoch` of a response is that of its sender, which is the newer one if the request was outdated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from broker_cy.quorum.election_state import NO_LEADER


class OffsetAndEpoch(NamedTuple):
    """An exclusive end offset, and the epoch of the entry before it."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Leadership:
    """The content of the first batch of each epoch (Kafka's LeaderChangeMessage)."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """The entries `offset` to `end_offset` (exclusive), all of one epoch. `content` is a Leadership, or what the user
    of the quorum gave it, which the quorum does not interpret.
    """

    offset: int
    end_offset: int
    epoch: int
    content: Any


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """`pre_vote` asks whether the receiver would vote for the sender in the next epoch, and binds nobody."""

    epoch: int
    last: OffsetAndEpoch  # the end of the candidate's log
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteResponse:
    epoch: int
    leader_id: int
    granted: bool
    pre_vote: bool  # that of the request


@dataclass(frozen=True, slots=True)
class BeginQuorumEpoch:
    """The sender leads the epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True)
class EndQuorumEpoch:
    """The sender leads the epoch no longer. `successors` are the voters with the longest logs first."""

    epoch: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fetch:
    """Asks for the entries behind `end`, and states that everything before it is on the sender's disk."""

    epoch: int
    correlation: int
    end: OffsetAndEpoch
    high_watermark: int


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """`diverging` is the end of the newest epoch that both logs may share: the receiver truncates to it. Otherwise the
    response has entries from `offset` on. In an Output `batches` is empty: whoever sends the response adds whole
    batches of its log from `offset` on, as many as it likes.

    A response with another epoch or leader than the request expected has neither.
    """

    epoch: int
    correlation: int
    leader_id: int = NO_LEADER
    high_watermark: int = 0
    diverging: OffsetAndEpoch | None = None
    offset: int = -1
    batches: tuple[Batch, ...] = ()


Message = (
    VoteRequest | VoteResponse | BeginQuorumEpoch | BeginQuorumEpochResponse | EndQuorumEpoch | Fetch | FetchResponse
)
