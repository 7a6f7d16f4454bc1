"""Elections (KIP-595) with a pre-vote (KIP-996): who becomes the leader of an epoch, and how the others learn it."""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.election_state import NO_LEADER, NOT_VOTED
from broker_cy.quorum.messages import (
    BeginQuorumEpoch,
    BeginQuorumEpochResponse,
    EndQuorumEpoch,
    EndQuorumEpochResponse,
    OffsetAndEpoch,
    VoteRequest,
    VoteResponse,
)
from broker_cy.quorum.state import QuorumState
from broker_cy.quorum.step import Role

_VOTING = frozenset({Role.UNATTACHED, Role.PROSPECTIVE})
_LEADERLESS = frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE})


def learn(state: QuorumState, source: int, epoch: int, leader_id: int) -> None:
    """Take over a newer epoch, or the leader of this one, from a message of `source`."""
    if epoch > state.epoch:
        state.enter_epoch(epoch)
        if leader_id in state.others:
            state.become_follower(leader_id)
        else:
            state.become_unattached()
    elif epoch == state.epoch and leader_id in state.others:
        if state.leader_id not in (NO_LEADER, leader_id):
            raise AssertionError(f"epoch {epoch} has the leaders {state.leader_id} and {leader_id}")
        # A prospective voter has given up its leader. Other voters that still name it have heard from it no later; only
        # the leader itself shows that it is there.
        if state.role in _LEADERLESS and (state.leader_id == NO_LEADER or source == leader_id):
            state.become_follower(leader_id)


def stand(state: QuorumState) -> None:
    """Ask the voters whether they would vote for this node: only then it begins a new epoch, which would disturb a
    leader that works.
    """
    state.become(Role.PROSPECTIVE)
    _begin_round(state, pre_vote=True)


def _become_candidate(state: QuorumState) -> None:
    state.enter_epoch(state.epoch + 1)
    state.become(Role.CANDIDATE)
    state.voted_id = state.node_id
    _begin_round(state, pre_vote=False)


def _begin_round(state: QuorumState, *, pre_vote: bool) -> None:
    """Vote for this node, and ask the others for their votes."""
    state.wait_for_election()
    state.votes[state.node_id] = True
    for voter in state.others:
        state.send(voter, VoteRequest(state.epoch, state.log.end, pre_vote))
    _count(state)


def _count(state: QuorumState) -> None:
    """Decide the round if a majority has answered. What a majority of one leads to is the same."""
    granted = sum(state.votes.values())
    if granted >= state.majority:
        if state.role is Role.PROSPECTIVE:
            _become_candidate(state)
        else:
            state.become_leader()
    elif len(state.votes) - granted >= state.majority and state.leader_id != NO_LEADER:
        # The voters have a leader: this node tries to reach it again. Without a leader the next round follows the
        # election timeout.
        state.become_follower(state.leader_id)


def vote_requested(state: QuorumState, source: int, request: VoteRequest) -> None:
    if request.epoch > state.epoch:
        learn(state, source, request.epoch, NO_LEADER)
    granted = request.epoch == state.epoch and _is_long_enough(state, request.last) and _grants(state, source, request)
    if granted and not request.pre_vote:
        state.voted_id = source
        state.become_unattached()
    state.send(
        source, VoteResponse(state.epoch, state.leader_id, granted, request.pre_vote, _outdated(state, request.epoch))
    )


def _is_long_enough(state: QuorumState, last: OffsetAndEpoch) -> bool:
    """Whether a log that ends at `last` has every entry that may be committed, as far as this node knows."""
    end = state.log.end
    return (last.epoch, last.offset) >= (end.epoch, end.offset)


def _grants(state: QuorumState, source: int, request: VoteRequest) -> bool:
    if request.pre_vote:
        # A voter that hears from its leader keeps it.
        return state.role is not Role.LEADER and not (state.role is Role.FOLLOWER and state.has_fetched)
    return state.role in _VOTING and state.leader_id == NO_LEADER and state.voted_id in (NOT_VOTED, source)


def vote_answered(state: QuorumState, source: int, response: VoteResponse) -> None:
    learn(state, source, response.epoch, response.leader_id)
    role = Role.PROSPECTIVE if response.pre_vote else Role.CANDIDATE
    if response.epoch == state.epoch and state.role is role:
        state.votes[source] = response.granted
        _count(state)


def epoch_begun(state: QuorumState, source: int, request: BeginQuorumEpoch) -> None:
    learn(state, source, request.epoch, source)
    state.send(source, BeginQuorumEpochResponse(state.epoch, state.leader_id, _outdated(state, request.epoch)))


def epoch_begin_answered(state: QuorumState, source: int, response: BeginQuorumEpochResponse) -> None:
    learn(state, source, response.epoch, response.leader_id)


def epoch_ended(state: QuorumState, source: int, request: EndQuorumEpoch) -> None:
    """The leader has resigned. Its first successor stands at once, the others one election timeout after each other, so
    that they do not take votes from it.
    """
    learn(state, source, request.epoch, source)
    if request.epoch == state.epoch and state.role is Role.FOLLOWER:
        # A successor that was chosen may be elected although this node heard from the leader just now.
        state.has_fetched = False
        successors = [key.id for key in request.successors]
        place = successors.index(state.node_id) if state.node_id in successors else len(state.voters)
        state.deadline_ms = min(state.deadline_ms, state.now_ms + place * state.timeouts.election_ms)
        state.refetch_later()
    state.send(source, EndQuorumEpochResponse(state.epoch, state.leader_id, _outdated(state, request.epoch)))


def epoch_end_answered(state: QuorumState, source: int, response: EndQuorumEpochResponse) -> None:
    learn(state, source, response.epoch, response.leader_id)


def _outdated(state: QuorumState, epoch: int) -> ErrorCode:
    """The error of a request of this epoch."""
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < state.epoch else ErrorCode.NONE
