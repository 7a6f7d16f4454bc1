"""The messages between the nodes of the metadata quorum, as values: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch and
FetchSnapshot of KIP-595 and KIP-630, with the pre-vote of KIP-996, the directory ids of KIP-853 and the high watermark
in Fetch of KIP-1166. A message names neither sender nor receiver. `wire` converts them from and to Kafka's requests.

Each request has exactly one response, in the same Output; only a Fetch may be answered later: its `correlation` is
repeated in the response, and so is that of a FetchSnapshot. The `epoch` of a response is that of its sender, which is
the newer one if the request was outdated. `leader_endpoints` are the addresses of the leader that the message names,
empty if the sender does not know them.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import NO_LEADER
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet

MARK_UNKNOWN = (1 << 63) - 1
"""The high watermark in the Fetch of a replica that does not send it: it is woken only by new entries."""
FETCH_WAIT_MS = 500
SNAPSHOT_BYTES = 8 << 20
"""The size of a snapshot's chunk in a request, as in Kafka."""


class OffsetAndEpoch(NamedTuple):
    """An exclusive end offset, and the epoch of the entry before it. Also the id of a snapshot that ends there."""

    offset: int
    epoch: int


NO_SNAPSHOT = OffsetAndEpoch(-1, -1)

# --- entries of the log


class Leadership(NamedTuple):
    """The first entry of each epoch (Kafka's LeaderChangeMessage). The log does not keep the directory ids: they are
    ZERO in an entry that was read from the log.
    """

    leader_id: int
    voters: tuple[ReplicaKey, ...]
    granting_voters: tuple[ReplicaKey, ...]


class KRaftVersion(NamedTuple):
    """The finalized kraft.version from this entry on (Kafka's KRaftVersionRecord)."""

    level: int


Control = Leadership | KRaftVersion | VoterSet
"""An entry that the quorum itself reads; a VoterSet is Kafka's VotersRecord."""


class Batch(NamedTuple):
    """The entries `offset` to `end_offset` (exclusive), all of one epoch. `content` is the batch as it is stored, which
    the quorum does not interpret; None if this node makes it from `control`. `control` is the part that it interprets.
    """

    offset: int
    end_offset: int
    epoch: int
    content: bytes | None
    control: tuple[Control, ...] = ()


# --- requests and responses


class VoteRequest(NamedTuple):
    """`pre_vote` asks whether the receiver would vote for the sender in the next epoch, and binds no node. `voter` is
    the receiver as the sender knows it, None if the request does not name it.
    """

    epoch: int
    last: OffsetAndEpoch  # the end of the candidate's log
    pre_vote: bool
    directory_id: UUID = uuids.ZERO  # of the candidate
    voter: ReplicaKey | None = None


class VoteResponse(NamedTuple):
    epoch: int
    leader_id: int
    granted: bool
    pre_vote: bool  # that of the request
    error: ErrorCode = ErrorCode.NONE
    leader_endpoints: tuple[Endpoint, ...] = ()


class BeginQuorumEpoch(NamedTuple):
    """The sender leads the epoch. `voter` as in VoteRequest."""

    epoch: int
    voter: ReplicaKey | None = None
    leader_endpoints: tuple[Endpoint, ...] = ()


class BeginQuorumEpochResponse(NamedTuple):
    epoch: int
    leader_id: int
    error: ErrorCode = ErrorCode.NONE
    leader_endpoints: tuple[Endpoint, ...] = ()


class EndQuorumEpoch(NamedTuple):
    """The sender leads the epoch no longer. `successors` are the voters with the longest logs first."""

    epoch: int
    successors: tuple[ReplicaKey, ...]
    leader_endpoints: tuple[Endpoint, ...] = ()


class EndQuorumEpochResponse(NamedTuple):
    epoch: int
    leader_id: int
    error: ErrorCode = ErrorCode.NONE
    leader_endpoints: tuple[Endpoint, ...] = ()


class Fetch(NamedTuple):
    """Asks for the entries behind `end`, and states that everything before it is on the sender's disk."""

    epoch: int
    correlation: int
    end: OffsetAndEpoch
    high_watermark: int
    directory_id: UUID = uuids.ZERO  # of the sender
    max_wait_ms: int = FETCH_WAIT_MS


class FetchResponse(NamedTuple):
    """`diverging` is the end of the newest epoch that both logs may share: the receiver truncates to it. `snapshot_id`
    names the snapshot that the receiver must fetch, because the log no longer has the entries that it needs. Otherwise
    the response has entries from `offset` on. In an Output `batches` is empty: the sender of the response adds any
    number of whole batches of its log from `offset` on.

    A response with an error has none of these.
    """

    epoch: int
    correlation: int
    leader_id: int = NO_LEADER
    high_watermark: int = 0
    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None
    offset: int = -1
    batches: tuple[Batch, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    leader_endpoints: tuple[Endpoint, ...] = ()
    log_start_offset: int = 0


class FetchSnapshot(NamedTuple):
    """Asks for the bytes of a snapshot from `position` on."""

    epoch: int
    correlation: int
    snapshot_id: OffsetAndEpoch
    position: int
    directory_id: UUID = uuids.ZERO  # of the sender
    max_bytes: int = SNAPSHOT_BYTES


class FetchSnapshotResponse(NamedTuple):
    """`content` is a part of the snapshot, which has `size` bytes in total. In an Output it is empty and `size` is -1:
    the sender of the response fills them in, or answers SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE.
    """

    epoch: int
    correlation: int
    leader_id: int = NO_LEADER
    snapshot_id: OffsetAndEpoch = NO_SNAPSHOT
    position: int = 0
    max_bytes: int = 0
    size: int = -1
    content: bytes = b""
    error: ErrorCode = ErrorCode.NONE
    leader_endpoints: tuple[Endpoint, ...] = ()


class UpdateVoter(NamedTuple):
    """A voter reports its own endpoints and kraft versions to the leader of the epoch (KIP-853)."""

    epoch: int
    voter: Voter


class UpdateVoterResponse(NamedTuple):
    epoch: int
    leader_id: int
    error: ErrorCode = ErrorCode.NONE
    leader_endpoints: tuple[Endpoint, ...] = ()


class JoinVoters(NamedTuple):
    """An observer asks the leader to make it a voter: AddRaftVoter, which is answered when the record is written."""

    epoch: int  # not sent
    voter: Voter


class DropVoter(NamedTuple):
    """A node asks the leader to remove the voter that it was with another disk: RemoveRaftVoter."""

    epoch: int  # not sent
    key: ReplicaKey


class ChangeResponse(NamedTuple):
    """The result of a JoinVoters or DropVoter. It does not name the leader."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""


Request = VoteRequest | BeginQuorumEpoch | EndQuorumEpoch | Fetch | FetchSnapshot | UpdateVoter | JoinVoters | DropVoter
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | UpdateVoterResponse
    | ChangeResponse
)
Message = Request | Response
