"""The quorum as a state machine: it takes events and returns what must be persisted and appended. It holds no file,
socket or clock.

A single node is a quorum of one: it is elected by its own vote, and an entry is committed once this node has synced it.
The roles of a quorum with several voters (Prospective, Follower, Observer) and the messages between voters are not
implemented yet; the implemented part follows their rules: a vote is durable before anything depends on it, each
leadership has an epoch that starts with a LeaderChange record, and the high watermark advances only with entries of the
leader's own epoch (KIP-595).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from broker_cy.quorum.election_state import NO_LEADER, ElectionState, QuorumError


class Role(Enum):
    UNATTACHED = "unattached"  # knows an epoch but no leader, and has not voted
    RESIGNED = "resigned"  # was the leader of this epoch and must not lead it again
    CANDIDATE = "candidate"  # has voted for itself in this epoch
    LEADER = "leader"


# The roles that may directly precede each role; None is the start of the process.
PREDECESSORS: Final[dict[Role, frozenset[Role | None]]] = {
    Role.UNATTACHED: frozenset({None}),
    Role.RESIGNED: frozenset({None, Role.LEADER}),
    Role.CANDIDATE: frozenset({Role.UNATTACHED, Role.RESIGNED}),
    Role.LEADER: frozenset({Role.CANDIDATE}),
}


@dataclass(frozen=True, slots=True)
class Elected:
    """What must be done after winning an election: first sync `persist` to disk, then append the LeaderChange record.

    Nothing may be appended or answered in the new epoch before `persist` is on disk: otherwise this node could lead the
    same epoch twice after a crash.
    """

    persist: ElectionState
    epoch: int
    leader_id: int
    voters: tuple[int, ...]


class Quorum:
    """Invariants: `epoch` never decreases; `0 <= high_watermark <= synced_end <= end of the log`; the node leads at
    most once per epoch.
    """

    __slots__ = (
        "epoch",
        "epoch_start_offset",
        "high_watermark",
        "leader_id",
        "node_id",
        "role",
        "synced_end",
        "voters",
    )

    def __init__(
        self, node_id: int, stored: ElectionState | None, last_log_epoch: int, log_voters: tuple[int, ...] | None = None
    ) -> None:
        """`stored` is the content of quorum-state, None for a node that never voted; `last_log_epoch` is the epoch of
        the newest entry of the log or of the snapshot (0 if both are empty); `log_voters` is the voter set found in the
        log, if any.

        Raises QuorumError if the node is not the only voter.
        """
        self.node_id = node_id
        voters = log_voters if log_voters is not None else (stored.voters if stored else None)
        if voters and voters != (node_id,):
            raise QuorumError(
                f"the metadata quorum has the voters {sorted(voters)}, and this node is {node_id}; "
                "broker-cy supports only a quorum whose sole voter is this node"
            )
        self.voters: tuple[int, ...] = (node_id,)
        self.role: Role | None = None
        self.leader_id = NO_LEADER
        self.epoch = max(last_log_epoch, stored.epoch if stored else 0)
        self.epoch_start_offset = -1
        self.synced_end = 0
        self.high_watermark = 0
        was_leader = stored is not None and stored.leader_id == node_id and stored.epoch == self.epoch
        self._become(Role.RESIGNED if was_leader else Role.UNATTACHED)

    def _become(self, role: Role) -> None:
        if self.role not in PREDECESSORS[role]:
            raise AssertionError(f"{self.role} may not be followed by {role}")
        self.role = role

    def elect(self, *, static_voters: bool) -> Elected:
        """Stand for election in the next epoch and win it, because the node's own vote is the majority.

        The vote and the leadership are one durable write, because no message is sent between them. `static_voters` is
        True for kraft.version 0, where the file contains the voters.
        """
        self._become(Role.CANDIDATE)
        self.epoch += 1
        self.epoch_start_offset = -1
        self._become(Role.LEADER)
        self.leader_id = self.node_id
        state = ElectionState(self.epoch, self.node_id, voters=self.voters if static_voters else None)
        return Elected(state, self.epoch, self.node_id, self.voters)

    def began_epoch(self, offset: int) -> None:
        """Note that the LeaderChange record of this epoch is at `offset`."""
        assert self.role is Role.LEADER
        assert self.epoch_start_offset < 0
        self.epoch_start_offset = offset

    def synced(self, end_offset: int) -> int:
        """Note that everything below `end_offset` is on disk here. Returns the high watermark (exclusive)."""
        self.synced_end = max(self.synced_end, end_offset)
        # Entries of earlier epochs are committed only together with one of this epoch (Raft, section 5.4.2).
        if self.role is Role.LEADER and 0 <= self.epoch_start_offset < self.synced_end:
            self.high_watermark = self.synced_end
        return self.high_watermark

    def resign(self) -> None:
        """Stop leading: nothing may be appended in this epoch any more."""
        self._become(Role.RESIGNED)
        self.leader_id = NO_LEADER
