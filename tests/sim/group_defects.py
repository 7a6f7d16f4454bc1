"""Defects of the group coordinator, which its simulation must find. Each is planted by replacing one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.coordinator import admin, commit
from broker_cy.coordinator.classic import join, membership, rebalance, sync
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import decode_offset_key
from broker_cy.coordinator.offsets import NO_PRODUCER_ID
from broker_cy.coordinator.records import KeyType, key_type
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.timers import OVER, Deadline, TimerKey, TimerKind, Timers
from broker_cy.coordinator.written import WrittenGroups
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import UNCHANGED
from tests.sim.defects import Patch, Planter

Machine = GroupMachine


def stale_generation_commits(patch: Patch) -> None:
    """OffsetCommit of an older generation is accepted."""
    right = commit._validate

    def validate(machine: Machine, request: Any, version: int, now: Any) -> Any:
        group = machine.classic(request.group_id)
        if group is not None and request.generation_id_or_member_epoch >= 0:
            request.generation_id_or_member_epoch = group.generation
        return right(machine, request, version, now)

    patch.setattr(commit, "_validate", validate)


def stale_generation_heartbeats(patch: Patch) -> None:
    """A heartbeat of an older generation keeps its member."""
    right = membership.heartbeat_code

    def heartbeat_code(machine: Machine, request: Any, now: Any) -> ErrorCode:
        group = machine.classic(request.group_id)
        if group is not None:
            request.generation_id = group.generation
        return right(machine, request, now)

    patch.setattr(membership, "heartbeat_code", heartbeat_code)


def stale_generation_syncs(patch: Patch) -> None:
    """SyncGroup of an older generation gets the assignment of the newest."""
    right = sync._refusal

    def refusal(group: ClassicGroup, request: Any) -> ErrorCode:
        request.generation_id = group.generation
        return right(group, request)

    patch.setattr(sync, "_refusal", refusal)


def fenced_static_member_commits(patch: Patch) -> None:
    """A member that was replaced by another one with its instance id can still commit."""
    right = commit._validate

    def validate(machine: Machine, request: Any, version: int, now: Any) -> Any:
        group = machine.classic(request.group_id)
        if group is not None:
            request.member_id = group.static_members.get(request.group_instance_id, request.member_id)
        return right(machine, request, version, now)

    patch.setattr(commit, "_validate", validate)


def expired_member_is_kept(patch: Patch) -> None:
    """A member whose session has expired stays."""
    right = rebalance.on_session_timer

    def on_session_timer(machine: Machine, step: GroupStep, group: ClassicGroup, member_id: str, now: Any) -> None:
        if member_id in group.pending_members:
            right(machine, step, group, member_id, now)

    patch.setattr(rebalance, "on_session_timer", on_session_timer)


def pending_member_is_kept(patch: Patch) -> None:
    """A member id that was assigned, but that no client joined with, stays."""
    right = rebalance.on_session_timer

    def on_session_timer(machine: Machine, step: GroupStep, group: ClassicGroup, member_id: str, now: Any) -> None:
        if member_id not in group.pending_members:
            right(machine, step, group, member_id, now)

    patch.setattr(rebalance, "on_session_timer", on_session_timer)


def session_timer_is_not_set_again(patch: Patch) -> None:
    """A heartbeat does not prolong the session."""
    patch.setattr(membership, "set_session", lambda *_: None)


def answered_join_sets_no_session(patch: Patch) -> None:
    """A member that joined and then sends nothing has no session that ends."""
    right = rebalance.set_session

    def set_session(machine: Machine, group: ClassicGroup, member: ClassicMember, now: Any, *more: Any) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE:
            right(machine, group, member, now, *more)

    patch.setattr(rebalance, "set_session", set_session)
    patch.setattr(rebalance, "on_sync_timer", lambda *_: None)


def _without_timer(patch: Patch, kind: TimerKind) -> None:
    right = Timers.set

    def set_timer(self: Timers[Any], key: Any, deadline_ms: int) -> Deadline:
        return right(self, key, deadline_ms) if key.kind is not kind else Deadline(OVER)

    patch.setattr(Timers, "set", set_timer)


def join_phase_never_ends(patch: Patch) -> None:
    """A rebalance waits forever for members that do not join."""
    _without_timer(patch, TimerKind.JOIN)


def sync_phase_never_ends(patch: Patch) -> None:
    """A rebalance waits forever for the assignment of a leader that hangs, if it sends heartbeats."""
    _without_timer(patch, TimerKind.SYNC)
    right = rebalance.on_session_timer

    def on_session_timer(machine: Machine, step: GroupStep, group: ClassicGroup, member_id: str, now: Any) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE and member_id in group.pending_sync:
            machine.timers.set(TimerKey(TimerKind.SESSION, group.group_id, member_id), now.mono_ms + 5_000)
            return
        right(machine, step, group, member_id, now)

    patch.setattr(rebalance, "on_session_timer", on_session_timer)


def two_members_own_one_partition(patch: Patch) -> None:
    """A member gets the assignment of the leader."""

    def response(group: ClassicGroup, assignment: bytes) -> Any:
        return right(group, group.members[group.leader_id or ""].assignment)

    right = sync._response
    patch.setattr(sync, "_response", response)


def two_leaders(patch: Patch) -> None:
    """Each member receives a response that says that it is the leader."""
    right = ClassicGroup.is_leader
    answers = rebalance.join_response

    def join_response(group: ClassicGroup, member_id: str, **how: Any) -> Any:
        patch.setattr(ClassicGroup, "is_leader", lambda self, asked: asked in self.members)
        try:
            return answers(group, member_id, **{**how, "leader": member_id})
        finally:
            patch.setattr(ClassicGroup, "is_leader", right)

    patch.setattr(rebalance, "join_response", join_response)


def assignment_of_the_previous_generation(patch: Patch) -> None:
    """Members keep their partitions of a generation whose leader did not assign anything to them."""
    right = sync._assign

    def assign(machine: Machine, step: GroupStep, group: ClassicGroup, request: Any) -> None:
        old = {m.member_id: m.assignment for m in group.members.values() if m.assignment}
        for each in request.assignments:
            each.assignment = old.get(each.member_id, each.assignment)
        right(machine, step, group, request)

    patch.setattr(sync, "_assign", assign)


def leaving_begins_no_rebalance(patch: Patch) -> None:
    """LeaveGroup does not begin a rebalance."""
    patch.setattr(membership, "prepare", lambda *_: None)


def session_timeout_begins_no_rebalance(patch: Patch) -> None:
    """The end of a session does not begin a rebalance."""
    right = rebalance.prepare

    def prepare(machine: Machine, step: GroupStep, group: ClassicGroup, now: Any, trigger: Any) -> None:
        if trigger.reason != "session_timeout":
            right(machine, step, group, now, trigger)

    patch.setattr(rebalance, "prepare", prepare)


def group_grows_without_limit(patch: Patch) -> None:
    """group.max.size is ignored."""
    patch.setattr(join, "_has_room", lambda machine, group, member_id: True)


def group_with_members_is_deleted(patch: Patch) -> None:
    """DeleteGroups deletes a group that has members."""
    right = admin.delete_groups

    def delete_groups(machine: Machine, step: GroupStep, group_ids: Any, token: Any, now: Any) -> None:
        group_ids = list(group_ids)
        for group_id in group_ids:
            group = machine.classic(group_id)
            if group is not None:
                rebalance.discard_group(machine, step, group, ErrorCode.UNKNOWN_MEMBER_ID)
        right(machine, step, group_ids, token, now)

    patch.setattr(admin, "delete_groups", delete_groups)


def _while_loading(patch: Patch, change: Callable[..., bool]) -> None:
    """Records that are read from the log, and not those of operations, are ignored if `change` returns False."""
    right, append = Machine.apply, Machine.append
    own = [False]

    def apply(self: Machine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Any:
        if own[0] or change(self, producer_id, key, value):
            return right(self, offset, producer_id, key, value)
        self.next_offset = offset + 1
        return UNCHANGED

    def append_own(self: Machine, *what: Any) -> None:
        own[0] = True
        append(self, *what)
        own[0] = False

    patch.setattr(Machine, "apply", apply)
    patch.setattr(Machine, "append", append_own)


def _is_commit(producer_id: int, key: bytes, value: bytes | None) -> bool:
    """Whether a record commits an offset, outside of a transaction."""
    return key_type(key) == KeyType.OFFSET_COMMIT and value is not None and producer_id == NO_PRODUCER_ID


def committed_offsets_are_lost_by_a_reload(patch: Patch) -> None:
    """A start forgets the offsets of one partition."""

    def change(machine: Machine, producer_id: int, key: bytes, value: bytes | None) -> bool:
        return not _is_commit(producer_id, key, value) or decode_offset_key(key)[2] != 1

    _while_loading(patch, change)


def older_offset_wins_a_reload(patch: Patch) -> None:
    """A start keeps the first offset that it finds."""

    def change(machine: Machine, producer_id: int, key: bytes, value: bytes | None) -> bool:
        return not _is_commit(producer_id, key, value) or machine.offsets.get(*decode_offset_key(key)) is None

    _while_loading(patch, change)


def members_are_lost_by_a_reload(patch: Patch) -> None:
    """A start does not know the groups."""

    def change(machine: Machine, producer_id: int, key: bytes, value: bytes | None) -> bool:
        return key_type(key) != KeyType.GROUP_METADATA

    _while_loading(patch, change)


def response_is_sent_before_the_write(patch: Patch) -> None:
    """Responses that depend on a record are sent before it is on disk."""
    patch.setattr(GroupStep, "reply_when_written", lambda self, token, response, *more: self.reply(token, response))


def responses_without_records_do_not_wait(patch: Patch) -> None:
    """A response without records of its own is sent while earlier records are being written."""
    right = GroupStep.reply_when_written

    def reply(self: GroupStep, token: object, response: Any, *more: Any) -> None:
        if self.records:
            right(self, token, response, *more)
        else:
            self.reply(token, response)

    patch.setattr(GroupStep, "reply_when_written", reply)


def heartbeats_do_not_wait(patch: Patch) -> None:
    """A heartbeat is answered while earlier records are being written, which may be undone."""

    def heartbeat(machine: Machine, step: GroupStep, request: Any, token: object, now: Any) -> None:
        step.reply(token, membership._heartbeat_response(membership.heartbeat_code(machine, request, now)))

    patch.setattr(membership, "heartbeat", heartbeat)


def reads_show_what_is_not_written(patch: Patch) -> None:
    """DescribeGroups and ListGroups show groups whose record is being written, and lack those that are being
    deleted.
    """
    right = WrittenGroups.__init__
    patch.setattr(WrittenGroups, "__init__", lambda self, groups, unwritten: right(self, groups, ()))


def deletions_do_not_wait(patch: Patch) -> None:
    """Expired groups are deleted while earlier deletions are still being written."""
    patch.setattr(Machine, "may_delete", lambda machine, now: True)


class Kept:
    """Undoes nothing."""

    def restore(self, machine: Any) -> None: ...


def failed_records_are_not_undone(patch: Patch) -> None:
    """Changes that could not be written stay in memory."""
    right = Machine.failed

    def failed(self: Machine, steps: Any, code: Any, now: Any) -> GroupStep:
        for step in steps:
            step.before = [Kept() for _ in step.before]
        return right(self, steps, code, now)

    patch.setattr(Machine, "failed", failed)


def replaced_join_gets_no_response(patch: Patch) -> None:
    """The earlier request of a member that joins again gets no response."""
    patch.setattr(
        join, "wait_for_join", lambda step, group, member, token: group.set_join_token(member, token) and None
    )


def rebalance_ignores_syncing_members(patch: Patch) -> None:
    """Members that wait for their assignment are not notified of the next rebalance."""

    def give_up(machine: Machine, step: GroupStep, group: ClassicGroup, code: Any, now: Any) -> None:
        for member in group.members.values():
            member.assignment = b""

    patch.setattr(rebalance, "give_up_syncs", give_up)


def deposed_coordinator_answers(patch: Patch) -> None:
    """A coordinator that is no longer the leader answers as if its records were written."""
    right = Machine.failed

    def failed(self: Machine, steps: Any, code: ErrorCode, now: Any) -> GroupStep:
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR):
            return self.written(steps, now)
        return right(self, steps, code, now)

    patch.setattr(Machine, "failed", failed)


def append_of_an_old_epoch_is_accepted(patch: Patch) -> None:
    """A coordinator writes to its partition although that is in another leader epoch."""
    patch.setattr(CoordinatorRuntime, "_check_epoch", lambda self: None)


def deposed_coordinator_forgets_who_waits(patch: Patch) -> None:
    """Members that wait for a rebalance are not told that the coordinator is another broker."""
    patch.setattr(Machine, "unload", lambda self: GroupStep())


def timed_out_records_are_undone(patch: Patch) -> None:
    """Records that are in the log, and not written in time, are undone as if they were lost."""
    patch.setattr(Machine, "timed_out", lambda self, steps, now: self.failed(steps, ErrorCode.REQUEST_TIMED_OUT, now))


def timed_out_requests_wait(patch: Patch) -> None:
    """Requests wait for their records however long those take to be written."""
    patch.setattr(Machine, "timed_out", lambda self, steps, now: GroupStep())


DEFECTS: list[Planter] = [
    timed_out_records_are_undone,
    timed_out_requests_wait,
    responses_without_records_do_not_wait,
    heartbeats_do_not_wait,
    reads_show_what_is_not_written,
    deletions_do_not_wait,
    stale_generation_commits,
    stale_generation_heartbeats,
    stale_generation_syncs,
    fenced_static_member_commits,
    expired_member_is_kept,
    pending_member_is_kept,
    session_timer_is_not_set_again,
    answered_join_sets_no_session,
    join_phase_never_ends,
    sync_phase_never_ends,
    two_members_own_one_partition,
    two_leaders,
    assignment_of_the_previous_generation,
    leaving_begins_no_rebalance,
    session_timeout_begins_no_rebalance,
    group_grows_without_limit,
    group_with_members_is_deleted,
    committed_offsets_are_lost_by_a_reload,
    older_offset_wins_a_reload,
    members_are_lost_by_a_reload,
    response_is_sent_before_the_write,
    failed_records_are_not_undone,
    replaced_join_gets_no_response,
    rebalance_ignores_syncing_members,
    deposed_coordinator_answers,
    append_of_an_old_epoch_is_accepted,
    deposed_coordinator_forgets_who_waits,
]
# Those that the world (tests/sim/world) does not find within its seeds, or not at all: its coordinators do not move.
RARE: list[Planter] = [
    timed_out_records_are_undone,
    timed_out_requests_wait,
    responses_without_records_do_not_wait,
    heartbeats_do_not_wait,
    reads_show_what_is_not_written,
    deletions_do_not_wait,
    failed_records_are_not_undone,
    rebalance_ignores_syncing_members,
    answered_join_sets_no_session,
    sync_phase_never_ends,
    deposed_coordinator_answers,
    append_of_an_old_epoch_is_accepted,
    deposed_coordinator_forgets_who_waits,
]
