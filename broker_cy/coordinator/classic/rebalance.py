"""The phases of a rebalance: wait for the joins, name a leader and a protocol, wait for the syncs.

EMPTY -> PREPARING_REBALANCE   a member joined; the initial delay starts and is extended while others join
STABLE, COMPLETING_REBALANCE -> PREPARING_REBALANCE   a member joined, left, expired or changed
PREPARING_REBALANCE -> COMPLETING_REBALANCE   all have joined or the rebalance timeout is over; joins are answered
COMPLETING_REBALANCE -> STABLE   the leader's assignment is on disk; syncs are answered (sync.py)
PREPARING_REBALANCE -> EMPTY                 no member is left
"""

from __future__ import annotations

from broker_cy.coordinator.classic import records
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now
from broker_cy.metrics.events import Trigger
from broker_cy.wire import messages

# A member whose first JoinGroup waits cannot send heartbeats, and its connection may be closed: it is removed after
# this. Kafka's `group.new.member.join.timeout`, which cannot be set.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


def join_error(member_id: str, code: ErrorCode) -> messages.JoinGroupResponse:
    return messages.JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None, protocol_type=None)


def sync_error(code: ErrorCode) -> messages.SyncGroupResponse:
    return messages.SyncGroupResponse(error_code=code)


def join_response(
    group: ClassicGroup, member_id: str, *, leader: str | None = None, skip_assignment: bool = False
) -> messages.JoinGroupResponse:
    """The current generation, for one member. The leader gets the list of all members. `leader` replaces the id of the
    true one.
    """
    members = []
    reported_leader = group.leader_id if leader is None else leader
    if group.is_leader(member_id) and reported_leader == member_id:
        members = [
            messages.JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.protocol_name or ""),
            )
            for member in group.members.values()
        ]
    return messages.JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=reported_leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


# ---- waiting requests ----


def answer_join(
    step: GroupStep, group: ClassicGroup, member: ClassicMember, response: messages.JoinGroupResponse
) -> bool:
    """Answer the member's JoinGroup if one waits; returns whether one did."""
    token = group.set_join_token(member, None)
    if token is None:
        return False
    step.reply(token, response)
    return True


def answer_sync(step: GroupStep, member: ClassicMember, response: messages.SyncGroupResponse) -> bool:
    """Answer the member's SyncGroup if one waits; returns whether one did."""
    token, member.sync_token = member.sync_token, None
    if token is None:
        return False
    step.reply(token, response)
    return True


def wait_for_join(step: GroupStep, group: ClassicGroup, member: ClassicMember, token: object) -> None:
    """Let a JoinGroup wait. The client has abandoned an earlier one of the same member: answer that one with a
    retriable error.
    """
    before = group.set_join_token(member, token)
    if before is not None:
        step.reply(before, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))


def set_session(
    machine: GroupTable, group: ClassicGroup, member: ClassicMember, now: Now, timeout_ms: int | None = None
) -> None:
    """Restart the member's session after a request, with its own timeout or the given one."""
    machine.timers.set(
        TimerKey(TimerKind.SESSION, group.group_id, member.member_id),
        now.mono_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms),
    )


def drop_member(
    machine: GroupTable, step: GroupStep, group: ClassicGroup, member_id: str, last_heard_ms: int | None = None
) -> None:
    """Remove a member, or a member id without a member, and answer its waiting requests with UNKNOWN_MEMBER_ID.
    `last_heard_ms` is the time of its last request (monotonic), where its session does not have it.
    """
    member = group.members.get(member_id)
    if member is not None:
        deadline = machine.timers.get(TimerKey(TimerKind.SESSION, group.group_id, member_id))
        if last_heard_ms is None and deadline is not None:
            last_heard_ms = deadline - member.session_timeout_ms
        if last_heard_ms is not None:
            group.journal.lost(group, member_id, last_heard_ms)
        answer_join(step, group, member, join_error("", ErrorCode.UNKNOWN_MEMBER_ID))
        answer_sync(step, member, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member_id)
    machine.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member_id))


def discard_group(machine: GroupTable, step: GroupStep, group: ClassicGroup, code: ErrorCode) -> None:
    """Drop the live state of a group and answer `code` to all of its waiting requests."""
    for member in group.members.values():
        answer_join(step, group, member, join_error(member.member_id, code))
        answer_sync(step, member, sync_error(code))
    for member_id in [*group.members, *group.pending_members]:
        machine.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, member_id))
    machine.timers.cancel(TimerKey(TimerKind.JOIN, group.group_id))
    machine.timers.cancel(TimerKey(TimerKind.SYNC, group.group_id))
    group.state = GroupState.DEAD
    machine.remove_group(group)


# ---- join phase ----


def rebalance_or_complete(
    machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now, trigger: Trigger
) -> None:
    """Begin a rebalance; if one is in progress, end its join phase if nothing else is missing."""
    if group.can_rebalance:
        prepare(machine, step, group, now, trigger)
    else:
        if trigger.reason == "join":
            group.journal.began(group, trigger, now)
        maybe_complete_join(machine, step, group, now)


def prepare(machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now, trigger: Trigger) -> None:
    """Start a rebalance. Members that wait for their assignment get REBALANCE_IN_PROGRESS."""
    group.journal.began(group, trigger, now)
    if group.state is GroupState.COMPLETING_REBALANCE:
        give_up_syncs(machine, step, group, ErrorCode.REBALANCE_IN_PROGRESS, now)
    group.pending_sync.clear()
    machine.timers.cancel(TimerKey(TimerKind.SYNC, group.group_id))
    is_initial = group.state is GroupState.EMPTY
    group.transition(GroupState.PREPARING_REBALANCE, now.wall_ms)
    group.new_member_added = False
    if is_initial:
        delay_ms = machine.settings.initial_rebalance_delay_ms
        _set_initial_delay(machine, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now)
    elif group.all_joined:
        complete_join(machine, step, group, now)
    else:
        set_join_timer(machine, group, now, group.rebalance_timeout_ms)


def maybe_complete_join(machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now) -> None:
    """End the join phase if all have joined; an initial rebalance ends by time alone."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.all_joined
    ):
        complete_join(machine, step, group, now)


def complete_join(machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now) -> None:
    """End the join phase: remove dynamic members that did not join again, and send the next generation to the
    others.
    """
    machine.timers.cancel(TimerKey(TimerKind.JOIN, group.group_id))
    group.initial_delay = None
    for member in list(group.members.values()):
        if member.join_token is None and not member.is_static:
            group.journal.began(group, trigger_of("join_timeout", member), now)
            drop_member(machine, step, group, member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and none has joined: wait until they join or their sessions end.
        set_join_timer(machine, group, now, group.rebalance_timeout_ms)
        return
    group.next_generation(now.wall_ms)
    group.journal.join_phase_over(now)
    if group.state is GroupState.EMPTY:
        # Nothing waits for this record. Without it, a restart would bring the last generation back, to time out there.
        machine.append(step, [records.group_record(group, {})])
        group.journal.settle(machine, step, group, now)
        return
    for member in group.members.values():
        answer_join(step, group, member, join_response(group, member.member_id))
        set_session(machine, group, member, now)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    machine.timers.set(TimerKey(TimerKind.SYNC, group.group_id), now.mono_ms + group.rebalance_timeout_ms)


def on_join_timer(machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now) -> None:
    """The join phase is over, unless it is the initial one and members came during the last delay."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.initial_delay is not None:
        delay_ms, remaining_ms = group.initial_delay
        if group.new_member_added and remaining_ms > 0:
            group.new_member_added = False
            next_delay_ms = min(machine.settings.initial_rebalance_delay_ms, remaining_ms)
            _set_initial_delay(machine, group, next_delay_ms, max(remaining_ms - delay_ms, 0), now)
            return
    complete_join(machine, step, group, now)


def _set_initial_delay(machine: GroupTable, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: Now) -> None:
    group.initial_delay = (delay_ms, remaining_ms)
    set_join_timer(machine, group, now, delay_ms)


def set_join_timer(machine: GroupTable, group: ClassicGroup, now: Now, delay_ms: int) -> None:
    machine.timers.set(TimerKey(TimerKind.JOIN, group.group_id), now.mono_ms + delay_ms)


# ---- sync phase ----


def give_up_syncs(machine: GroupTable, step: GroupStep, group: ClassicGroup, code: ErrorCode, now: Now) -> None:
    """Discard the assignments of this generation and answer `code` to the members that wait for theirs."""
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(step, member, sync_error(code)):
            set_session(machine, group, member, now)


def on_sync_timer(machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now) -> None:
    """Members that have not asked for their assignment in time are removed, and the others share again."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
        return
    late = [group.members[member_id] for member_id in group.pending_sync]
    for member in late:
        drop_member(machine, step, group, member.member_id)
    prepare(machine, step, group, now, trigger_of("sync_timeout", late[0]))


# ---- sessions ----


def on_session_timer(machine: GroupTable, step: GroupStep, group: ClassicGroup, member_id: str, now: Now) -> None:
    """Expire a member, or a member id that was handed out, without requests for its session timeout."""
    if member_id in group.pending_members:
        drop_member(machine, step, group, member_id)
        _complete_if_all_joined(machine, step, group, now)
        return
    member = group.members.get(member_id)
    if member is None or member.has_satisfied_heartbeat:
        # Its session begins again with the answer it waits for.
        return
    drop_member(machine, step, group, member_id, now.mono_ms - member.session_timeout_ms)
    trigger = trigger_of("session_timeout", member)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare(machine, step, group, now, trigger)
    else:
        group.journal.began(group, trigger, now)
        _complete_if_all_joined(machine, step, group, now)


def _complete_if_all_joined(machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now) -> None:
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
        complete_join(machine, step, group, now)
