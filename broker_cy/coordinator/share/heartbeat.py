"""ShareGroupHeartbeat: a member joins, reports, learns its partitions and leaves by the same request.

The operation appends its records one after the other, and each of its parts builds on what the earlier ones have
changed: the member, the epoch of the group, the target assignment, what the member has of it, and the requests for
state of partitions that have none. Members give up partitions at once, as several may have the same ones.
"""

from __future__ import annotations

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.group import GroupTable, GroupType, not_found
from broker_cy.coordinator.modern.assigning import is_under_way
from broker_cy.coordinator.modern.epochs import update_epoch
from broker_cy.coordinator.modern.group import TopicsRead
from broker_cy.coordinator.modern.heartbeat import answer, check_size, fenced
from broker_cy.coordinator.modern.journal import trigger_of
from broker_cy.coordinator.modern.member import JOIN_EPOCH, LEAVE_EPOCH, MemberState
from broker_cy.coordinator.modern.pace import prompt_ms
from broker_cy.coordinator.modern.replay import append_current, append_member
from broker_cy.coordinator.modern.topic_values import of_each
from broker_cy.coordinator.share import assign, initialization, records, sessions
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.hooks import HookedShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.steady import steady_heartbeat
from broker_cy.coordinator.step import ClientFacts, GroupStep
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token
from broker_cy.metadata.image import MetadataImage
from broker_cy.metrics.events import Trigger
from broker_cy.wire import codec, messages

Request = messages.ShareGroupHeartbeatRequest
Response = messages.ShareGroupHeartbeatResponse


def heartbeat_error(code: ErrorCode, message: str | None = None) -> Response:
    return Response(error_code=code, error_message=message or None)


def heartbeat(
    machine: GroupTable, step: GroupStep, request: Request, client: ClientFacts, token: Token, now: Now
) -> None:
    """Handle a request that `validation` has passed."""

    def handle() -> Response:
        steady = steady_heartbeat(machine, request, client.client_id, client.host.removeprefix("/"), now)
        if steady is not None:
            return steady.answer
        if request.member_epoch == LEAVE_EPOCH:
            return _leave(machine, step, request, now)
        return _heartbeat(machine, step, request, client, now)

    answer(machine, step, request.group_id, token, handle, heartbeat_error)


# ---- join and report ----


def _heartbeat(machine: GroupTable, step: GroupStep, request: Request, client: ClientFacts, now: Now) -> Response:
    is_join = request.member_epoch == JOIN_EPOCH
    group = _group(machine, request.group_id, is_join)
    check_size(group, request.member_id, machine.settings.share.max_size)
    member = _member(group, request, is_join)
    updated = _updated(group, member, request, client)
    is_new = member.member_id not in group.members
    if updated != member:
        record = records.member_record(group.group_id, updated, request.subscribed_topic_names)
        append_member(machine, step, group, updated, record)
    trigger = None
    # Sets are compared name by name.
    if updated.topics is not member.topics and updated.topics != member.topics:
        trigger = trigger_of("join" if is_new else "subscription", updated)
    elif group.assignment_epoch >= group.epoch and has_unassigned(group, machine.image):
        trigger = Trigger("share_partitions")
    epoch = group.epoch
    update_epoch(machine, step, group, now, records.epoch_record, trigger=trigger)
    assign.update_target(machine, step, group, now)
    updated = _reconcile(machine, step, group, updated, is_bumped=group.epoch != epoch)
    if group.journal.is_open:
        group.journal.settle(machine, step, group, machine.settings.share.assignors[0], 0, now)
    sessions.set_session(machine, group.group_id, member.member_id, now)
    initialization.begin(machine, step, group, now)
    response = Response(
        member_id=updated.member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=_next_heartbeat_ms(machine, group, now),
    )
    # A member that sends its topics, or its previous epoch, may have missed its assignment. (In Kafka, the epoch alone
    # does not count: then a late duplicate of a heartbeat takes the assignment away from the member.)
    may_have_missed = request.subscribed_topic_names is not None or request.member_epoch != member.epoch
    if is_join or may_have_missed or updated.assigned != member.assigned:
        response.assignment = _assignment(updated.assigned)
    return response


def share_group(machine: GroupTable, group_id: str) -> ShareGroup:
    """Raises KafkaError(GROUP_ID_NOT_FOUND)."""
    group = machine.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        raise not_found(group, group_id, GroupType.SHARE)
    return group


def _group(machine: GroupTable, group_id: str, is_join: bool) -> ShareGroup:
    """The group; if a member joins, also a new one, which the table has with its first record."""
    if is_join and group_id not in machine.groups:
        return HookedShareGroup(group_id)
    return share_group(machine, group_id)


def _member(group: ShareGroup, request: Request, is_join: bool) -> ShareMember:
    """The member as it is known; one without records if it joins. Raises KafkaError: UNKNOWN_MEMBER_ID, or
    FENCED_MEMBER_EPOCH unless the member has this epoch or had it before: the answer with the new one may be lost.
    """
    if is_join:
        return group.members.get(request.member_id) or ShareMember(request.member_id)
    member, epoch = group.member(request.member_id), request.member_epoch
    if epoch != member.epoch and not (epoch < member.epoch and epoch == member.previous_epoch):
        raise fenced(member, epoch)
    return member


def _updated(group: ShareGroup, member: ShareMember, request: Request, client: ClientFacts) -> ShareMember:
    """The member with what the request has; a field that is missing stays."""
    names = request.subscribed_topic_names
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if names is None else group.shared_names(names),
        client_id=client.client_id,
        client_host=client.host,
    )


def _next_heartbeat_ms(machine: GroupTable, group: ShareGroup, now: Now) -> int:
    """The interval until the next heartbeat of a member: a shorter one while a large group is being assigned."""
    usual_ms = machine.share_config(group.group_id).heartbeat_interval_ms
    found = prompt_ms(group, now) if is_under_way(machine, group) else None
    return usual_ms if found is None else min(usual_ms, found)


def _assignment(assigned: Assignment) -> Response.Assignment:
    return Response.Assignment(
        topic_partitions=codec.structures(Response.TopicPartitions, assigned, of_each(assigned.values(), sorted))
    )


# ---- the group ----


def has_unassigned(group: ShareGroup, image: MetadataImage) -> bool:
    """Whether the target assignments leave out initialized partitions of subscribed topics, or have others. The result
    is kept until members, targets, topics or share partitions change; that of very many topics comes later. Topics that
    do not exist count for nothing: because of them, Kafka begins another epoch with each heartbeat.
    """
    if group.has_unassigned is None and not initialization.is_large(group):
        readable = TopicsRead(group.by_name.keys(), image).part_of(group.share_partitions.initialized)
        group.has_unassigned = initialization.leaves_out(readable, group.target.values())
    return group.has_unassigned is True


def _reconcile(
    machine: GroupTable, step: GroupStep, group: ShareGroup, member: ShareMember, *, is_bumped: bool
) -> ShareMember:
    """Give the member its part of the target assignment, in the epoch of the latter. If the group has begun an epoch,
    its older assignment may have topics that the member does not read any more.
    """
    epoch = group.assignment_epoch
    if not is_bumped and member.is_reconciled_to(epoch):
        return member
    found = member
    if is_bumped or epoch != member.epoch:
        known = group.known_read(member.member_id, member.topics)
        read = TopicsRead(member.topics, machine.image, known)
        found = member._replace(assigned=read.part_of(group.target_of(member.member_id)))
    if epoch != member.epoch:
        found = found._replace(state=MemberState.STABLE, epoch=epoch, previous_epoch=member.epoch)
    if found != member:
        append_current(machine, step, group, found, records.current_record)
        group.journal.reconciled(group, found.member_id)
    return found


# ---- leave ----


def _leave(machine: GroupTable, step: GroupStep, request: Request, now: Now) -> Response:
    group = share_group(machine, request.group_id)
    member = group.member(request.member_id)
    sessions.remove_member(machine, step, group, member.member_id, "leave", now)
    return Response(member_id=member.member_id, member_epoch=request.member_epoch)
