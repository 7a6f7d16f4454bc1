"""JoinGroup: new and returning members, dynamic and static (KIP-345), with member ids handed out first (KIP-394)."""

from __future__ import annotations

from broker_cy.coordinator.classic import records
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.hooks import HookedGroup
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.member import ClassicMember, Protocols
from broker_cy.coordinator.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    answer_join,
    answer_sync,
    discard_group,
    drop_member,
    join_error,
    join_response,
    maybe_complete_join,
    prepare,
    rebalance_or_complete,
    set_session,
    sync_error,
    wait_for_join,
)
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer import classic_members
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.step import ClientFacts, GroupStep, append_error
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token
from broker_cy.metrics.events import StaticReplacement
from broker_cy.wire import messages

# From these versions of JoinGroup on, a member must join with the id it was given (KIP-394), and the answer can ask the
# leader to skip the assignment (KIP-814).
VERSION_MEMBER_ID_REQUIRED = 4
VERSION_SKIP_ASSIGNMENT = 9

# Member ids one group has handed out that have not joined yet. Each ends with the session timeout its JoinGroup named,
# so without a bound a client that never comes back could fill the memory.
PENDING_MEMBERS_MAX = 10_000


def join(
    machine: GroupMachine,
    step: GroupStep,
    request: messages.JoinGroupRequest,
    client: ClientFacts,
    unique: str,
    token: Token,
    now: Now,
) -> None:
    """Handle a JoinGroup. `unique` is the random part of a member id that may be created here."""
    is_unknown = request.member_id == ""
    group = machine.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup | StreamsGroup) and not group.members:
        # Without members, these groups leave their id to a classic group.
        if is_unknown:
            machine.append(step, group.tombstones())
        group = None
    is_new_group, begin = group is None, len(step.records)
    if group is None:
        if not is_unknown:
            step.reply(token, join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            return
        group = machine.add_group(HookedGroup(request.group_id, now.wall_ms))
    elif isinstance(group, ConsumerGroup):
        classic_members.join(machine, step, group, request, client, unique, token, now)
        return
    elif not isinstance(group, ClassicGroup):
        step.reply(token, join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    if not _has_room(machine, group, request.member_id):
        _evict(machine, step, group, request.member_id)
        step.reply(token, join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
    elif is_unknown:
        _join_new(machine, step, group, request, client, token, unique, now)
    else:
        _join_known(machine, step, group, request, client, token, now)
    if is_new_group and len(step.records) == begin:
        _persist_new_group(machine, step, group, now)


def _persist_new_group(machine: GroupMachine, step: GroupStep, group: ClassicGroup, now: Now) -> None:
    """A group exists once its record is in the log. If it cannot be written, the members that joined meanwhile are
    removed.
    """
    machine.append(step, [records.new_group_record(group)])
    step.then(GroupCreated(group.group_id, group.number))


class GroupCreated(NamedTuple):
    """The record of a new group."""

    group_id: str
    number: int

    def written(self, machine: GroupMachine, out: GroupStep, now: Now) -> None:
        """Nothing waits for it."""

    def failed(self, machine: GroupMachine, out: GroupStep, now: Now, code: ErrorCode) -> None:
        group = machine.same_group(self.group_id, self.number)
        if group is not None and group.record is None:
            discard_group(machine, out, group, append_error(code))


def _has_room(machine: GroupMachine, group: ClassicGroup, member_id: str) -> bool:
    """Return whether `group.max.size` allows the member."""
    limit = machine.settings.group_max_size
    if group.state is GroupState.PREPARING_REBALANCE:
        # Waiting joins are counted: the group may exceed a limit that was lowered, and loses its last members here.
        member = group.members.get(member_id)
        return (member is not None and member.join_token is not None) or group.waiting_joins < limit
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return member_id in group.members or len(group.members) < limit
    return True


def _evict(machine: GroupMachine, step: GroupStep, group: ClassicGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is not None:
        answer_join(step, group, member, join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
    drop_member(machine, step, group, member_id)


def _protocols(request: messages.JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


# ---- a member without an id ----


def _join_new(
    machine: GroupMachine,
    step: GroupStep,
    group: ClassicGroup,
    request: messages.JoinGroupRequest,
    client: ClientFacts,
    token: Token,
    unique: str,
    now: Now,
) -> None:
    instance_id = request.group_instance_id
    if not group.supports(request.protocol_type, _protocols(request)):
        step.reply(token, join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    member_id = f"{client.client_id if instance_id is None else instance_id}-{unique}"
    if instance_id is not None:
        old_id = group.static_members.get(instance_id)
        if old_id is not None:
            _replace_static(machine, step, group, request, client, token, old_id, member_id, now)
        else:
            _add(machine, step, group, request, client, token, member_id, now)
    elif client.version >= VERSION_MEMBER_ID_REQUIRED:
        if len(group.pending_members) >= PENDING_MEMBERS_MAX:
            step.reply(token, join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
            return
        group.pending_members.add(member_id)
        machine.timers.set(
            TimerKey(TimerKind.SESSION, group.group_id, member_id), now.mono_ms + request.session_timeout_ms
        )
        step.reply(token, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _add(machine, step, group, request, client, token, member_id, now)


def _add(
    machine: GroupMachine,
    step: GroupStep,
    group: ClassicGroup,
    request: messages.JoinGroupRequest,
    client: ClientFacts,
    token: Token,
    member_id: str,
    now: Now,
) -> None:
    member = ClassicMember(
        member_id,
        request.group_instance_id,
        client.client_id,
        client.host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        _protocols(request),
    )
    member.is_new = True
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.new_member_added = True
    group.add(member, token)
    set_session(machine, group, member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance_or_complete(machine, step, group, now, trigger_of("join", member))


# ---- a member with an id ----


def _join_known(
    machine: GroupMachine,
    step: GroupStep,
    group: ClassicGroup,
    request: messages.JoinGroupRequest,
    client: ClientFacts,
    token: Token,
    now: Now,
) -> None:
    member_id = request.member_id
    protocols = _protocols(request)
    if not group.supports(request.protocol_type, protocols):
        step.reply(token, join_error(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    if member_id in group.pending_members:
        if request.group_instance_id is not None:
            # Such ids are only given to dynamic members; Kafka fails on this with an internal error.
            step.reply(token, join_error(member_id, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        _add(machine, step, group, request, client, token, member_id, now)
        return
    code = group.member_error(member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        step.reply(token, join_error(member_id, code))
        return
    member = group.members[member_id]
    same = member.protocols == protocols
    if group.state is GroupState.EMPTY:
        step.reply(token, join_error(member_id, ErrorCode.UNKNOWN_MEMBER_ID))
    elif (group.state is GroupState.COMPLETING_REBALANCE and same) or (
        group.state is GroupState.STABLE and same and not group.is_leader(member_id)
    ):
        # The member may have missed the answer to its last join, and the current generation answers it. The leader of a
        # stable group, on the other hand, joins to start a new assignment.
        step.reply(token, join_response(group, member_id))
    else:
        group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        wait_for_join(step, group, member, token)
        group.journal.joined(group, member, now)
        rebalance_or_complete(machine, step, group, now, trigger_of("rejoin", member))


# ---- a static member that comes back without its id ----


def _replace_static(
    machine: GroupMachine,
    step: GroupStep,
    group: ClassicGroup,
    request: messages.JoinGroupRequest,
    client: ClientFacts,
    token: Token,
    old_id: str,
    new_id: str,
    now: Now,
) -> None:
    """Fence the holder of the old member id; the new one takes its place, without a rebalance if none is needed."""
    old = group.members[old_id]
    old_leader = group.leader_id
    before = (old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
    answer_join(step, group, old, join_error(old_id, ErrorCode.FENCED_INSTANCE_ID))
    answer_sync(step, old, sync_error(ErrorCode.FENCED_INSTANCE_ID))
    member = group.replace_static(old.instance_id or "", old_id, new_id)
    machine.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, old_id))
    set_session(machine, group, member, now)
    group.update(member, _protocols(request), request.rebalance_timeout_ms, request.session_timeout_ms)
    wait_for_join(step, group, member, token)
    group.journal.renamed(group, old_id, new_id)
    trigger = trigger_of("static_replacement", member)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be assigning partitions to the old member id at this moment.
        group.journal.joined(group, member, now)
        prepare(machine, step, group, now, trigger)
    elif group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        _persist_replacement(machine, step, group, member, client.version, old_id, old_leader, before, now)
    elif group.state is GroupState.STABLE:
        group.journal.joined(group, member, now)
        prepare(machine, step, group, now, trigger)
    else:
        group.journal.joined(group, member, now)
        maybe_complete_join(machine, step, group, now)


def _persist_replacement(
    machine: GroupMachine,
    step: GroupStep,
    group: ClassicGroup,
    member: ClassicMember,
    version: int,
    old_id: str,
    old_leader: str | None,
    before: tuple[Protocols, int, int],
    now: Now,
) -> None:
    """Write the group with the new member id, then answer with the current generation. If the write fails, restore the
    old id.
    """
    assignment = {other.member_id: other.assignment for other in group.members.values()}
    machine.append(step, [records.group_record(group, assignment)])
    step.then(Replaced(group.group_id, group.number, old_id, member.member_id, version, old_leader, before))


class Replaced(NamedTuple):
    """The record of a group that gave a static member a new member id. `before` has the member's earlier protocols,
    rebalance timeout and session timeout in ms.
    """

    group_id: str
    number: int
    old_id: str
    new_id: str
    version: int
    old_leader: str | None
    before: tuple[Protocols, int, int]

    def _found(self, machine: GroupMachine) -> tuple[ClassicGroup, ClassicMember] | None:
        """Return group and member, unless a rebalance has started meanwhile: then this join waits for its end like the
        others.
        """
        group = machine.same_group(self.group_id, self.number)
        member = None if group is None else group.members.get(self.new_id)
        if group is None or member is None or group.state is not GroupState.STABLE:
            return None
        return group, member

    def written(self, machine: GroupMachine, out: GroupStep, now: Now) -> None:
        found = self._found(machine)
        if found is None:
            return
        group, member = found
        out.events.append(
            StaticReplacement(
                group.group_id,
                group.generation,
                member.instance_id or "",
                self.old_id,
                self.new_id,
                member.client_id,
                member.client_host.removeprefix("/"),
            )
        )
        if self.version >= VERSION_SKIP_ASSIGNMENT:
            is_leader = group.is_leader(self.new_id)
            answer_join(out, group, member, join_response(group, self.new_id, skip_assignment=is_leader))
        else:
            # An older client that finds its own id as the leader's would compute a new assignment, so it gets its
            # previous id.
            answer_join(out, group, member, join_response(group, self.new_id, leader=self.old_leader))

    def failed(self, machine: GroupMachine, out: GroupStep, now: Now, code: ErrorCode) -> None:
        found = self._found(machine)
        if found is None:
            return
        group, member = found
        answer_join(out, group, member, join_error("", append_error(code)))
        group.update(member, *self.before)
        old = group.replace_static(member.instance_id or "", self.new_id, self.old_id)
        group.journal.renamed(group, self.new_id, self.old_id)
        machine.timers.cancel(TimerKey(TimerKind.SESSION, group.group_id, self.new_id))
        set_session(machine, group, old, now)

    def timed_out(self, machine: GroupMachine, out: GroupStep, now: Now) -> None:
        """As in Kafka, the member keeps its old id; the record has the new one until the next generation."""
        self.failed(machine, out, now, ErrorCode.REQUEST_TIMED_OUT)
