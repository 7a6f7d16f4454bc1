"""The events of the quorum's state machine, and its outputs: values, which can be printed and compared."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import ElectionState
from broker_cy.quorum.entries import Batch, OffsetAndEpoch
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from broker_cy.wire.codec import Message


class Role(Enum):
    """An observer is unattached or a follower, and not among the voters."""

    UNATTACHED = "unattached"  # knows an epoch but no live leader; may have voted
    RESIGNED = "resigned"  # was the leader of this epoch and must not lead it again
    PROSPECTIVE = "prospective"  # asks whether it would be elected (KIP-996)
    CANDIDATE = "candidate"  # has voted for itself in this epoch
    LEADER = "leader"
    FOLLOWER = "follower"  # fetches from the leader of this epoch
    CLOSED = "closed"  # has left the quorum's protocol


BOOTSTRAP: Final = -2


def bootstrap_id(index: int) -> int:
    """The id that the bootstrap server at `index` (from 0 on) of controller.quorum.bootstrap.servers has as the
    receiver of a Send and as the source of its response; which node it is shows the response.
    """
    return BOOTSTRAP - index


# --- events
# Tuples, because each start imports this file: a dataclass takes several times as long to make.


class Signal:
    """An event without further data: an empty tuple would equal each other one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Start(Signal):
    """The first event. The log and quorum-state were read, and the log is on disk as it was read."""


class Tick(Signal):
    """Time has passed: at the latest when the `wake_ms` of the last output is reached."""


class Received(NamedTuple):
    """A request of another node, or the response to a Send. `source` is the id in a request, or whom the request that
    a response answers was sent to. `correlation` is that of the Send that a response answers; a request has one that
    its receiver chooses, and that is in the Answer. `listener` is the one that the request arrived on or was sent to.
    `batches` are those in the records of a Fetch response: whole ones that follow each other.
    """

    source: int
    message: Message
    correlation: int = 0
    listener: str = ""
    batches: tuple[Batch, ...] = ()


class LeaderGone(NamedTuple):
    """The process that leads `epoch` has ended, as seen from this node. It need not be true: the other voters decide,
    by a pre-vote.
    """

    leader_id: int
    epoch: int


class Proposal(NamedTuple):
    """One batch to append, of `entries` entries."""

    entries: int
    content: bytes


class Append(NamedTuple):
    """Append to the log as the leader of `epoch`, from `offset` on, which is its end. Raises NotLeaderError."""

    epoch: int
    offset: int
    proposals: tuple[Proposal, ...]


class NotWritten(NamedTuple):
    """The batches of an output could not be written, and none of them is in the log, which ends at `end_offset`."""

    end_offset: int


class Synced(NamedTuple):
    """Everything below `end_offset` is on disk. Nothing was truncated below it since the sync began."""

    end_offset: int


class Snapshotted(NamedTuple):
    """This node has written `snapshot_id`, which is completely on disk: it ends at the end of a batch, below the high
    watermark. The log begins behind the snapshot `start`, an older or the same one; (0, 0) if it has all entries.
    Raises ValueError if a snapshot is not of this log, or not committed.
    """

    snapshot_id: OffsetAndEpoch
    start: OffsetAndEpoch


class ChunkWritten(NamedTuple):
    """The SnapshotChunk of an output is in the incomplete file, which has `position` bytes; `position` -1: it could not
    be written, and the file is gone.
    """

    snapshot_id: OffsetAndEpoch
    position: int


class SnapshotDone(NamedTuple):
    """The last chunk is written, and the snapshot is complete and on disk under its own name. `kraft_version` and
    `voters` are those in its header; `voters` is None if the header has none, as with kraft.version 0.
    """

    snapshot_id: OffsetAndEpoch
    kraft_version: int
    voters: VoterSet | None


class AddVoter(NamedTuple):
    """AddRaftVoter. `voter` has the range of kraft.version from its response to ApiVersions; the receiver of the
    request has sent it that ApiVersions request.
    """

    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


class RemoveVoter(NamedTuple):
    """RemoveRaftVoter."""

    key: ReplicaKey


class UpgradeKRaftVersion(NamedTuple):
    """UpdateFeatures of kraft.version: from static voters (0) to voters in the log (1). With `validate_only` the reply
    only shows whether the change would be made.
    """

    level: int
    validate_only: bool = False


class ChangeVoters(NamedTuple):
    """Exactly one Reply with `request_id` follows, in this output or a later one."""

    request_id: int
    change: AddVoter | RemoveVoter | UpgradeKRaftVersion


class Stop(Signal):
    """Leave the quorum: the node stops, or no longer knows the content of its disk."""


Event = (
    Start
    | Tick
    | Received
    | LeaderGone
    | Append
    | NotWritten
    | Synced
    | Snapshotted
    | ChunkWritten
    | SnapshotDone
    | ChangeVoters
    | Stop
)


# --- the output


class Send(NamedTuple):
    """A request. `to` is a node id, whose addresses Quorum.endpoints returns, or a bootstrap_id. The machine recognizes
    the response by `correlation`.
    """

    to: int
    message: Message
    correlation: int = 0


class Answer(NamedTuple):
    """The response to the request of `to` that was Received with `correlation`. Each request has exactly one, in the
    same Output; only that to a Fetch may come later. The records of the log from `records_from` on are added when it
    leaves: any number of whole batches; -1: there are none.
    """

    to: int
    message: Message
    correlation: int = 0
    records_from: int = -1


class Reply(NamedTuple):
    """The result of a ChangeVoters."""

    request_id: int
    error: ErrorCode
    message: str


class SnapshotChunk(NamedTuple):
    """Bytes of a snapshot to write at `position` of an incomplete file; 0 begins a new one. ChunkWritten must follow,
    or SnapshotDone if it is the last one.
    """

    snapshot_id: OffsetAndEpoch
    position: int
    content: bytes
    is_last: bool


# The order of the parts of an Output.
DURABILITY_ORDER: Final = ("persist", "truncate_to", "replace_log", "append", "chunk", "send")


class Output(NamedTuple):
    """The output of one event. Its parts are carried out in DURABILITY_ORDER:

    1. `persist` (None: unchanged) is on disk before 4 and 6 if it `binds`. Otherwise a node that crashes could vote
       twice in one epoch, or lead an epoch twice. It may be written while the machine takes further events. If that
       fails, no entry is appended, no message is sent, and the node must stop. A state that does not bind
       (an epoch or a leader that this node has learned of) may be written later: no second leader is elected in an
       epoch without a voter that has voted for the first, and the entries of an epoch have its number.
    2. The log is truncated to `truncate_to` (-1: it is not).
    3. The log is emptied, and begins behind the snapshot `replace_log` (None: it is not), which is on disk. That is on
       disk before 4 and 6. A start that finds a snapshot that is newer than the end of the log does the same.
    4. `append` is written to the log, all or nothing (else NotWritten follows). It need not be on disk: `Synced`
       reports that later, and only its output counts the entries, or fetches on behalf of them.
    5. `chunk` is written to the incomplete snapshot; ChunkWritten or SnapshotDone reports that later.
    6. `send` and `replies` leave.

    The rest describes the machine after the event. `leader_endpoints` are those of `leader_id`, as far as they are
    known; `wake_ms` is when the machine needs a Tick at the latest, -1 if never.
    """

    role: Role
    epoch: int
    leader_id: int
    high_watermark: int
    persist: ElectionState | None = None
    truncate_to: int = -1
    append: tuple[Batch, ...] = ()
    send: tuple[Send | Answer, ...] = ()
    wake_ms: int = -1
    replace_log: OffsetAndEpoch | None = None
    chunk: SnapshotChunk | None = None
    replies: tuple[Reply, ...] = ()
    leader_endpoints: tuple[Endpoint, ...] = ()
    binds: bool = False


class NotLeaderError(Exception):
    """Only the leader appends, in its own epoch and at the end of its log."""


class Timeouts(NamedTuple):
    """In milliseconds; the defaults are Kafka's: controller.quorum.*.timeout.ms and controller.quorum.retry.backoff.ms.

    An election starts after `election_ms` to twice as much without a leader, or if a follower fetched nothing for
    `fetch_ms`. A request without a response is repeated after `request_ms`. A follower lets the leader hold a fetch
    without news for `fetch_wait_ms`. A follower that could not write the fetched entries fetches again after
    `backoff_ms`. Once the process of the leader is known to have ended, the first election timeouts are `gone_ms`, and
    twice as long each time.
    """

    election_ms: int = 1000
    fetch_ms: int = 2000
    request_ms: int = 2000
    fetch_wait_ms: int = 500
    backoff_ms: int = 20
    gone_ms: int = 50


# --- for DescribeQuorum


class ReplicaDescription(NamedTuple):
    """Times are those of the machine's clock, -1 if never; `end_offset` is -1 if it is not known."""

    key: ReplicaKey
    end_offset: int
    fetched_ms: int
    caught_up_ms: int


class Description(NamedTuple):
    """The quorum as its leader sees it. `high_watermark` is -1 until an entry of the epoch is committed."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]
    nodes: tuple[Voter, ...]
