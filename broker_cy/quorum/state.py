"""The state of one voter, and its changes of role. `elections` and `replication` decide on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_cy.core import uuid as uuids
from broker_cy.quorum.election_state import NO_LEADER, NOT_VOTED, ElectionState
from broker_cy.quorum.epochs import LogEpochs
from broker_cy.quorum.messages import Batch, BeginQuorumEpoch, Control, EndQuorumEpoch, Fetch, Leadership, Message
from broker_cy.quorum.step import Role, Send, Timeouts
from broker_cy.quorum.voters import ReplicaKey

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
Draw = Callable[[int, int], int]
"""Draws an integer from the first to the second one, both included."""


@dataclass(slots=True)
class Progress:
    """What the leader knows of another voter in this epoch. `end_offset` is on the voter's disk, -1 if unknown;
    `parked` is a fetch that waits for something new, until `parked_until_ms`.
    """

    fetched_ms: int
    end_offset: int = -1
    parked: Fetch | None = None
    parked_until_ms: int = NEVER


class QuorumState:
    """Invariants: `epoch` never decreases; at most one vote is given in an epoch, and none once its leader is known;
    the node leads at most once per epoch; `0 <= high_watermark <= log.end_offset`, and it never decreases; `synced_end
    <= log.end_offset`.
    """

    def __init__(
        self,
        node_id: int,
        voters: Sequence[int],
        stored: ElectionState | None,
        log: LogEpochs,
        draw: Draw,
        timeouts: Timeouts,
        *,
        static_voters: bool,
        directory_id: UUID,
    ) -> None:
        """See Quorum."""
        assert node_id in voters
        self.node_id = node_id
        self.voters = tuple(sorted(voters))
        self.others = tuple(voter for voter in self.voters if voter != node_id)
        self.majority = len(self.voters) // 2 + 1
        self.log = log
        self.timeouts = timeouts
        self.role: Role | None = None
        self.epoch = max(log.end.epoch, stored.epoch if stored else 0)
        self.leader_id = NO_LEADER
        self.voted_id = NOT_VOTED
        self.synced_end = log.end_offset
        self.high_watermark = 0
        self.epoch_start_offset = -1  # of the leader: where its own epoch begins in the log
        self.votes: dict[int, bool] = {}  # of a prospective or a candidate, in the current round
        self.progress: dict[int, Progress] = {}  # of the leader: the other voters
        self.deadline_ms = NEVER  # of an election, a fetch, or the next BeginQuorumEpoch
        self.retry_ms = NEVER  # of a follower: when the next fetch is sent although no response has arrived
        # Of the newest fetch. Drawn, so that no response to a fetch of an earlier life of this node matches.
        self.correlation = draw(0, (1 << 30) - 1)
        self.is_fetching = False  # a fetch waits for its response
        self.has_fetched = False  # since this node follows its leader
        self.leader_high_watermark = 0  # as the leader of a follower has sent it
        self.now_ms = 0
        self.truncate_to = -1
        self.to_append: list[Batch] = []
        self.to_send: list[Send] = []
        self._draw = draw
        self._static_voters = static_voters
        self._directory_id = uuids.ZERO if static_voters else directory_id
        self._recorded = stored
        self._restore(stored)

    def _restore(self, stored: ElectionState | None) -> None:
        """Take the role that quorum-state leaves open. Timers start with the first event."""
        if stored is None or stored.epoch < self.epoch:
            self.become(Role.UNATTACHED)
        elif stored.leader_id == self.node_id:
            self.voted_id = self.node_id
            self.become(Role.RESIGNED)
        elif stored.leader_id in self.voters:
            self.leader_id = stored.leader_id
            self.become(Role.FOLLOWER)
        else:
            self.voted_id = stored.voted_id
            self.become(Role.UNATTACHED)

    # --- roles

    def become(self, role: Role) -> None:
        if self.role not in PREDECESSORS[role]:
            raise AssertionError(f"{self.role} may not be followed by {role}")
        self.role = role
        self.votes = {}
        self.progress = {}
        self.retry_ms = NEVER
        self.is_fetching = False
        self.has_fetched = False
        self.leader_high_watermark = 0

    def enter_epoch(self, epoch: int) -> None:
        """Begin a newer epoch, whose leader is unknown and in which this node has not voted."""
        assert epoch > self.epoch
        self.epoch = epoch
        self.leader_id = NO_LEADER
        self.voted_id = NOT_VOTED
        self.epoch_start_offset = -1

    def become_unattached(self) -> None:
        """Wait for a leader of this epoch, and stand for election if none appears."""
        self.become(Role.UNATTACHED)
        self.leader_id = NO_LEADER
        self.wait_for_election()

    def become_follower(self, leader_id: int) -> None:
        """Follow the leader of this epoch. A leader ends the vote."""
        self.become(Role.FOLLOWER)
        self.leader_id = leader_id
        self.voted_id = NOT_VOTED
        self.deadline_ms = self.now_ms + self.timeouts.fetch_ms

    def become_leader(self) -> None:
        """Lead this epoch, which begins with a Leadership entry."""
        granting = tuple(voter for voter, granted in sorted(self.votes.items()) if granted)
        self.become(Role.LEADER)
        self.leader_id = self.node_id
        self.voted_id = NOT_VOTED
        self.progress = {voter: Progress(self.now_ms) for voter in self.others}
        self.deadline_ms = self.now_ms + self.timeouts.fetch_ms // 2 if self.others else NEVER
        self.epoch_start_offset = self.log.end_offset
        keys = tuple(map(self._key, self.voters))
        self.append(1, None, (Leadership(self.node_id, keys, tuple(map(self._key, granting))),))
        for voter in self.others:
            self.send(voter, BeginQuorumEpoch(self.epoch))

    def _key(self, voter: int) -> ReplicaKey:
        return ReplicaKey(voter, self._directory_id if voter == self.node_id else uuids.ZERO)

    def resign(self) -> None:
        """Stop leading, and let the voter with the longest log stand for election."""
        successors = sorted(self.others, key=lambda voter: -self.progress[voter].end_offset)
        for voter in successors:
            self.send(voter, EndQuorumEpoch(self.epoch, tuple(map(ReplicaKey, successors))))
        self.become(Role.RESIGNED)
        self.leader_id = NO_LEADER
        self.voted_id = self.node_id  # in this epoch, also when it stands for the next one
        self.wait_for_election()

    def wait_for_election(self) -> None:
        """Stand for election after the election timeout. It is drawn, so that voters do not all stand at once."""
        election_ms = self.timeouts.election_ms
        self.deadline_ms = self.now_ms + election_ms + self._draw(0, election_ms)

    # --- what leaves

    def send(self, to: int, message: Message) -> None:
        self.to_send.append(Send(to, message))

    def append(self, count: int, content: bytes | None, control: tuple[Control, ...] = ()) -> None:
        """Append a batch as the leader."""
        offset = self.log.end_offset
        self.log.append(self.epoch, offset, offset + count)
        self.to_append.append(Batch(offset, offset + count, self.epoch, content, control))

    def refetch_later(self) -> None:
        """Fetch again after the backoff; a response that arrives before is ignored."""
        self.correlation += 1
        self.is_fetching = True
        self.retry_ms = self.now_ms + self.timeouts.backoff_ms

    def take_record(self) -> ElectionState | None:
        """What quorum-state must contain, None if it contains that."""
        if self.role is Role.CLOSED:
            return None
        # A leader that resigned stays recorded as the leader: after a restart it must not lead this epoch again.
        leader_id = self.node_id if self.role is Role.RESIGNED else self.leader_id
        state = ElectionState(
            self.epoch,
            leader_id,
            self.voted_id if leader_id == NO_LEADER else NOT_VOTED,
            voters=self.voters if self._static_voters else None,
        )
        if state == self._recorded:
            return None
        self._recorded = state
        return state
