"""Defects of the quorum, which its simulation must find. Each is planted by replacing one function or value. The file
is long because it is one list.
"""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum import changes, elections, replication, snapshots, step
from broker_cy.quorum.election_state import NO_LEADER, ElectionState
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.history import VoterHistory
from broker_cy.quorum.messages import update_request
from broker_cy.quorum.state import NEVER, Progress, QuorumState
from broker_cy.quorum.step import LeaderGone, Received, Role
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.wire import messages as wire
from tests.sim.defects import Patch, Planter


def sends_before_it_persists(patch: Patch) -> None:
    """A vote leaves before it is on disk."""
    patch.setattr(step, "DURABILITY_ORDER", ("send", "persist", "truncate_to", "replace_log", "append", "chunk"))


def votes_are_not_waited_for(patch: Patch) -> None:
    """A vote is written like everything else that quorum-state contains: a power loss may take it."""
    right = QuorumState.take_record

    def take_record(self: QuorumState) -> ElectionState | None:
        found = right(self)
        self.record_binds = False
        return found

    patch.setattr(QuorumState, "take_record", take_record)


def votes_twice_in_an_epoch(patch: Patch) -> None:
    """A voter grants its vote to each candidate of an epoch."""
    right = elections._grants

    def grants(state: QuorumState, candidate: ReplicaKey, pre_vote: bool) -> bool:
        state.voted = candidate
        return right(state, candidate, pre_vote)

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

    def fetch_requested(state: QuorumState, event: Received, request: wire.FetchRequest) -> None:
        part = request.topics[0].partitions[0]
        key = ReplicaKey(event.source, part.replica_directory_id)
        if (
            state.role is Role.LEADER
            and part.current_leader_epoch == state.epoch
            and key in state.voters
            and event.source in state.progress
        ):
            progress = state.progress[event.source]
            progress.end_offset = max(progress.end_offset, min(part.fetch_offset, state.log.end_offset))
        right(state, event, request)
        replication.advance(state)

    patch.setattr(replication, "fetch_requested", fetch_requested)


def fetch_of_an_older_epoch_counts(patch: Patch) -> None:
    """A leader takes a delayed fetch of an earlier epoch as an acknowledgement."""
    right = replication.fetch_requested

    def fetch_requested(state: QuorumState, event: Received, request: wire.FetchRequest) -> None:
        part = request.topics[0].partitions[0]
        if state.role is Role.LEADER and part.current_leader_epoch < state.epoch and event.source in state.progress:
            progress = state.progress[event.source]
            progress.end_offset = max(progress.end_offset, min(part.fetch_offset, state.log.end_offset))
            replication.advance(state)
        right(state, event, request)

    patch.setattr(replication, "fetch_requested", fetch_requested)


def takes_any_response(patch: Patch) -> None:
    """A follower takes the response to an earlier fetch, or one of another leader's epoch."""
    patch.setattr(
        replication, "_is_expected", lambda state, event, epoch: state.role is Role.FOLLOWER and state.is_fetching
    )


def cut_off_leader_never_resigns(patch: Patch) -> None:
    """A leader that no majority fetches from continues (KAFKA-15489)."""
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

    def become_follower(self: QuorumState, leader_id: int, endpoints: tuple[Endpoint, ...] = ()) -> None:
        right(self, leader_id, endpoints)
        if self.high_watermark < self.log.end_offset:
            self.truncate(self.high_watermark)
            self.truncate_to = self.high_watermark

    patch.setattr(QuorumState, "become_follower", become_follower)


# --- voters that change (KIP-853)


def wiped_disk_votes(patch: Patch) -> None:
    """A replica accepts a vote request for another disk with its id, so that a wiped disk votes again."""
    patch.setattr(elections, "_key_error", lambda state, voter: ErrorCode.NONE)


def wiped_disk_acknowledges(patch: Patch) -> None:
    """A leader counts the fetches of a replica by its id alone, whatever disk the replica is on."""
    right = replication.progress_of

    def progress_of(state: QuorumState, key: ReplicaKey) -> Progress | None:
        known = state.voters.get(key.id)
        return right(state, known.key if known is not None else key)

    patch.setattr(replication, "progress_of", progress_of)


def uncommitted_voters_are_ignored(patch: Patch) -> None:
    """The newest voters count only when they are committed, as in no version of Raft."""
    right = QuorumState.take_voters

    def take_voters(self: QuorumState) -> None:
        newest = self.history.newest
        if newest.offset >= self.high_watermark and self.history.before_newest is not None:
            _, self.kraft_version, self.voters = self.history.before_newest
            return
        right(self)

    patch.setattr(QuorumState, "take_voters", take_voters)


def majority_of_the_former_voters(patch: Patch) -> None:
    """Entries behind a change of the voters are committed by the majority from before the change."""
    right = replication.advance

    def advance(state: QuorumState) -> None:
        before = state.history.before_newest
        majority = state.voters.majority
        if before is not None and len(before.voters):
            state.voters.majority = min(majority, before.voters.majority)
        right(state)
        state.voters.majority = majority

    patch.setattr(replication, "advance", advance)


def two_changes_at_once(patch: Patch) -> None:
    """A leader appends a change of the voters before the one before it is committed."""
    patch.setattr(changes, "_check_leads", lambda state: None)


def changes_before_its_epoch_commits(patch: Patch) -> None:
    """A new leader changes the voters before it has committed an entry of its epoch, so that it may not know of another
    change that is under way (the defect of 2015 in Raft's changes of one server).
    """
    right = changes._check_leads

    def check(state: QuorumState) -> None:
        start, state.epoch_start_offset = state.epoch_start_offset, -1
        try:
            right(state)
        finally:
            state.epoch_start_offset = start

    patch.setattr(changes, "_check_leads", check)


def truncation_keeps_the_voters(patch: Patch) -> None:
    """A follower that truncates a change of the voters still counts the truncated ones."""
    patch.setattr(VoterHistory, "truncate", lambda self, end_offset: False)


def removed_voter_stands(patch: Patch) -> None:
    """A node that was removed from the voters, and knows it, stands for election."""
    patch.setattr(QuorumState, "may_stand", property(lambda self: True))


def removed_leader_goes_on(patch: Patch) -> None:
    """A leader that has removed itself does not resign when that is committed."""
    right = QuorumState.resign

    def resign(self: QuorumState) -> None:
        if self.is_voter or self.high_watermark <= self.history.newest.offset:
            right(self)

    patch.setattr(QuorumState, "resign", resign)


def removed_leader_counts_itself(patch: Patch) -> None:
    """A leader that removes itself counts its own disk for the commit."""
    right = replication.advance

    def advance(state: QuorumState) -> None:
        is_voter, state.is_voter = state.is_voter, True
        right(state)
        state.is_voter = is_voter

    patch.setattr(replication, "advance", advance)


def removed_leader_never_stands(patch: Patch) -> None:
    """A leader that was removed by an uncommitted record does not stand, although the remaining voters have shorter
    logs: the quorum never gets a leader.
    """
    patch.setattr(QuorumState, "may_stand", property(lambda self: self.is_voter))


def removed_voter_rejoins(patch: Patch) -> None:
    """A replica that reports its endpoints becomes a voter, although it was removed (KAFKA-19850)."""

    def update(state: QuorumState, voter: Voter) -> ErrorCode:
        try:
            changes._check_leads(state)
        except changes._Refused as refused:
            return refused.error
        left = [other for other in state.voters.voters if other.key.id != voter.key.id]
        changes._append(state, VoterSet([*left, voter]))
        return ErrorCode.NONE

    def report(state: QuorumState) -> None:
        if state.role is Role.FOLLOWER and state.report_ms <= state.now_ms and state.me not in state.voters.voters:
            state.report_ms = state.now_ms + state.timeouts.fetch_ms
            state.send(state.leader_id, update_request(state.epoch, state.me))

    patch.setattr(changes, "_update", update)
    patch.setattr(changes, "report", report)


# --- snapshots (KIP-630)


def half_a_snapshot_is_used(patch: Patch) -> None:
    """A follower treats the first chunk as the whole snapshot."""
    right = snapshots.fetch_answered

    def fetch_answered(state: QuorumState, event: Received, response: wire.FetchSnapshotResponse) -> None:
        part = response.topics[0].partitions[0]
        part.size = part.position + len(part.unaligned_records or b"")
        right(state, event, response)

    patch.setattr(snapshots, "fetch_answered", fetch_answered)


def log_is_replaced_before_the_snapshot_is_there(patch: Patch) -> None:
    """A follower empties its log when it begins to fetch a snapshot."""
    right = snapshots.fetch

    def fetch(state: QuorumState) -> None:
        right(state)
        if state.snapshot_fetch is not None and state.replace_log is None and not state.snapshot_fetch.position:
            state.log.replace(state.snapshot_fetch.snapshot_id)
            state.synced_end = state.log.end_offset
            state.replace_log = state.snapshot_fetch.snapshot_id

    patch.setattr(snapshots, "fetch", fetch)


def no_snapshot_for_who_needs_it(patch: Patch) -> None:
    """A leader answers a fetch below the start of its log with what the log has (KAFKA-14238)."""
    patch.setattr(replication, "_snapshot_needed", lambda state, end: None)


def snapshot_is_taken_by_offset_alone(patch: Patch) -> None:
    """A leader treats a log that ends at the start of its own as the same log, whatever its epoch is."""
    right = replication._snapshot_needed

    def needed(state: QuorumState, end: OffsetAndEpoch) -> OffsetAndEpoch | None:
        return right(state, end) if end.offset < max(state.log.start.offset, 1) else None

    patch.setattr(replication, "_snapshot_needed", needed)


def snapshot_brings_no_voters(patch: Patch) -> None:
    """A follower keeps the voters of its log when a snapshot replaces the log."""
    patch.setattr(VoterHistory, "replace", lambda self, voters, kraft_version: None)


def start_forgets_the_voters(patch: Patch) -> None:
    """A log that begins behind a snapshot has forgotten the newest record of the voters."""

    def begin_at(self: VoterHistory, start_offset: int) -> None:
        del self._entries[1:]

    patch.setattr(VoterHistory, "begin_at", begin_at)


def joins_without_being_asked(patch: Patch) -> None:
    """An observer asks to become a voter although controller.quorum.auto.join.enable is off (KAFKA-19850)."""
    original = changes.join

    def join(state: QuorumState) -> None:
        state.auto_join = True
        original(state)

    patch.setattr(changes, "join", join)


def joins_beside_its_lost_disk(patch: Patch) -> None:
    """An observer that was a voter with another disk does not have that one removed, so that it is never added."""
    original = changes.join

    def join(state: QuorumState) -> None:
        if state.voters.get(state.node_id) is None:
            original(state)

    patch.setattr(changes, "join", join)


def gone_leader_is_replaced_without_a_pre_vote(patch: Patch) -> None:
    """A voter that suspects the leader begins a new epoch: a wrong suspicion of one node deposes a working leader."""

    def leader_gone(state: QuorumState, event: LeaderGone) -> None:
        if event.epoch == state.epoch and event.leader_id == state.leader_id and state.role is Role.FOLLOWER:
            state.become(Role.PROSPECTIVE)
            elections._become_candidate(state)

    patch.setattr(elections, "leader_gone", leader_gone)


def gone_leader_of_an_earlier_epoch_counts(patch: Patch) -> None:
    """The end of the leader of an earlier epoch counts as that of the current one."""
    right = elections.leader_gone
    patch.setattr(elections, "leader_gone", lambda state, event: right(state, event._replace(epoch=state.epoch)))


def gone_leader_is_waited_for(patch: Patch) -> None:
    """A voter that learns of the leader's end still waits for the fetch timeout."""
    patch.setattr(elections, "leader_gone", lambda state, event: None)


def voters_are_believed_of_a_gone_leader(patch: Patch) -> None:
    """An observer follows the leader that has gone again, because a voter that has not learned of it still names it."""
    right = elections.leader_gone

    def leader_gone(state: QuorumState, event: LeaderGone) -> None:
        right(state, event)
        state.gone_epoch = -1

    patch.setattr(elections, "leader_gone", leader_gone)


def pre_vote_is_always_granted(patch: Patch) -> None:
    """A voter that hears from its leader grants pre-votes."""
    right = elections._grants

    def grants(state: QuorumState, candidate: ReplicaKey, pre_vote: bool) -> bool:
        return pre_vote or right(state, candidate, pre_vote)

    patch.setattr(elections, "_grants", grants)


# One of so many seeds, starting at that in FIRST or at 1, must find the defect. The soak test searches the defects with
# more than SEEDS_MAX seeds.
SEEDS_MAX = 60
DEFECTS: dict[Planter, int] = {
    sends_before_it_persists: 6,
    votes_are_not_waited_for: 6,
    votes_twice_in_an_epoch: 6,
    forgets_its_vote_at_a_restart: 30,
    votes_for_a_shorter_log: 30,
    compares_logs_by_length_alone: 60,
    commits_an_older_epoch_by_count: 30,
    leader_counts_itself_before_the_sync: 30,
    follower_fetches_before_the_sync: 6,
    diverging_fetch_counts: 10,
    fetch_of_an_older_epoch_counts: 25,
    takes_any_response: 10,
    cut_off_leader_never_resigns: 10,
    leader_forgets_its_leadership: 1_000,
    truncates_to_the_high_watermark: 20,
    wiped_disk_votes: 20,
    wiped_disk_acknowledges: 60,
    uncommitted_voters_are_ignored: 10,
    majority_of_the_former_voters: 20,
    two_changes_at_once: 10,
    changes_before_its_epoch_commits: 10,
    truncation_keeps_the_voters: 30,
    removed_voter_stands: 10,
    removed_leader_goes_on: 20,
    removed_leader_counts_itself: 10,
    removed_leader_never_stands: 60,
    removed_voter_rejoins: 10,
    half_a_snapshot_is_used: 10,
    log_is_replaced_before_the_snapshot_is_there: 10,
    no_snapshot_for_who_needs_it: 10,
    snapshot_is_taken_by_offset_alone: 600,
    snapshot_brings_no_voters: 10,
    start_forgets_the_voters: 10,
    joins_without_being_asked: 10,
    joins_beside_its_lost_disk: 60,
    gone_leader_is_replaced_without_a_pre_vote: 6,
    gone_leader_of_an_earlier_epoch_counts: 6,
    gone_leader_is_waited_for: 20,
    voters_are_believed_of_a_gone_leader: 60,
    pre_vote_is_always_granted: 6,
}
# About one seed of 50 finds it.
FIRST: dict[Planter, int] = {
    wiped_disk_votes: 175,
    commits_an_older_epoch_by_count: 60,
    removed_leader_never_stands: 50,
}
