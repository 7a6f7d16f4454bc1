"""Heartbeat and LeaveGroup."""

from __future__ import annotations

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.hooks import HookedGroup
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.coordinator.classic.rebalance import drop_member, maybe_complete_join, prepare, set_session
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer import classic_members
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token
from broker_cy.wire import messages

# Members of enumerations are slow to look up.
_NONE, _EMPTY, _PREPARING_REBALANCE = ErrorCode.NONE, GroupState.EMPTY, GroupState.PREPARING_REBALANCE


def heartbeat(
    machine: GroupMachine, step: GroupStep, request: messages.HeartbeatRequest, token: Token, now: Now
) -> None:
    """`heartbeat_code` as an operation: as in Kafka, the answer to a member waits for earlier records."""
    code = heartbeat_code(machine, request, now)
    if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
        step.reply_when_written(token, _heartbeat_response(code), _heartbeat_response)
    else:
        step.reply(token, _heartbeat_response(code))


def _heartbeat_response(code: ErrorCode) -> messages.HeartbeatResponse:
    return messages.HeartbeatResponse(error_code=code)


def heartbeat_code(machine: GroupMachine, request: messages.HeartbeatRequest, now: Now) -> ErrorCode:
    """Extend a session. REBALANCE_IN_PROGRESS makes the member join again."""
    group = machine.groups.get(request.group_id)
    # A check of the exact class is the cheapest one.
    if type(group) is not HookedGroup:
        if isinstance(group, ConsumerGroup):
            return classic_members.heartbeat_code(machine, group, request, now)
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.member_error(request.member_id, request.group_instance_id)
    if code is not _NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is _EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    set_session(machine, group, group.members[request.member_id], now)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is _PREPARING_REBALANCE else _NONE


def leave(
    machine: GroupMachine,
    step: GroupStep,
    group_id: str,
    identities: list[messages.LeaveGroupRequest.MemberIdentity],
    token: Token,
    now: Now,
) -> None:
    """Remove members by member id or, by an administrator, by instance id alone. Each has a separate result."""
    known = machine.groups.get(group_id)
    if isinstance(known, ConsumerGroup):
        results = classic_members.leave(machine, step, known, identities, now)
        step.reply_when_written(token, messages.LeaveGroupResponse(members=results), _leave_error)
        return
    group = machine.classic(group_id)
    results = []
    left: list[ClassicMember] = []
    anyone_left = False
    for identity in identities:
        code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave_one(machine, step, group, identity, left, now)
        anyone_left = anyone_left or code is ErrorCode.NONE
        results.append(
            messages.LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
            )
        )
    if group is not None and anyone_left:
        trigger = trigger_of("leave", left[0] if left else None)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            prepare(machine, step, group, now, trigger)
        else:
            if left and group.state is GroupState.PREPARING_REBALANCE:
                group.journal.began(group, trigger, now)
            maybe_complete_join(machine, step, group, now)
    step.reply_when_written(
        token,
        messages.LeaveGroupResponse(members=results),
        _leave_error,
    )


def _leave_error(code: ErrorCode) -> messages.LeaveGroupResponse:
    return messages.LeaveGroupResponse(error_code=code)


def _leave_one(
    machine: GroupMachine,
    step: GroupStep,
    group: ClassicGroup,
    identity: messages.LeaveGroupRequest.MemberIdentity,
    left: list[ClassicMember],
    now: Now,
) -> ErrorCode:
    """Remove one member, which is added to `left`; a member id that was only handed out is not."""
    member_id = identity.member_id
    if member_id == "":
        if identity.group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members.get(identity.group_instance_id, "")
        if member_id == "":
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id not in group.pending_members:
        code = group.member_error(member_id, identity.group_instance_id)
        if code is not ErrorCode.NONE:
            return code
    if member_id in group.members:
        left.append(group.members[member_id])
    drop_member(machine, step, group, member_id, now.mono_ms)
    return ErrorCode.NONE
