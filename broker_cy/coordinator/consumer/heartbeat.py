"""ConsumerGroupHeartbeat: a member joins, reports, learns its partitions and leaves by the same request.

The operation appends its records one after the other, and each of its parts builds on what the earlier ones have
changed: the member, the epoch of the group, the target assignment, and then the next step of this member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from uuid import UUID

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer import assign, deadlines, fencing, pace, pages, records, regex
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import (
    NO_REBALANCE_TIMEOUT_MS,
    NOTHING_ASSIGNED,
    STATIC_LEAVE_EPOCH,
    AssignedEpochs,
    ConsumerMember,
)
from broker_cy.coordinator.consumer.reconcile import Owned, Wanted, needs_pages
from broker_cy.coordinator.consumer.regex import MayDescribe, RegexChange
from broker_cy.coordinator.consumer.steady import steady_heartbeat
from broker_cy.coordinator.consumer.upgrade import upgrade
from broker_cy.coordinator.group import GroupTable, GroupType, not_found
from broker_cy.coordinator.modern import epochs
from broker_cy.coordinator.modern.group import TopicsRead
from broker_cy.coordinator.modern.heartbeat import answer, check_size, fenced
from broker_cy.coordinator.modern.journal import NOTHING_HELD, trigger_of
from broker_cy.coordinator.modern.member import JOIN_EPOCH, LEAVE_EPOCH, MemberState
from broker_cy.coordinator.modern.replay import append_current, append_member, append_target
from broker_cy.coordinator.modern.topic_values import of_each
from broker_cy.coordinator.step import ClientFacts, GroupStep
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, Token
from broker_cy.metrics.events import Trigger
from broker_cy.wire import messages

Request = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse


def heartbeat_error(code: ErrorCode, message: str | None = None) -> Response:
    return Response(error_code=code, error_message=message or None)


def heartbeat(
    machine: GroupTable,
    step: GroupStep,
    request: Request,
    client: ClientFacts,
    unique: str,
    may_describe: MayDescribe | None,
    token: Token,
    now: Now,
) -> None:
    """Handle a request that `validation.check_request` has passed. `unique` is the member id of a new member without
    one. `may_describe` are its rights on topics; None: on all.
    """

    def handle() -> Response:
        steady = steady_heartbeat(machine, request, client.client_id, client.host.removeprefix("/"), now)
        if steady is not None:
            return steady.answer
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return _leave(machine, step, request, now)
        return _heartbeat(machine, step, request, client, unique, may_describe, now)

    answer(machine, step, request.group_id, token, handle, heartbeat_error)


# ---- join and report ----


def _heartbeat(
    machine: GroupTable,
    step: GroupStep,
    request: Request,
    client: ClientFacts,
    unique: str,
    may_describe: MayDescribe | None,
    now: Now,
) -> Response:
    is_join = request.member_epoch == JOIN_EPOCH
    known = machine.groups.get(request.group_id)
    group = _group(machine, step, request.group_id, is_join, now)
    # The last generation of a classic group may have assigned nothing yet. Kafka 4.3 relies on the topic names of the
    # member that joins, and it may have an expression instead.
    is_upgraded = group.has_members and group is not known
    check_size(group, request.member_id, machine.settings.consumer.max_size)
    member_id = request.member_id or unique
    owned = _owned(request)
    member = _member(machine, step, group, request, member_id, owned, is_join, now)
    reason = "join" if member.member_id not in group.members else "upgrade" if is_upgraded else "subscription"
    updated = _updated(group, member, request, client)
    names = request.subscribed_topic_names
    change = update_member(machine, step, group, member, updated, names, may_describe, now)
    # The first record of a group creates it.
    group = consumer_group(machine, group.group_id)
    is_bumped = change.is_assignable or is_upgraded
    trigger = trigger_of(reason, updated, updated.instance_id) if is_bumped else None
    update_epoch(machine, step, group, now, trigger=trigger)
    assign.update_target(machine, step, group, now)
    updated = reconcile(machine, step, group, updated, owned, now, is_subscription_changed=change.is_changed)
    settle(machine, step, group, now)
    deadlines.set_session(machine, group, updated, now)
    response = Response(
        member_id=member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=pace.next_heartbeat_ms(machine, group, updated, now),
    )
    if is_join or _is_full(request) or updated.assigned != member.assigned:
        response.assignment = Response.Assignment(topic_partitions=pages.answered(group, updated))
    return response


def consumer_group(machine: GroupTable, group_id: str) -> ConsumerGroup:
    """Raises KafkaError(GROUP_ID_NOT_FOUND)."""
    group = machine.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        raise not_found(group, group_id, GroupType.CONSUMER)
    return group


def _group(machine: GroupTable, step: GroupStep, group_id: str, is_join: bool, now: Now) -> ConsumerGroup:
    """The group; if a member joins, a new one, which the table has with its first record, or a classic group that
    becomes a consumer group.
    """
    group = machine.groups.get(group_id)
    if is_join:
        if group is None:
            return HookedConsumerGroup(group_id)
        if isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY:
            machine.append(step, group.tombstones())
            return HookedConsumerGroup(group_id)
        if isinstance(group, ClassicGroup):
            upgrade(machine, step, group, now)
    return consumer_group(machine, group_id)


def _member(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    request: Request,
    member_id: str,
    owned: Owned,
    is_join: bool,
    now: Now,
) -> ConsumerMember:
    """The member as it is known; one without records if it joins. Raises KafkaError if the request is not its own."""
    instance_id = request.instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            return ConsumerMember(member_id) if is_join else group.member(member_id)
        _check_epoch(member, request.member_epoch, owned)
        return member
    holder = group.static_member(instance_id)
    if not is_join:
        holder = check_instance(holder, instance_id, member_id)
        _check_epoch(holder, request.member_epoch, owned)
        return holder
    if holder is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if holder.member_id == member_id and holder.classic is None and holder.epoch != STATIC_LEAVE_EPOCH:
        # It has missed the answer to its join. Kafka 4.3 refuses it until its session ends.
        return holder
    if holder.classic is None and holder.epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"the instance id {instance_id} belongs to the member {holder.member_id}, which has not left",
        )
    return replace_static(machine, step, group, holder, member_id, now)


def replace_static(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, old: ConsumerMember, member_id: str, now: Now
) -> ConsumerMember:
    """Give the place of a static member to another member id, with its partitions and its target. A member of the
    consumer protocol that has more topics than one answer gives gets them in pages, as a new one does.
    """
    new = old._replace(member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    if old.classic is None and needs_pages(old.assigned):
        new = new._replace(state=MemberState.STABLE, assigned=NOTHING_ASSIGNED, revoking=NOTHING_ASSIGNED)
        group.journal.held(old.member_id, old.held, NOTHING_HELD, now.mono_ms)
    group_id, target = group.group_id, group.target_of(old.member_id)
    # Its deadlines stay, in case this is undone; otherwise they find no member.
    machine.append(step, records.member_tombstones(group_id, old.member_id))
    append_member(machine, step, group, new, records.member_record(group_id, new))
    append_target(machine, step, group, member_id, target, records.target_record(group_id, member_id, target))
    append_current(machine, step, group, new, records.current_record)
    group.journal.replaced(old.member_id, member_id)
    return new


def check_instance(holder: ConsumerMember | None, instance_id: str, member_id: str) -> ConsumerMember:
    """Return the member of an instance id. Raises KafkaError if there is none, or if it is not `member_id`."""
    if holder is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
    if holder.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID, f"the instance id {instance_id} belongs to the member {holder.member_id}"
        )
    return holder


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """Raises KafkaError(FENCED_MEMBER_EPOCH) unless the member has this epoch. The previous one is accepted from a
    member that owns nothing but what it was assigned: the answer with the new epoch may be lost.
    """
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    if epoch == member.previous_epoch and epoch < member.epoch and _is_part(owned, member.assigned):
        return
    raise fenced(member, epoch)


def _is_part(owned: Owned, assigned: AssignedEpochs) -> bool:
    return owned is not None and all(
        partition in assigned.get(topic_id, ()) for topic_id, partitions in owned.items() for partition in partitions
    )


def _updated(group: ConsumerGroup, member: ConsumerMember, request: Request, client: ClientFacts) -> ConsumerMember:
    """The member with what the request has; a field that is missing stays."""
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_REBALANCE_TIMEOUT_MS else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else group.shared_names(names),
        regex=member.regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        client_id=client.client_id,
        client_host=client.host,
        classic=None,
    )


_topic_id = attrgetter("topic_id")


@dataclass(frozen=True, slots=True)
class _Reported:
    """The partitions of a request. Most heartbeats do not look at them, and a member may have 10,000 topics."""

    topics: list[Request.TopicPartitions]

    def __len__(self) -> int:
        return len(self.topics)

    def __iter__(self) -> Iterator[UUID]:
        return map(_topic_id, self.topics)

    def items(self) -> Iterator[tuple[UUID, list[int]]]:
        return ((each.topic_id, each.partitions) for each in self.topics)


def _owned(request: Request) -> Owned:
    return None if request.topic_partitions is None else _Reported(request.topic_partitions)


def _is_full(request: Request) -> bool:
    """Whether the member sends all it has: it does so after an error, when it may have missed its assignment."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    has_timeout = request.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT_MS
    return has_timeout and has_subscription and request.topic_partitions is not None


# ---- the group ----


class SubscriptionChange(NamedTuple):
    """The changes of a request to the subscription of its member."""

    has_names: bool
    regex: RegexChange

    @property
    def is_changed(self) -> bool:
        return self.has_names or self.regex is not RegexChange.NONE

    @property
    def is_assignable(self) -> bool:
        """Whether the topics of the new subscription are known."""
        return self.has_names or self.regex is RegexChange.RESOLVED


def update_member(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    names: Sequence[str] | None,
    may_describe: MayDescribe | None,
    now: Now,
) -> SubscriptionChange:
    """Write what has changed of a member, and follow a change of its regular expression. `names` are its topics as the
    request has them. Raises KafkaError.
    """
    if updated != member:
        append_member(machine, step, group, updated, records.member_record(group.group_id, updated, names))
    change = regex.changed(machine, step, group, member, updated, may_describe, now)
    has_names = updated.topics is not member.topics and updated.topics != member.topics
    return SubscriptionChange(has_names, change)


def update_epoch(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, now: Now, *, trigger: Trigger | None
) -> None:
    """Begin another epoch if a subscription or a subscribed topic has changed."""
    is_due = trigger is not None or group.is_refresh_due(now.mono_ms)
    epochs.update_epoch(machine, step, group, now, records.epoch_record, trigger=trigger)
    if is_due and group.has_partition_metadata:
        machine.append(step, [records.partition_metadata_tombstone(group.group_id)])


def reconcile(
    machine: GroupTable,
    step: GroupStep,
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: Owned,
    now: Now,
    *,
    is_subscription_changed: bool,
) -> ConsumerMember:
    """Move the member one step towards its target."""
    if not is_subscription_changed and member.is_reconciled_to(group.assignment_epoch):
        return member
    names = group.topics_of(member)
    wanted = Wanted(
        group.assignment_epoch,
        group.target_of(member.member_id),
        TopicsRead(names, machine.image, group.known_read(member.member_id, names)),
        group.owners,
    )
    turn = pages.next_turn(machine, step, group, member, wanted, owned, is_subscription_changed=is_subscription_changed)
    found = turn.member
    pages.keep(group, member, turn)
    if found != member:
        append_current(machine, step, group, found, turn.record)
        if found.assigned is member.assigned:
            group.journal.held(member.member_id, member.revoking, found.revoking, now.mono_ms)
        elif member.revoking or found.state is not MemberState.UNREVOKED_PARTITIONS:
            group.journal.held(member.member_id, member.held, found.held, now.mono_ms)
        group.journal.reconciled(group, member.member_id)
        if found.classic is None:
            deadlines.set_rebalance_timer(machine, group.group_id, found, now)
            if MemberState.UNREVOKED_PARTITIONS in (member.state, found.state):
                step.then(deadlines.RebalanceTimerSet(group.group_id, member.member_id))
    return found


def settle(machine: GroupTable, step: GroupStep, group: ConsumerGroup, now: Now) -> None:
    """Report the rebalance of the group if every member has its part."""
    if group.journal.is_open:
        assignor = group.preferred_assignor(machine.settings.consumer.assignors[0])
        group.journal.settle(machine, step, group, assignor, group.held_total, now)


# ---- leave ----


def _leave(machine: GroupTable, step: GroupStep, request: Request, now: Now) -> Response:
    group = consumer_group(machine, request.group_id)
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = check_instance(group.static_member(request.instance_id), request.instance_id, request.member_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        _leave_for_a_while(machine, step, group, member, now)
    else:
        fencing.fence(machine, step, group, [member.member_id], "leave", now)
    return Response(member_id=member.member_id, member_epoch=request.member_epoch)


def _leave_for_a_while(
    machine: GroupTable, step: GroupStep, group: ConsumerGroup, member: ConsumerMember, now: Now
) -> None:
    """A static member keeps its partitions until it comes back, or its session ends. The member that comes back has
    them since epoch 0, so that commits of the old member id are refused.
    """
    held = of_each(member.assigned.values(), _since_join)
    assigned = dict(zip(member.assigned, held, strict=True))
    away = member._replace(epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking=NOTHING_ASSIGNED)
    append_current(machine, step, group, away, records.current_record)
    # It keeps the others, which are noted as values.
    group.journal.held(member.member_id, member.held, member.assigned, now.mono_ms)


def _since_join(partitions: Mapping[int, int]) -> Mapping[int, int]:
    return dict.fromkeys(partitions, JOIN_EPOCH)
