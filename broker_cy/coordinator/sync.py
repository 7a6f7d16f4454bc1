"""SyncGroup: the leader sends the assignment, and the other members receive theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_cy.coordinator import records
from broker_cy.coordinator.group import ClassicGroup, GroupState
from broker_cy.coordinator.journal import trigger_of
from broker_cy.coordinator.rebalance import answer_sync, give_up_syncs, prepare, set_session, sync_error
from broker_cy.coordinator.step import Now, Step, Token, append_error
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

if TYPE_CHECKING:
    from broker_cy.coordinator.state_machine import GroupStateMachine


def sync(machine: GroupStateMachine, step: Step, request: messages.SyncGroupRequest, token: Token, now: Now) -> None:
    group = machine.groups.get(request.group_id)
    if group is None or group.state is GroupState.EMPTY:
        step.reply(token, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        return
    code = _refusal(group, request)
    if code is not ErrorCode.NONE:
        step.reply(token, sync_error(code))
        return
    member = group.members[request.member_id]
    _synced(machine, group, request.member_id)
    if group.state is GroupState.STABLE:
        step.reply(token, _response(group, member.assignment))
        return
    before, member.sync_token = member.sync_token, token
    if before is not None:
        # The client abandoned that request and sends another one.
        step.reply(before, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    if group.is_leader(request.member_id):
        _assign(machine, step, group, request)


def _refusal(group: ClassicGroup, request: messages.SyncGroupRequest) -> ErrorCode:
    code = group.member_error(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(given: str | None, known: str | None) -> bool:
    return given is not None and known is not None and given != known


def _synced(machine: GroupStateMachine, group: ClassicGroup, member_id: str) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        machine.timers.cancel(TimerKey(TimerKind.SYNC, group.group_id))


def _response(group: ClassicGroup, assignment: bytes) -> messages.SyncGroupResponse:
    return messages.SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def _assign(machine: GroupStateMachine, step: Step, group: ClassicGroup, request: messages.SyncGroupRequest) -> None:
    """Write the generation with its assignment. Once that is on disk, the group is stable and all members get their
    answers.
    """
    assignment = {item.member_id: bytes(item.assignment) for item in request.assignments}
    generation = group.generation
    machine.append(step, [records.group_record(group, assignment)])

    def written(out: Step, later: Now) -> None:
        # Another member may have joined or one may have been lost while the record was written.
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return
        group.transition(GroupState.STABLE, later.wall_ms)
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, b"")
            if answer_sync(out, member, _response(group, member.assignment)):
                # Sessions that ended while the answer was awaited were skipped, and have no deadline left.
                set_session(machine, group, member, later)
        group.journal.settled(group, out, later)

    def failed(out: Step, later: Now, code: ErrorCode) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return
        give_up_syncs(machine, out, group, append_error(code), later)
        prepare(machine, out, group, later, trigger_of("write_failed"))

    step.then(written, failed)
