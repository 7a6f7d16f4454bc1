"""SyncGroup: the leader sends the assignment, and the other members receive theirs."""

from __future__ import annotations

from broker_cy.coordinator.classic import records
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.rebalance import answer_sync, give_up_syncs, prepare, set_session, sync_error
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer import classic_members
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.step import GroupStep, append_error
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token
from broker_cy.wire import messages


def sync(machine: GroupMachine, step: GroupStep, request: messages.SyncGroupRequest, token: Token, now: Now) -> None:
    known = machine.groups.get(request.group_id)
    if isinstance(known, ConsumerGroup):
        classic_members.sync(machine, step, known, request, token, now)
        return
    group = machine.classic(request.group_id)
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


def _synced(machine: GroupMachine, group: ClassicGroup, member_id: str) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        machine.timers.cancel(TimerKey(TimerKind.SYNC, group.group_id))


def _response(group: ClassicGroup, assignment: bytes) -> messages.SyncGroupResponse:
    return messages.SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def _assign(machine: GroupMachine, step: GroupStep, group: ClassicGroup, request: messages.SyncGroupRequest) -> None:
    """Write the generation with its assignment. Once that is on disk, the group is stable and all members get their
    answers.
    """
    assignment = {item.member_id: bytes(item.assignment) for item in request.assignments}
    machine.append(step, [records.group_record(group, assignment)])
    step.then(Assigned(group.group_id, group.number, group.generation, assignment))


class Assigned(NamedTuple):
    """The record of a generation with its assignment, by member id."""

    group_id: str
    number: int
    generation: int
    assignment: dict[str, bytes]

    def _group(self, machine: GroupMachine) -> ClassicGroup | None:
        """Return the group if it still waits for this record: another member may have joined or one may have been lost
        while it was written.
        """
        group = machine.same_group(self.group_id, self.number)
        if group is None or group.state is not GroupState.COMPLETING_REBALANCE or group.generation != self.generation:
            return None
        return group

    def written(self, machine: GroupMachine, out: GroupStep, now: Now) -> None:
        group = self._group(machine)
        if group is None:
            return
        group.transition(GroupState.STABLE, now.wall_ms)
        for member in group.members.values():
            member.assignment = self.assignment.get(member.member_id, b"")
            if answer_sync(out, member, _response(group, member.assignment)):
                # Sessions that ended while the answer was awaited were skipped, and have no deadline left.
                set_session(machine, group, member, now)
        group.journal.settle(machine, out, group, now)

    def failed(self, machine: GroupMachine, out: GroupStep, now: Now, code: ErrorCode) -> None:
        group = self._group(machine)
        if group is not None:
            give_up_syncs(machine, out, group, append_error(code), now)
            prepare(machine, out, group, now, trigger_of("write_failed"))

    def timed_out(self, machine: GroupMachine, out: GroupStep, now: Now) -> None:
        """As in Kafka, the members share the partitions again; a later generation replaces the record."""
        self.failed(machine, out, now, ErrorCode.REQUEST_TIMED_OUT)
