"""Defects of the quorum, which its simulation must find. Each is planted by replacing one function or value."""

from __future__ import annotations

from broker_cy.quorum import elections, replication, step
from broker_cy.quorum.election_state import NO_LEADER, ElectionState
from broker_cy.quorum.messages import Fetch, VoteRequest
from broker_cy.quorum.state import NEVER, QuorumState
from broker_cy.quorum.step import Role
from tests.sim.defects import Patch, Planter


def sends_before_it_persists(patch: Patch) -> None:
    """A vote leaves before it is on disk."""
    patch.setattr(step, "DURABILITY_ORDER", ("send", "persist", "truncate_to", "append"))


def votes_twice_in_an_epoch(patch: Patch) -> None:
    """A voter grants its vote to each candidate of an epoch."""
    right = elections._grants

    def grants(state: QuorumState, source: int, request: VoteRequest) -> bool:
        state.voted_id = source
        return right(state, source, request)

    patch.setattr(elections, "_grants", grants)


def forgets_its_vote_at_a_restart(patch: Patch) -> None:
    """A restarted voter votes again in the epoch in which it voted before."""
    right = QuorumState._restore

    def restore(self: QuorumState, stored: ElectionState | None) -> None:
        right(self, None if stored is not None and stored.leader_id == NO_LEADER else stored)

    patch.setattr(QuorumState, "_restore", restore)


def votes_for_a_shorter_log(patch: Patch) -> None:
    """A voter grants its vote to a candidate that lacks entries."""
    patch.setattr(elections, "_is_long_enough", lambda state, last: True)


def compares_logs_by_length_alone(patch: Patch) -> None:
    """A voter compares the end offsets of logs, and not their last epochs."""
    patch.setattr(elections, "_is_long_enough", lambda state, last: last.offset >= state.log.end_offset)


def commits_an_older_epoch_by_count(patch: Patch) -> None:
    """Entries of earlier epochs are committed as soon as a majority has them (Raft, section 5.4.2, figure 8)."""
    right = replication.advance

    def advance(state: QuorumState) -> None:
        start, state.epoch_start_offset = state.epoch_start_offset, -1
        right(state)
        state.epoch_start_offset = start

    patch.setattr(replication, "advance", advance)


def leader_counts_itself_before_the_sync(patch: Patch) -> None:
    """The leader counts entries that it has written and not synced."""
    right = replication.advance

    def advance(state: QuorumState) -> None:
        if state.role is Role.LEADER:
            state.synced_end = state.log.end_offset
        right(state)

    patch.setattr(replication, "advance", advance)


def follower_fetches_before_the_sync(patch: Patch) -> None:
    """A follower acknowledges entries that it has written and not synced."""
    right = replication.fetch

    def fetch(state: QuorumState) -> None:
        synced, state.synced_end = state.synced_end, state.log.end_offset
        right(state)
        state.synced_end = synced

    patch.setattr(replication, "fetch", fetch)


def diverging_fetch_counts(patch: Patch) -> None:
    """A fetch of a log with other entries advances what the leader knows of the follower (KAFKA-13141)."""
    right = replication.fetch_requested

    def fetch_requested(state: QuorumState, source: int, request: Fetch) -> None:
        if source in state.progress and request.epoch == state.epoch:
            progress = state.progress[source]
            progress.end_offset = max(progress.end_offset, min(request.end.offset, state.log.end_offset))
        right(state, source, request)
        replication.advance(state)

    patch.setattr(replication, "fetch_requested", fetch_requested)


def fetch_of_an_older_epoch_counts(patch: Patch) -> None:
    """A leader takes a delayed fetch of an earlier epoch as an acknowledgement."""
    right = replication.fetch_requested

    def fetch_requested(state: QuorumState, source: int, request: Fetch) -> None:
        if state.role is Role.LEADER and request.epoch < state.epoch:
            progress = state.progress[source]
            progress.end_offset = max(progress.end_offset, min(request.end.offset, state.log.end_offset))
            replication.advance(state)
        right(state, source, request)

    patch.setattr(replication, "fetch_requested", fetch_requested)


def takes_any_response(patch: Patch) -> None:
    """A follower takes the response to an earlier fetch, or one of another leader's epoch."""
    patch.setattr(
        replication, "_is_expected", lambda state, source, response: state.role is Role.FOLLOWER and state.is_fetching
    )


def cut_off_leader_never_resigns(patch: Patch) -> None:
    """A leader that no majority fetches from goes on (KAFKA-15489)."""
    patch.setattr(replication, "quorum_lost_ms", lambda state: NEVER)


def leader_forgets_its_leadership(patch: Patch) -> None:
    """A node that led an epoch and was restarted votes in that epoch."""
    right = QuorumState._restore

    def restore(self: QuorumState, stored: ElectionState | None) -> None:
        right(self, None if stored is not None and stored.leader_id == self.node_id else stored)

    patch.setattr(QuorumState, "_restore", restore)


def truncates_to_the_high_watermark(patch: Patch) -> None:
    """A follower that follows a leader truncates its log to its high watermark, as Kafka did before KIP-101."""
    right = QuorumState.become_follower

    def become_follower(self: QuorumState, leader_id: int) -> None:
        right(self, leader_id)
        if self.high_watermark < self.log.end_offset:
            self.log.truncate(self.high_watermark)
            self.synced_end = min(self.synced_end, self.high_watermark)
            self.truncate_to = self.high_watermark

    patch.setattr(QuorumState, "become_follower", become_follower)


# The number of seeds (from 1 on) of which one must find it. Those with more than SEEDS_MAX are searched by the soak
# test.
SEEDS_MAX = 60
DEFECTS: dict[Planter, int] = {
    sends_before_it_persists: 6,
    votes_twice_in_an_epoch: 6,
    forgets_its_vote_at_a_restart: 30,
    votes_for_a_shorter_log: 30,
    compares_logs_by_length_alone: 60,
    commits_an_older_epoch_by_count: 200,
    leader_counts_itself_before_the_sync: 30,
    follower_fetches_before_the_sync: 6,
    diverging_fetch_counts: 10,
    fetch_of_an_older_epoch_counts: 600,
    takes_any_response: 10,
    cut_off_leader_never_resigns: 10,
    leader_forgets_its_leadership: 600,
    truncates_to_the_high_watermark: 20,
}
