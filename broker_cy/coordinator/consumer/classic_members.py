"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

For such a member, JoinGroup is a heartbeat with a subscription, its generation is the epoch of the member, and
SyncGroup returns what the member has. If it has to give up or to get partitions, Heartbeat tells it to join again.
"""

from __future__ import annotations

from broker_cy.coordinator.classic.group import CONSUMER_PROTOCOL_TYPE
from broker_cy.coordinator.classic.rebalance import join_error, sync_error
from broker_cy.coordinator.consumer import assign, deadlines, downgrade, embedded, fencing, heartbeat
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import ClassicMembership, ConsumerMember, without_epochs
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.heartbeat import check_size
from broker_cy.coordinator.modern.journal import abandoned, trigger_of
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.settings import MigrationPolicy
from broker_cy.coordinator.step import ClientFacts, GroupStep, append_error
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.core.step import Now, Token
from broker_cy.wire import messages

# From this version of JoinGroup on, a member must join with the id it was given (KIP-394).
VERSION_MEMBER_ID_REQUIRED = 4

Leaving = messages.LeaveGroupRequest.MemberIdentity


# ---- JoinGroup ----


def join(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    request: messages.JoinGroupRequest,
    client: ClientFacts,
    unique: str,
    token: Token,
    now: Now,
) -> None:
    """Handle a JoinGroup to a group with members. `unique` is the id of a new member."""
    member_id = request.member_id or unique
    try:
        _check_join(machine, group, request, member_id)
        if not request.member_id and request.group_instance_id is None and client.version >= VERSION_MEMBER_ID_REQUIRED:
            step.reply(token, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
            return
        member = _joined(machine, step, group, request, client, member_id, now)
    except KafkaError as error:
        abandoned(machine, step, request.group_id)
        machine.abandon(step)
        step.reply(token, join_error(request.member_id, error.code))
        return
    assert member.classic is not None
    if isinstance(machine.groups.get(request.group_id), ConsumerGroup):
        # It is a member even if nothing can be answered in time.
        deadlines.set_session(machine, group, member, now)
    response = messages.JoinGroupResponse(
        member_id=member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0][0],
    )
    step.then(Joined(request.group_id, member_id, request.rebalance_timeout_ms, token, response))


def _check_join(machine: GroupTable, group: ConsumerGroup, request: messages.JoinGroupRequest, member_id: str) -> None:
    """Raises KafkaError."""
    if machine.settings.consumer.migration_policy is MigrationPolicy.DISABLED:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_size(group, member_id, machine.settings.consumer.max_size)
    names = [protocol.name for protocol in request.protocols]
    # All members of the classic protocol support one of them.
    is_supported = any(group.classic_protocols.get(name, 0) == group.classic_members for name in names)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not is_supported:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _joined(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    request: messages.JoinGroupRequest,
    client: ClientFacts,
    member_id: str,
    now: Now,
) -> ConsumerMember:
    """The member after its join. Raises KafkaError."""
    replaced = group.static_member(request.group_instance_id)
    is_downgrade = (
        replaced is not None
        and replaced.classic is None
        and group.classic_members == len(group.members) - 1
        and machine.settings.consumer.migration_policy.is_downgrade_enabled
        and len(group.members) <= machine.settings.group_max_size
    )
    member = _member(machine, step, group, request, member_id, now)
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    try:
        subscription = embedded.subscription_of(protocols[0][1], machine.image)
    except WireError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the subscription is malformed: {error}") from error
    topics = group.shared_names(subscription.topics)
    updated = member._replace(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=member.topics if topics == member.topics else topics,
        regex="",
        client_id=client.client_id,
        client_host=client.host,
        classic=ClassicMembership(request.session_timeout_ms, protocols),
    )
    reason = "subscription" if member.member_id in group.members else "join"
    is_bumped = heartbeat.update_member(
        machine, step, group, member, updated, subscription.topics, None, now
    ).is_changed
    trigger = trigger_of(reason, updated, updated.instance_id) if is_bumped else None
    heartbeat.update_epoch(machine, step, group, now, trigger=trigger)
    if not is_downgrade:
        assign.update_target(machine, step, group, now)
    rebalances = group.assignment_epoch < group.epoch or not all(
        each.is_reconciled_to(group.assignment_epoch) for each in group.members.values() if each.member_id != member_id
    )
    if not is_downgrade or not rebalances:
        updated = heartbeat.reconcile(
            machine, step, group, updated, subscription.owned, now, is_subscription_changed=is_bumped
        )
        heartbeat.settle(machine, step, group, now)
    if is_downgrade:
        downgrade.downgrade(machine, step, group, (), now, rebalances=rebalances)
    return updated


def _member(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    request: messages.JoinGroupRequest,
    member_id: str,
    now: Now,
) -> ConsumerMember:
    instance_id = request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    holder = group.static_member(instance_id)
    if request.member_id:
        return heartbeat.check_instance(holder, instance_id, member_id)
    if holder is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    return heartbeat.replace_static(machine, step, group, holder, member_id, now)


class Joined(NamedTuple):
    """The records of a join, and its answer. The member then has to send SyncGroup in time."""

    group_id: str
    member_id: str
    rebalance_timeout_ms: int
    token: Token
    response: messages.JoinGroupResponse

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        machine.timers.cancel(TimerKey(TimerKind.JOIN, self.group_id, self.member_id))
        group = machine.groups.get(self.group_id)
        if isinstance(group, ConsumerGroup) and self.member_id in group.members:
            deadlines.set_session(machine, group, group.members[self.member_id], now)
            key = TimerKey(TimerKind.SYNC, self.group_id, self.member_id)
            machine.timers.set(key, now.mono_ms + self.rebalance_timeout_ms)
        out.reply(self.token, self.response)

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        out.reply(self.token, join_error("", append_error(code)))

    def timed_out(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        self.failed(machine, out, now, ErrorCode.REQUEST_TIMED_OUT)


# ---- SyncGroup and Heartbeat ----


def sync(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    request: messages.SyncGroupRequest,
    token: Token,
    now: Now,
) -> None:
    try:
        member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        protocol = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            protocol[0],
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            _must_join(machine, group, member, now)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        assignment = embedded.encode_assignment(
            without_epochs(member.assigned), embedded.version_of(protocol[1]), machine.image
        )
    except KafkaError as error:
        step.reply(token, sync_error(error.code))
        return
    machine.timers.cancel(TimerKey(TimerKind.SYNC, group.group_id, member.member_id))
    deadlines.set_session(machine, group, member, now)
    response = messages.SyncGroupResponse(
        protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
    )
    step.reply_when_written(token, response, sync_error)


def heartbeat_code(
    machine: GroupTable, group: ConsumerGroup, request: messages.HeartbeatRequest, now: Now
) -> ErrorCode:
    """Extend a session. REBALANCE_IN_PROGRESS makes the member join again: for a newer assignment, to give up
    partitions, or because those that it waits for are free.
    """
    try:
        member, _ = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    except KafkaError as error:
        return error.code
    deadlines.set_session(machine, group, member, now)
    if (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
    ):
        _must_join(machine, group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still holds a partition of the member's target."""
    return any(
        partition not in member.assigned.get(topic_id, ()) and group.is_held(topic_id, partition)
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions
    )


def _must_join(machine: GroupTable, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """The member must join again within its rebalance timeout, from the first response that asks it to."""
    key = TimerKey(TimerKind.JOIN, group.group_id, member.member_id)
    if machine.timers.get(key) is None:
        machine.timers.set(key, now.mono_ms + member.rebalance_timeout_ms)


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMembership]:
    """Raises KafkaError."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = heartbeat.check_instance(group.static_member(instance_id), instance_id, member_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.epoch != generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


# ---- LeaveGroup ----


def leave(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, identities: list[Leaving], now: Now
) -> list[messages.LeaveGroupResponse.MemberResponse]:
    """Remove members of both protocols; each has a result of its own."""
    left: dict[str, None] = {}
    results = []
    for identity in identities:
        code = ErrorCode.NONE
        try:
            left[_leaving(group, identity)] = None
        except KafkaError as error:
            code = error.code
        results.append(
            messages.LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
            )
        )
    fencing.fence(machine, step, group, list(left), "leave", now)
    return results


def _leaving(group: ConsumerGroup, identity: Leaving) -> str:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id).member_id
    holder = group.static_member(instance_id)
    # An administrator removes a static member by its instance id alone.
    named = identity.member_id or ("" if holder is None else holder.member_id)
    return heartbeat.check_instance(holder, instance_id, named).member_id
