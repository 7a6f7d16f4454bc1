"""Changes of the voters (KIP-853): one at a time, each a VotersRecord that counts as soon as it is in the log.

A leader takes a change only after it has committed an entry of its epoch, so that no change of an earlier leader is
under way that it does not know; and only when the record of the change before is committed. Then each majority of the
old voters has a node in common with each majority of the new ones.

A removed voter becomes an observer, and stays one until it is added again by name (KAFKA-19850): its own report
(UpdateRaftVoter) changes a voter, and never adds one. With controller.quorum.auto.join.enable (KIP-1186) an observer
asks to be added by itself, also after it was removed; its entry with a disk that is lost is removed first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.core import uuid as uuids
from broker_cy.core.errors import ErrorCode
from broker_cy.quorum.entries import KRaftVersion
from broker_cy.quorum.messages import add_request, remove_request, update_request, update_response, voter_of
from broker_cy.quorum.replication import leader_error
from broker_cy.quorum.state import NEVER, PendingChange, QuorumState
from broker_cy.quorum.step import AddVoter, ChangeVoters, Received, RemoveVoter, Reply, Role, UpgradeKRaftVersion
from broker_cy.quorum.voters import ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    from broker_cy.wire import messages as wire

DYNAMIC = 1
"""The first kraft.version that keeps the voters in the log."""


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def change(state: QuorumState, event: ChangeVoters) -> None:
    """Append the change, or reply why not."""
    try:
        _check_leads(state)
        match event.change:
            case AddVoter(voter, timeout_ms, waits):
                end_offset = _append(state, _with(state, voter))
                until_ms = state.now_ms + timeout_ms
            case RemoveVoter(key):
                end_offset = _append(state, _without(state, key))
                waits, until_ms = True, state.now_ms + state.timeouts.request_ms
            case UpgradeKRaftVersion(level, validate_only):
                voters = state.voters if level == state.kraft_version else _dynamic(state, level)
                if validate_only or level == state.kraft_version:
                    state.replies.append(Reply(event.request_id, ErrorCode.NONE, ""))
                    return
                end_offset = _append(state, voters, level)
                waits, until_ms = True, state.now_ms + state.timeouts.request_ms
    except _Refused as refused:
        state.replies.append(Reply(event.request_id, refused.error, refused.message))
        return
    if waits:
        state.change = PendingChange(event.request_id, end_offset, until_ms)
    else:
        state.replies.append(Reply(event.request_id, ErrorCode.NONE, ""))


def _check_leads(state: QuorumState) -> None:
    """Raise _Refused unless this node is a leader that may change the voters now."""
    if state.role is not Role.LEADER:
        raise _Refused(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"node {state.node_id} does not lead the metadata quorum; the leader is {state.leader_id}",
        )
    if state.change is not None:
        raise _Refused(ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way")
    if state.high_watermark <= state.epoch_start_offset:
        raise _Refused(ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed an entry of its epoch yet")
    if state.history.newest.offset >= state.high_watermark:
        raise _Refused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the change of the voters at offset {state.history.newest.offset} is not committed yet",
        )


def _check_dynamic(state: QuorumState) -> None:
    if state.kraft_version < DYNAMIC:
        raise _Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the voters are static: kraft.version is {state.kraft_version}; upgrade it to {DYNAMIC} first",
        )


def _with(state: QuorumState, voter: Voter) -> VoterSet:
    _check_dynamic(state)
    key = voter.key
    if key.id < 0 or key.directory_id == uuids.ZERO or not voter.endpoints:
        raise _Refused(
            ErrorCode.INVALID_REQUEST, f"voter {key} needs an id, a directory id and an endpoint for the controller"
        )
    known = state.voters.get(key.id)
    if known is not None:
        raise _Refused(
            ErrorCode.DUPLICATE_VOTER,
            f"node {key.id} is a voter already, with directory id {known.key}; remove it first",
        )
    taken = {(each.host, each.port): other.key.id for other in state.voters.voters for each in other.endpoints}
    for each in voter.endpoints:
        if (other := taken.get((each.host, each.port))) is not None:
            # Kafka takes it: its quorum then asks the other voter for votes in the name of this one.
            raise _Refused(
                ErrorCode.INVALID_REQUEST,
                f"{each.host}:{each.port} is the address of voter {other}; give that of node {key.id}",
            )
    if not voter.min_kraft_version <= state.kraft_version <= voter.max_kraft_version:
        raise _Refused(
            ErrorCode.INVALID_REQUEST,
            f"voter {key} supports kraft.version {voter.min_kraft_version} to {voter.max_kraft_version}, and it is "
            f"{state.kraft_version}",
        )
    progress = state.observers.get(key)
    # A voter that lags would hold up the high watermark.
    if progress is None or progress.caught_up_ms < 0 or state.now_ms - progress.caught_up_ms > state.timeouts.fetch_ms:
        raise _Refused(ErrorCode.REQUEST_TIMED_OUT, f"node {key} lags behind; it must catch up as an observer first")
    return state.voters.added(voter)


def _without(state: QuorumState, key: ReplicaKey) -> VoterSet:
    _check_dynamic(state)
    if key not in state.voters or key.directory_id == uuids.ZERO:
        raise _Refused(
            ErrorCode.VOTER_NOT_FOUND, f"{key} is not among the voters {', '.join(map(str, state.voters.keys))}"
        )
    if len(state.voters) == 1:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"{key} is the only voter; add another one first")
    return state.voters.removed(key)


def _dynamic(state: QuorumState, level: int) -> VoterSet:
    """The static voters with the directory ids of their fetches."""
    if level < state.kraft_version:
        raise _Refused(ErrorCode.INVALID_REQUEST, f"kraft.version cannot be lowered from {state.kraft_version}")
    found = []
    for voter in state.voters.voters:
        own = state.me if voter.key.id == state.node_id else None
        progress = state.progress.get(voter.key.id)
        reported = own or (progress.reported if progress is not None else None) or voter
        directory_id = state.key.directory_id if own else (progress.directory_id if progress else uuids.ZERO)
        if directory_id == uuids.ZERO:
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT, f"the directory id of voter {voter.key.id} is unknown: it must fetch first"
            )
        endpoints = reported.endpoints or voter.endpoints
        if not endpoints:
            raise _Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"voter {voter.key.id} has no address for other controllers: add a listener of "
                "controller.listener.names to its listeners, and start it again",
            )
        found.append(
            Voter(
                ReplicaKey(voter.key.id, directory_id),
                endpoints,
                reported.min_kraft_version,
                reported.max_kraft_version,
            )
        )
    voters = VoterSet(found)
    if not voters.supports(level):
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION, f"not every voter supports kraft.version {level}")
    return voters


def _append(state: QuorumState, voters: VoterSet, level: int | None = None) -> int:
    control = (voters,) if level is None else (KRaftVersion(level), voters)
    return state.append(len(control), None, control)


def settle(state: QuorumState) -> None:
    """Answer a change that is committed, or that takes too long; resign if it removed this leader."""
    if state.role is not Role.LEADER:
        return
    pending = state.change
    if pending is not None and state.high_watermark >= pending.end_offset:
        state.finish_change(ErrorCode.NONE)
    elif pending is not None and state.now_ms >= pending.until_ms:
        # It may still be committed.
        state.finish_change(ErrorCode.REQUEST_TIMED_OUT, "the change of the voters was not committed in time")
    if not state.is_voter and state.history.newest.offset < state.high_watermark:
        state.resign()


def not_written(state: QuorumState, end_offset: int) -> None:
    """The log of the leader ends at `end_offset`."""
    if state.change is not None and state.change.end_offset > end_offset:
        state.finish_change(ErrorCode.KAFKA_STORAGE_ERROR, "the change of the voters could not be written")


# --- a voter whose endpoints or versions have changed


def report(state: QuorumState) -> None:
    """Report the changes of this voter to the leader; a leader changes its own entry."""
    known = state.voters.get(state.node_id)
    if known is None or not state.is_voter or not state.me.endpoints:
        return
    me = state.me
    if state.role is Role.LEADER and state.kraft_version >= DYNAMIC and known != me:
        try:
            _check_leads(state)
        except _Refused:
            return
        _append(state, state.voters.updated(me))
    elif state.role is Role.FOLLOWER and state.report_ms <= state.now_ms:
        is_static = state.kraft_version < DYNAMIC
        if (is_static and state.report_ms == NEVER) or (not is_static and known != me):
            state.report_ms = state.now_ms + state.timeouts.fetch_ms
            state.send(state.leader_id, update_request(state.epoch, me))


def join(state: QuorumState) -> None:
    """Let this observer become a voter, if it is to do that by itself."""
    if not state.auto_join or state.role is not Role.FOLLOWER or state.is_voter or state.kraft_version < DYNAMIC:
        return
    if state.report_ms <= state.now_ms:
        is_first = state.report_ms == NEVER
        state.report_ms = state.now_ms + state.timeouts.fetch_ms
        if is_first:
            # It has yet to catch up.
            return
        lost = state.voters.get(state.node_id)
        state.send(state.leader_id, remove_request(lost.key) if lost is not None else add_request(state.me))


def update_requested(state: QuorumState, event: Received, request: wire.UpdateRaftVoterRequest) -> None:
    error = leader_error(state, request.current_leader_epoch)
    if error is ErrorCode.NONE:
        error = _update(state, voter_of(request))
    state.answer(event, update_response(state.epoch, state.leader_id, error, state.leader_address(event)))


def _update(state: QuorumState, voter: Voter) -> ErrorCode:
    if (
        voter.key.directory_id == uuids.ZERO
        or not voter.endpoints
        or not 0 <= voter.min_kraft_version <= voter.max_kraft_version
        or not voter.min_kraft_version <= state.kraft_version <= voter.max_kraft_version
    ):
        return ErrorCode.INVALID_REQUEST
    if voter.key not in state.voters:
        return ErrorCode.VOTER_NOT_FOUND
    if state.kraft_version < DYNAMIC:
        # Kept for the upgrade of kraft.version.
        if voter.key.id != state.node_id:
            state.progress[voter.key.id].reported = voter
        return ErrorCode.NONE
    try:
        _check_leads(state)
    except _Refused as refused:
        return refused.error
    if state.voters.get(voter.key.id) != voter:
        _append(state, state.voters.updated(voter))
    return ErrorCode.NONE
