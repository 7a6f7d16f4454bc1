"""Elections (KIP-595) with a pre-vote (KIP-996): how a node becomes the leader of an epoch, and how others learn it.

A vote belongs to the replica that gave it: a request names the voter with its directory id, and a node with a wiped
disk refuses it with INVALID_VOTER_KEY (KIP-853). With voters in the log, a node votes on each request, even if it does
not know yet that it is a voter, and for unknown candidates: the log of the candidate may be newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import NO_LEADER
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.messages import (
    begin_response,
    end_response,
    endpoints_of,
    fetch_request,
    receiver_of,
    successors_of,
    vote_request,
    vote_response,
)
from broker_cy.quorum.state import QuorumState
from broker_cy.quorum.step import LeaderGone, Received, Role, bootstrap_id
from broker_cy.quorum.voters import Endpoint, ReplicaKey

if TYPE_CHECKING:
    from broker_cy.wire import messages as wire

# The correlations of the two kinds of a vote request: its response does not repeat the kind.
VOTE: Final = 0
PRE_VOTE: Final = 1
_VOTING = frozenset({Role.UNATTACHED, Role.PROSPECTIVE})
_LEADERLESS = frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE})
# The roles that still follow the leader of the epoch, or know it and have given it up.
_LEADERLESS_SOON = frozenset({Role.FOLLOWER, Role.UNATTACHED, Role.PROSPECTIVE})


def learn(state: QuorumState, source: int, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...] = ()) -> None:
    """Take over a newer epoch, or the leader of this one, from a message of `source`. Raises AssertionError for a
    leader that this quorum cannot have.
    """
    is_other = leader_id not in (NO_LEADER, state.node_id)
    if epoch > state.epoch:
        if is_other and state.is_only_voter:
            # No node leads a new epoch without the vote of an only voter, which would have learned of the epoch then.
            raise AssertionError(f"{leader_id} leads epoch {epoch}, and the only voter, {state.key}, did not elect it")
        state.enter_epoch(epoch)
        if is_other:
            state.become_follower(leader_id, endpoints)
        else:
            state.become_unattached()
    elif epoch == state.epoch and is_other:
        if state.leader_id not in (NO_LEADER, leader_id):
            raise AssertionError(f"epoch {epoch} has the leaders {state.leader_id} and {leader_id}")
        # A prospective voter has given up its leader. Another voter that still names this leader is not newer evidence;
        # only a message of the leader itself shows that it runs. A leader of Kafka that has resigned still names itself
        # until another one is elected. An observer asks any node that it knows for the leader; that node may not know
        # yet that the leader has gone.
        is_asking = not state.may_stand and state.gone_epoch < epoch
        is_credible = state.leader_id == NO_LEADER or source == leader_id or is_asking
        if state.role in _LEADERLESS and is_credible and not state.has_ended:
            state.become_follower(leader_id, endpoints)
        elif endpoints:
            state.leader_endpoints = endpoints


def stand(state: QuorumState) -> None:
    """The time to wait for a leader is over. A voter asks the others whether they would vote for it: only then it
    begins a new epoch, which would disturb a leader that works. An observer searches for the leader.
    """
    if not state.may_stand:
        _search(state)
        return
    if state.role is Role.PROSPECTIVE:
        # No majority has answered: perhaps other nodes are voters by now.
        _ask_for_leader(state, ())
    state.become(Role.PROSPECTIVE)
    _begin_round(state, pre_vote=True)


def leader_gone(state: QuorumState, event: LeaderGone) -> None:
    """The followers of the ended leader need not wait for the fetch timeout. The voter with the lowest id stands for
    election immediately, the others one after the other, so that they do not take votes from it; an observer searches
    for the new leader immediately.
    """
    if event.epoch != state.epoch or event.leader_id != state.leader_id or state.role not in _LEADERLESS_SOON:
        return
    # Another voter may be elected although this node heard from the leader just now.
    state.has_fetched = False
    state.hurry = 1
    state.gone_epoch = event.epoch
    state.gone_correlation = state.correlation
    place = sum(1 for voter in state.others if voter != event.leader_id and voter < state.node_id)
    delay_ms = place * state.timeouts.gone_ms if state.may_stand else 0
    state.deadline_ms = min(state.deadline_ms, state.now_ms + delay_ms)
    if not delay_ms:
        stand(state)


def _search(state: QuorumState) -> None:
    if state.role is not Role.UNATTACHED:
        # The leader of the epoch stays known, so that there is no vote in it.
        state.become(Role.UNATTACHED)
    state.wait_for_election()
    _ask_for_leader(state, state.others)


def _ask_for_leader(state: QuorumState, voters: tuple[int, ...]) -> None:
    """Fetch from the next bootstrap server, or voter of the log in `voters`: its response names the leader. Bootstrap
    servers may be hosts of former voters that no longer answer.
    """
    count = state.bootstrap_servers + len(voters)
    if not count or state.synced_end < state.log.end_offset:
        return
    state.sought = (state.sought + 1) % count
    later = state.sought - state.bootstrap_servers
    to = voters[later] if later >= 0 else bootstrap_id(state.sought)
    state.correlation += 1
    request = fetch_request(state.key, state.epoch, state.log.end, state.high_watermark, 0)
    state.send(to, request, state.correlation)


def _become_candidate(state: QuorumState) -> None:
    state.enter_epoch(state.epoch + 1)
    state.become(Role.CANDIDATE)
    state.voted = state.key
    _begin_round(state, pre_vote=False)


def _begin_round(state: QuorumState, *, pre_vote: bool) -> None:
    """Vote for this node, and ask the others for their votes."""
    state.wait_for_election()
    if state.is_voter:
        state.votes[state.node_id] = True
    last = state.log.end
    for key in state.voters.keys:
        if key.id != state.node_id:
            request = vote_request(state.key, state.epoch, last, pre_vote, key)
            state.send(key.id, request, PRE_VOTE if pre_vote else VOTE)
    _count(state)


def _count(state: QuorumState) -> None:
    """Decide the round if a majority has answered. A single voter is its own majority."""
    granted = sum(state.votes.values())
    majority = state.voters.majority
    if granted >= majority:
        if state.role is Role.PROSPECTIVE:
            _become_candidate(state)
        else:
            state.become_leader()
    elif len(state.votes) - granted >= majority and state.leader_id != NO_LEADER and not state.has_ended:
        # The voters have a leader: this node tries to reach it again. Without a leader the next round follows the
        # election timeout.
        state.become_follower(state.leader_id, state.leader_endpoints)


def vote_requested(state: QuorumState, event: Received, request: wire.VoteRequest) -> None:
    part = request.topics[0].partitions[0]
    epoch, last = part.replica_epoch, OffsetAndEpoch(part.last_offset, part.last_offset_epoch)
    # A candidate begins its epoch, so that it has no entry of it.
    error = _voter_error(state, event.source, epoch, last, epoch if part.pre_vote else epoch - 1)
    if error is ErrorCode.NONE and epoch > state.epoch:
        learn(state, event.source, epoch, NO_LEADER)
    if error is ErrorCode.NONE:
        error = _key_error(state, receiver_of(request.voter_id, part.voter_directory_id))
    candidate = ReplicaKey(event.source, part.replica_directory_id)
    granted = error is ErrorCode.NONE and _is_long_enough(state, last) and _grants(state, candidate, part.pre_vote)
    if granted and not part.pre_vote:
        # A candidate that is being elected is not disturbed.
        state.hurry = 0
        state.become_unattached()
        state.voted = candidate
    address = state.leader_address(event)
    state.answer(event, vote_response(state.epoch, state.leader_id, granted, error, address))


def _voter_error(state: QuorumState, source: int, epoch: int, last: OffsetAndEpoch, newest: int) -> ErrorCode:
    """The error of a candidate whose log ends at `last`, and may have entries up to the epoch `newest`."""
    if epoch < state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if source < 0 or last.offset < 0 or not 0 <= last.epoch <= newest:
        return ErrorCode.INVALID_REQUEST
    if state.kraft_version == 0 and source not in state.voters.ids and state.voters.ids:
        # Static voters are configured on each node, so that the configurations differ.
        return ErrorCode.INCONSISTENT_VOTER_SET
    return ErrorCode.NONE


def _key_error(state: QuorumState, voter: ReplicaKey | None) -> ErrorCode:
    """The error of a request that is meant for another replica than this one."""
    if voter is None or (voter.id == state.node_id and voter.directory_id in (uuids.ZERO, state.key.directory_id)):
        return ErrorCode.NONE
    return ErrorCode.INVALID_VOTER_KEY


def _is_long_enough(state: QuorumState, last: OffsetAndEpoch) -> bool:
    """Whether a log that ends at `last` has every entry that may be committed, as far as this node knows."""
    end = state.log.end
    return (last.epoch, last.offset) >= (end.epoch, end.offset)


def _grants(state: QuorumState, candidate: ReplicaKey, pre_vote: bool) -> bool:
    if pre_vote:
        # A voter that hears from its leader keeps it.
        return state.role is not Role.LEADER and not (state.role is Role.FOLLOWER and state.has_fetched)
    voted = state.voted
    # The file of static voters has no directory id of the vote.
    is_free = voted is None or (voted.id == candidate.id and voted.directory_id in (uuids.ZERO, candidate.directory_id))
    return state.role in _VOTING and state.leader_id == NO_LEADER and is_free


def vote_answered(state: QuorumState, event: Received, response: wire.VoteResponse) -> None:
    part = response.topics[0].partitions[0]
    role = Role.PROSPECTIVE if event.correlation == PRE_VOTE else Role.CANDIDATE
    if part.leader_epoch == state.epoch and state.role is role and event.source in state.voters.ids:
        state.votes[event.source] = part.vote_granted
        _count(state)


def epoch_begun(state: QuorumState, event: Received, request: wire.BeginQuorumEpochRequest) -> None:
    part, source = request.topics[0].partitions[0], event.source
    error = _leader_error(state, source, part.leader_epoch)
    if error is ErrorCode.NONE:
        learn(state, source, part.leader_epoch, source, endpoints_of(request.leader_endpoints))
        error = _key_error(state, receiver_of(request.voter_id, part.voter_directory_id))
    state.answer(event, begin_response(state.epoch, state.leader_id, error, state.leader_address(event)))


def epoch_ended(state: QuorumState, event: Received, request: wire.EndQuorumEpochRequest) -> None:
    """The leader has resigned. Its first successor stands immediately, the others one election timeout after each
    other, so that they do not take votes from it.
    """
    part, source = request.topics[0].partitions[0], event.source
    error = _leader_error(state, source, part.leader_epoch)
    if error is ErrorCode.NONE:
        learn(state, source, part.leader_epoch, source, endpoints_of(request.leader_endpoints))
        if state.role is Role.FOLLOWER:
            # A successor that was chosen may be elected although this node heard from the leader just now.
            state.has_fetched = False
            state.has_ended = True
            place = _place(state, successors_of(request))
            state.deadline_ms = min(state.deadline_ms, state.now_ms + place * state.timeouts.election_ms)
            state.refetch_later()
    state.answer(event, end_response(state.epoch, state.leader_id, error, state.leader_address(event)))


def _place(state: QuorumState, successors: tuple[ReplicaKey, ...]) -> int:
    """The index of this replica among the successors, behind them all if it is not there."""
    for index, key in enumerate(successors):
        if key.id == state.node_id and key.directory_id in (uuids.ZERO, state.key.directory_id):
            return index
    return len(state.voters)


def _leader_error(state: QuorumState, source: int, epoch: int) -> ErrorCode:
    """The error of a request of the leader `source`. Another node with this node's id is none."""
    if epoch < state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if source < 0 or source == state.node_id else ErrorCode.NONE
