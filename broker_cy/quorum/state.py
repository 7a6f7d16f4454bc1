"""The state of one node of the quorum, and its changes of role. `elections`, `replication`, `snapshots` and `changes`
decide on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from broker_cy.core import uuid as uuids
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import NO_LEADER, NOT_VOTED, ElectionState
from broker_cy.quorum.entries import Batch, Control, KRaftVersion, Leadership, OffsetAndEpoch
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.history import BEFORE_THE_LOG, VoterHistory
from broker_cy.quorum.messages import address_on, begin_request, end_request
from broker_cy.quorum.step import Answer, Received, Reply, Role, Send, SnapshotChunk, Timeouts
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from broker_cy.wire.codec import Message

# The roles that may directly precede each role; None is the start of the process.
PREDECESSORS: Final[dict[Role, frozenset[Role | None]]] = {
    Role.UNATTACHED: frozenset(set(Role) - {Role.CLOSED} | {None}),
    Role.RESIGNED: frozenset({None, Role.LEADER}),
    Role.PROSPECTIVE: frozenset(set(Role) - {Role.LEADER, Role.CLOSED}),
    Role.CANDIDATE: frozenset({Role.PROSPECTIVE}),
    Role.LEADER: frozenset({Role.CANDIDATE}),
    Role.FOLLOWER: frozenset(set(Role) - {Role.CLOSED} | {None}),
    Role.CLOSED: frozenset(set(Role) - {Role.CLOSED}),
}
NEVER: Final = -1
# The leader tracks as many other replicas as the largest cluster has brokers. Beyond that, it forgets the replica that
# has fetched least recently; DescribeQuorum only lacks that replica until it fetches again.
OBSERVERS_MAX: Final = 10_000
Draw = Callable[[int, int], int]
"""Draws an integer from the first to the second one, both included."""


@dataclass(slots=True)
class Progress:
    """The leader's state of another replica in this epoch. `end_offset` is on the replica's disk, -1 if unknown.
    `counted_ms` is the time of its last fetch, at first the time when this node became the leader: the leader's timeout
    starts there.
    """

    counted_ms: int
    directory_id: UUID = uuids.ZERO
    end_offset: int = -1
    fetched_ms: int = NEVER
    caught_up_ms: int = NEVER
    leader_end_offset: int = -1  # of the leader's log when the replica fetched at last
    reported: Voter | None = None  # its own UpdateRaftVoter, while the voters are static


@dataclass(slots=True)
class Parked:
    """A fetch behind `end_offset` that waits for something new, by a replica that knows `high_watermark`."""

    event: Received
    epoch: int
    end_offset: int
    high_watermark: int
    until_ms: int


@dataclass(slots=True)
class PendingChange:
    """A change of the voters that is in the log up to `end_offset`, and waits for its commit."""

    request_id: int
    end_offset: int
    until_ms: int


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot that a follower fetches: `position` bytes are written."""

    snapshot_id: OffsetAndEpoch
    position: int = 0
    is_writing: bool = False  # a chunk of this fetch, and not of one that was given up


class QuorumState:
    """Invariants: `epoch` never decreases; at most one vote is given in an epoch, and none once its leader is known;
    the node leads at most once per epoch; `log.start.offset <= high_watermark <= log.end_offset` once the node has
    heard from a leader, and it never decreases; `synced_end <= log.end_offset`; a snapshot exists at the log's start.
    """

    def __init__(
        self,
        me: Voter,
        history: VoterHistory,
        stored: ElectionState | None,
        log: LogEpochs,
        draw: Draw,
        timeouts: Timeouts,
        snapshot_id: OffsetAndEpoch | None,
        bootstrap_servers: int,
        auto_join: bool,
    ) -> None:
        """See Quorum."""
        self.me = me
        self.key = me.key
        self.node_id = me.key.id
        self.history = history
        self.voters: VoterSet
        self.kraft_version: int
        self.others: tuple[int, ...]
        self.is_voter: bool
        self.log = log
        # The newest one on disk. It is offered to followers that need entries that the log no longer has.
        self.snapshot_id = snapshot_id
        self.timeouts = timeouts
        self.bootstrap_servers = bootstrap_servers
        self.auto_join = auto_join and bool(me.endpoints)
        self.role: Role | None = None
        self.epoch = max(log.end.epoch, stored.epoch if stored else 0)
        self.leader_id = NO_LEADER
        self.leader_endpoints: tuple[Endpoint, ...] = ()
        self.voted: ReplicaKey | None = None
        self.has_ended = False  # the leader of this epoch has resigned, and does not lead it again
        self.synced_end = log.end_offset
        self.high_watermark = snapshot_id.offset if snapshot_id is not None else 0
        self.epoch_start_offset = -1  # of the leader: where its own epoch begins in the log
        self.votes: dict[int, bool] = {}  # of a prospective or a candidate, in the current round
        self.progress: dict[int, Progress] = {}  # of the leader: the other voters
        self.observers: dict[ReplicaKey, Progress] = {}  # of the leader; by the time of their last fetch
        self.parked: dict[ReplicaKey, Parked] = {}  # of the leader: at most one of each replica
        self.change: PendingChange | None = None  # of the leader
        self.hurry = 0  # the number of the next election timeout since the leader has gone, 0: it is none of these
        self.gone_epoch = -1  # the newest one whose leader is known to have gone
        self.gone_correlation = -1  # of the newest fetch then: its response may be from before
        self.deadline_ms = NEVER  # of an election, a fetch, a search for the leader, or the next BeginQuorumEpoch
        self.retry_ms = NEVER  # of a follower: when the next fetch is sent although no response has arrived
        # When the next request to the leader is due to change this voter, or to make this observer a voter.
        self.report_ms = NEVER
        # The correlation of the newest fetch. It starts at random, so that no response to a fetch before a restart
        # matches.
        self.correlation = draw(0, (1 << 30) - 1)
        self.is_fetching = False  # a fetch waits for its response
        self.has_fetched = False  # since this node follows its leader
        self.leader_high_watermark = 0  # as the leader of a follower has sent it
        self.snapshot_fetch: SnapshotFetch | None = None
        # A chunk is on its way to the disk, perhaps of an abandoned fetch: all fetches share one file.
        self.is_writing_chunk = False
        # The last bootstrap server, or voter counted after them, that got a request.
        self.sought = draw(0, max(bootstrap_servers - 1, 0))
        self.now_ms = 0
        self.truncate_to = -1
        self.replace_log: OffsetAndEpoch | None = None
        self.chunk: SnapshotChunk | None = None
        self.to_append: list[Batch] = []
        self.to_send: list[Send | Answer] = []
        self.replies: list[Reply] = []
        self._draw = draw
        self._recorded = stored
        self._recorded_facts: tuple[object, ...] | None = None
        # Whether the newest record must be on disk before anything leaves (step.Output); the epoch of the last vote.
        self.record_binds = False
        self._voted_epoch = -1
        self.take_voters()
        self._restore(stored)

    def _restore(self, stored: ElectionState | None) -> None:
        """Take the role that quorum-state leaves open. Timers start with the first event."""
        if stored is None or stored.epoch < self.epoch:
            self.become(Role.UNATTACHED)
        elif stored.leader_id == self.node_id:
            self.voted = self.key
            self.become(Role.RESIGNED)
        elif stored.leader_id != NO_LEADER:
            self.leader_id = stored.leader_id
            # The address of another leader is not known: it is searched for.
            self.become(Role.FOLLOWER if stored.leader_id in self.voters.ids else Role.UNATTACHED)
        else:
            if stored.voted_id != NOT_VOTED:
                self.voted = ReplicaKey(stored.voted_id, stored.voted_directory_id)
            self.become(Role.UNATTACHED)

    # --- voters

    def take_voters(self) -> None:
        """Let the newest voters of the log count."""
        _, self.kraft_version, self.voters = self.history.newest
        self.is_voter = self.key in self.voters
        self.others = tuple(voter for voter in self.voters.ids if voter != self.node_id)
        if self.role is Role.LEADER:
            self._track()

    @property
    def is_only_voter(self) -> bool:
        """Whether the log names this replica as the only voter. Static voters are only in the file of each node."""
        return self.kraft_version > 0 and self.voters.keys == (self.key,)

    @property
    def may_stand(self) -> bool:
        """Whether this node is a voter, or was one before a change that may not be committed: without it there may be
        no leader, because its log is longer than those of the voters that are left (Raft dissertation, section 4.2.2).
        """
        if self.is_voter:
            return True
        before = self.history.before_newest
        return before is not None and self.history.newest.offset >= self.high_watermark and self.key in before.voters

    def _track(self) -> None:
        """Let `progress` have the voters, and `observers` the others."""
        known = {ReplicaKey(voter, progress.directory_id): progress for voter, progress in self.progress.items()}
        known.update(self.observers)
        self.progress = {}
        for voter in self.voters.voters:
            if voter.key.id != self.node_id:
                found = known.pop(voter.key, None)
                self.progress[voter.key.id] = found or Progress(self.now_ms, voter.key.directory_id)
        self.observers = {key: progress for key, progress in known.items() if progress.fetched_ms != NEVER}
        if self.progress and self.deadline_ms == NEVER:
            self.deadline_ms = self.now_ms

    # --- roles

    def become(self, role: Role) -> None:
        if self.role not in PREDECESSORS[role]:
            raise AssertionError(f"{self.role} may not be followed by {role}")
        if self.role is Role.LEADER:
            self._leave()
        self.role = role
        self.votes = {}
        self.retry_ms = self.report_ms = NEVER
        self.is_fetching = False
        self.has_fetched = False
        self.leader_high_watermark = 0
        self.snapshot_fetch = None

    def _leave(self) -> None:
        """Stop leading. The waiting fetches are answered by the state of the epoch (`answer_parked`)."""
        self.progress = {}
        self.observers = {}
        self.finish_change(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {self.node_id} leads no longer")

    def enter_epoch(self, epoch: int) -> None:
        """Begin a newer epoch, without a known leader and without a vote of this node."""
        assert epoch > self.epoch
        self.epoch = epoch
        self.leader_id = NO_LEADER
        self.leader_endpoints = ()
        self.voted = None
        self.has_ended = False
        self.epoch_start_offset = -1

    def become_unattached(self) -> None:
        """Wait for a leader of this epoch, and stand for election if none appears; an observer searches for it."""
        self.become(Role.UNATTACHED)
        self.leader_id = NO_LEADER
        if self.may_stand:
            self.wait_for_election()
        else:
            self.deadline_ms = self.now_ms

    def become_follower(self, leader_id: int, endpoints: tuple[Endpoint, ...] = ()) -> None:
        """Follow the leader of this epoch. A leader ends the vote."""
        self.become(Role.FOLLOWER)
        self.hurry = 0
        self.leader_id = leader_id
        self.leader_endpoints = endpoints or self.voters.endpoints(leader_id)
        self.voted = None
        self.deadline_ms = self.now_ms + self.timeouts.fetch_ms

    def become_leader(self) -> None:
        """Lead this epoch, which begins with a Leadership entry, and with the voters if the log does not have them."""
        granting = tuple(key for key in self.voters.keys if self.votes.get(key.id))
        self.become(Role.LEADER)
        self.hurry = 0
        self.leader_id = self.node_id
        self.leader_endpoints = self.me.endpoints
        self.voted = None
        self.deadline_ms = self.now_ms + self.timeouts.fetch_ms // 2 if self.others else NEVER
        self.epoch_start_offset = self.log.end_offset
        self._track()
        control: tuple[Control, ...] = (Leadership(self.node_id, self.voters.keys, granting),)
        if self.kraft_version and self.history.newest.offset == BEFORE_THE_LOG and self.snapshot_id is None:
            # The log was formatted with them (`storage format --standalone`, `--initial-controllers`).
            control += (KRaftVersion(self.kraft_version), self.voters)
        self.append(len(control), None, control)
        for voter in self.others:
            self.send_begin(voter)

    def send_begin(self, voter: int) -> None:
        found = self.voters.get(voter)
        key = found.key if found else None
        self.send(voter, begin_request(self.node_id, self.epoch, key, self.me.endpoints))

    def resign(self) -> None:
        """Stop leading, and let the voter with the longest log stand for election."""
        others = sorted(
            (key for key in self.voters.keys if key.id != self.node_id),
            key=lambda key: -self.progress[key.id].end_offset,
        )
        for key in others:
            self.send(key.id, end_request(self.node_id, self.epoch, tuple(others), self.me.endpoints))
        self.become(Role.RESIGNED)
        self.leader_id = NO_LEADER
        self.leader_endpoints = ()
        self.voted = self.key  # in this epoch, also when it stands for the next one
        self.wait_for_election()

    def wait_for_election(self) -> None:
        """Stand for election after the election timeout, or search for the leader again. The timeout is random, so that
        voters do not all stand at the same time.
        """
        election_ms = self.timeouts.election_ms
        if self.hurry:
            # Voters that stand too often hinder each other; questions of observers do not.
            gone_ms = self.timeouts.gone_ms
            grown_ms, hurried_ms = gone_ms << (self.hurry - 1), gone_ms * self.hurry
            is_over = (grown_ms if self.may_stand else hurried_ms) >= election_ms
            election_ms = min(election_ms, grown_ms if self.may_stand else gone_ms)
            self.hurry = 0 if is_over else self.hurry + 1
        self.deadline_ms = self.now_ms + election_ms + self._draw(0, election_ms)

    # --- messages

    def send(self, to: int, request: Message, correlation: int = 0) -> None:
        self.to_send.append(Send(to, request, correlation))

    def answer(self, event: Received, response: Message, records_from: int = -1) -> None:
        self.to_send.append(Answer(event.source, response, event.correlation, records_from))

    def leader_address(self, event: Received) -> Endpoint | None:
        """The address of the leader on the listener that a request arrived on; None if it is not known."""
        return address_on(self.leader_endpoints, event.listener)

    def append(self, count: int, content: bytes | None, control: tuple[Control, ...] = ()) -> int:
        """Append a batch as the leader; return its end offset."""
        offset = self.log.end_offset
        self.log.append(self.epoch, offset, offset + count)
        self.to_append.append(Batch(offset, offset + count, self.epoch, content, control))
        if control and self.history.note(offset, control):
            self.take_voters()
        return offset + count

    def truncate(self, end_offset: int) -> None:
        """Drop the entries from `end_offset` on, and the voters in them."""
        self.log.truncate(end_offset)
        self.synced_end = min(self.synced_end, end_offset)
        if self.history.truncate(end_offset):
            self.take_voters()

    def finish_change(self, error: ErrorCode, message: str = "") -> None:
        """Answer the change of the voters that waits, if any."""
        if self.change is not None:
            self.replies.append(Reply(self.change.request_id, error, message))
            self.change = None

    def fetch_arrived(self, correlation: int) -> None:
        """The leader has answered the newest fetch, or the newest request for a chunk of a snapshot."""
        self.is_fetching = False
        self.retry_ms = NEVER
        if correlation > self.gone_correlation:
            self.has_fetched = True
            self.deadline_ms = self.now_ms + self.timeouts.fetch_ms

    def refetch_later(self) -> None:
        """Fetch again after the backoff; a response that arrives before is ignored."""
        self.correlation += 1
        self.is_fetching = True
        self.retry_ms = self.now_ms + self.timeouts.backoff_ms

    def take_record(self) -> ElectionState | None:
        """The content for quorum-state, None if the file already has it."""
        if self.role is Role.CLOSED:
            return None
        # A leader that resigned stays recorded as the leader: after a restart it must not lead this epoch again.
        leader_id = self.node_id if self.role is Role.RESIGNED else self.leader_id
        voted = self.voted if leader_id == NO_LEADER else None
        # An upgrade of kraft.version alone writes nothing: until its record is in the log, only the file names the
        # voter of a single node.
        facts = (self.epoch, leader_id, voted)
        if facts == self._recorded_facts:
            return None
        self._recorded_facts = facts
        is_static = self.kraft_version == 0
        state = ElectionState(
            self.epoch,
            leader_id,
            voted.id if voted is not None else NOT_VOTED,
            # Version 0 of the file has no place for it.
            uuids.ZERO if voted is None or is_static else voted.directory_id,
            self.voters.ids if is_static else None,
        )
        if state == self._recorded:
            return None
        self._recorded = state
        if voted is not None:
            self._voted_epoch = self.epoch
        # An only voter leads immediately, without a vote on disk.
        self.record_binds = voted is not None or (leader_id == self.node_id and self._voted_epoch != self.epoch)
        return state
