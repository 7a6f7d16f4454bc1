"""StreamsGroupHeartbeat: a member joins, reports, learns its tasks and leaves by the same request.

The operation appends its records one after the other, and each of its parts builds on what the earlier ones have
changed: the member, the topology, the epoch of the group, the target assignment, and then the next step of this member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_cy.coordinator.assignors.streams_spec import TaskAssignment
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.group import GroupTable, GroupType, not_found
from broker_cy.coordinator.modern.epochs import newest_hash
from broker_cy.coordinator.modern.heartbeat import answer, check_size, fenced
from broker_cy.coordinator.modern.journal import trigger_of
from broker_cy.coordinator.modern.member import JOIN_EPOCH, LEAVE_EPOCH
from broker_cy.coordinator.modern.replay import append_current
from broker_cy.coordinator.step import ClientFacts, GroupStep
from broker_cy.coordinator.streams import deadlines, fencing, records
from broker_cy.coordinator.streams.configure import ConfiguredTopology, Count, configure
from broker_cy.coordinator.streams.endpoints import partitions_by_endpoint
from broker_cy.coordinator.streams.group import NO_TOPOLOGY_VALIDATED, StreamsGroup
from broker_cy.coordinator.streams.hooks import HookedStreamsGroup
from broker_cy.coordinator.streams.internal_topics import MemberRights
from broker_cy.coordinator.streams.member import (
    NO_REBALANCE_TIMEOUT_MS,
    Endpoint,
    MemberState,
    StreamsMember,
)
from broker_cy.coordinator.streams.reconcile import Owned, Wanted, reconciled
from broker_cy.coordinator.streams.replay import append_topology
from broker_cy.coordinator.streams.status import status_of
from broker_cy.coordinator.streams.steady import steady_heartbeat
from broker_cy.coordinator.streams.target import assignment_configs, update_target
from broker_cy.coordinator.streams.topology import Topology, of_request
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, Token
from broker_cy.metadata.image import MetadataImage
from broker_cy.metrics.events import Trigger
from broker_cy.wire import messages

Request = messages.StreamsGroupHeartbeatRequest
Response = messages.StreamsGroupHeartbeatResponse


def heartbeat_error(code: ErrorCode, message: str | None = None) -> Response:
    return Response(error_code=code, error_message=message or None)


def heartbeat(
    machine: GroupTable,
    step: GroupStep,
    request: Request,
    client: ClientFacts,
    rights: MemberRights,
    token: Token,
    now: Now,
) -> None:
    """Handle a request that `validation.check_request` has passed."""

    def handle() -> Response:
        steady = steady_heartbeat(machine, request, client.client_id, client.host.removeprefix("/"), now)
        if steady is not None:
            return steady.answer
        if request.member_epoch == LEAVE_EPOCH:
            return _leave(machine, step, request, now)
        return _heartbeat(machine, step, request, client, rights, now)

    answer(machine, step, request.group_id, token, handle, heartbeat_error)


def _heartbeat(
    machine: GroupTable, step: GroupStep, request: Request, client: ClientFacts, rights: MemberRights, now: Now
) -> Response:
    is_join = request.member_epoch == JOIN_EPOCH
    group = _group(machine, step, request.group_id, is_join)
    was_empty = not group.members
    owned = _owned(request)
    member = _member(machine, group, request, owned, is_join)
    updated = _updated(member, request, client)
    is_new = member.member_id not in group.members
    is_changed = is_new or updated != member
    if is_changed:
        machine.append(step, [records.member_record(group.group_id, updated)])
        # The first record of a group creates it.
        group = streams_group(machine, group.group_id)
    topology = _update_topology(machine, step, group, request)
    trigger = trigger_of("join" if is_new else "member_changed", updated, updated.instance_id) if is_changed else None
    _update_epoch(machine, step, group, topology, owned, now, trigger=trigger)
    if was_empty:
        deadlines.delay_first_assignment(machine, group.group_id, now)
    delay = update_target(machine, step, group, now)
    updated = _reconcile(machine, step, group, updated, owned, now)
    if group.journal.is_open:
        group.journal.settle(machine, step, group, None, 0, now)
    deadlines.set_session(machine, group.group_id, updated.member_id, now)
    if request.shutdown_application:
        group.shut_down(updated.member_id)
    response = Response(
        member_id=updated.member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=machine.streams_config(group.group_id).heartbeat_interval_ms,
    )
    is_given = is_join or updated.assigned != member.assigned
    if is_given and updated.endpoint is not None:
        group.endpoint_changed()
    # A member that reports its tasks without some of these may have lost the answer that gave them. Kafka 4.3 does not
    # send them again, and no thread processes them.
    if is_given or (owned is not None and not updated.assigned.is_within(owned)):
        response.active_tasks = _ids(updated.assigned.active)
        response.standby_tasks = _ids(updated.assigned.standby)
        response.warmup_tasks = _ids(updated.assigned.warmup)
    response.endpoint_information_epoch = group.endpoint_epoch
    if request.endpoint_information_epoch != group.endpoint_epoch:
        response.partitions_by_user_endpoint = partitions_by_endpoint(group, machine.image)
    response.status = [
        Response.Status(status_code=code, status_detail=detail)
        for code, detail in status_of(machine, step, group, updated, delay, rights, now)
    ]
    return response


def streams_group(machine: GroupTable, group_id: str) -> StreamsGroup:
    """Raises KafkaError(GROUP_ID_NOT_FOUND)."""
    group = machine.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        raise not_found(group, group_id, GroupType.STREAMS)
    return group


# ---- the member ----


def _group(machine: GroupTable, step: GroupStep, group_id: str, is_join: bool) -> StreamsGroup:
    """The group; if a member joins, a new one, which the table has with its first record, in place of an empty classic
    group.
    """
    group = machine.groups.get(group_id)
    if is_join and group is None:
        return HookedStreamsGroup(group_id)
    if is_join and isinstance(group, ClassicGroup) and group.state is GroupState.EMPTY:
        machine.append(step, group.tombstones())
        return HookedStreamsGroup(group_id)
    return streams_group(machine, group_id)


def _member(machine: GroupTable, group: StreamsGroup, request: Request, owned: Owned, is_join: bool) -> StreamsMember:
    """The member as it is known; one without records if it joins. Raises KafkaError if the group is full, and if the
    request is not its own.
    """
    known = group.members.get(request.member_id)
    if not is_join:
        member = group.member(request.member_id)
        _check_epoch(member, request.member_epoch, owned)
        return member
    check_size(group, request.member_id, machine.settings.streams.max_size)
    return known or StreamsMember(request.member_id)


def _check_epoch(member: StreamsMember, epoch: int, owned: Owned) -> None:
    """Raises KafkaError(FENCED_MEMBER_EPOCH) unless the member has this epoch. The previous one is accepted from a
    member that has nothing but what it was assigned: the answer with the new epoch may be lost.
    """
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and epoch < member.epoch and owned is not None and member.assigned.has_all(owned):
        return
    raise fenced(member, epoch)


def _updated(member: StreamsMember, request: Request, client: ClientFacts) -> StreamsMember:
    """The member with what the request has; a field that is missing stays. Raises KafkaError(UNKNOWN_SERVER_ERROR) if a
    client tag occurs twice, as Kafka's handler fails on it.
    """
    timeout_ms, endpoint = request.rebalance_timeout_ms, request.user_endpoint
    tags = None if request.client_tags is None else {tag.key: tag.value for tag in request.client_tags}
    if tags is not None and len(tags) < len(request.client_tags or ()):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "ClientTags has a key twice")
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_REBALANCE_TIMEOUT_MS else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tags=member.tags if tags is None else tuple(sorted(tags.items())),
        client_id=client.client_id,
        client_host=client.host,
    )


def _owned(request: Request) -> Owned:
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TaskAssignment(
        records.task_sets(request.active_tasks),
        records.task_sets(request.standby_tasks),
        records.task_sets(request.warmup_tasks),
    )


# ---- the group ----


def _update_topology(machine: GroupTable, step: GroupStep, group: StreamsGroup, request: Request) -> Topology:
    """The topology of the group, which its first member decides. Raises KafkaError(INVALID_REQUEST) for another one
    that is not older.
    """
    if request.topology is None:
        if group.topology is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the group {group.group_id} has no topology")
        return group.topology
    topology = of_request(request.topology)
    if group.topology is None:
        append_topology(machine, step, group, topology, records.topology_record(group.group_id, topology))
    elif group.topology.epoch <= topology.epoch and group.topology != topology:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "the topology differs from that of the group; changes are not supported yet"
        )
    assert group.topology is not None
    return group.topology


def _update_epoch(
    machine: GroupTable,
    step: GroupStep,
    group: StreamsGroup,
    topology: Topology,
    owned: Owned,
    now: Now,
    *,
    trigger: Trigger | None,
) -> None:
    """Compare the topology with the topics, and begin another epoch if a member, a topic or a setting has changed.
    Raises KafkaError for a topology that no topics fit, and for tasks that do not exist.
    """
    metadata_hash, configured = group.metadata_hash, group.configured
    if configured is not None and configured.topology is not topology:
        configured = None
    newest: int | None = metadata_hash
    if configured is None or group.is_refresh_due(now.mono_ms):
        newest = newest_hash(machine, step, group)
        if configured is not None and configured.metadata_hash is None and group.is_unchanged:
            # Only the hash was missing.
            configured = group.configured = configured._replace(metadata_hash=newest)
        elif configured is None or newest not in (None, configured.metadata_hash):
            group.look_up_begins()
            configured = group.configured = configure(topology, newest, _counts(group, machine.image))
        metadata_hash = metadata_hash if newest is None else newest
    validated_epoch = NO_TOPOLOGY_VALIDATED
    if configured.is_ready:
        validated_epoch = topology.epoch
        _check_tasks(configured, owned)
    configs = assignment_configs(machine, group.group_id)
    if trigger is None:
        trigger = _cause(machine, group, metadata_hash, validated_epoch, configs)
    if trigger is not None:
        after = (metadata_hash, validated_epoch, configs)
        machine.append(step, [records.epoch_record(group.group_id, group.epoch + 1, *after)])
        group.journal.epoch_began(step, group, trigger, 0, now)
    if newest is not None:
        group.refreshed(now.mono_ms)


def _cause(
    machine: GroupTable, group: StreamsGroup, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]
) -> Trigger | None:
    """Why another epoch begins without a change of a member; None if none does."""
    if metadata_hash != group.metadata_hash:
        return group.metadata_trigger(machine.topic_hashes)
    if validated_epoch != group.validated_epoch:
        return Trigger("topology")
    return Trigger("config") if configs != group.assignment_configs else None


def _counts(group: StreamsGroup, image: MetadataImage) -> Count:
    """The number of partitions of topics of the group that exist."""
    found = zip(group.required, image.topics.with_names(group.required), strict=True)
    return {name: len(topic.partitions) for name, topic in found if topic is not None}.get


def _check_tasks(configured: ConfiguredTopology, owned: Owned) -> None:
    """Raises KafkaError(INVALID_REQUEST) for a task that does not exist."""
    subtopologies = configured.subtopologies or {}
    for tasks in owned or ():
        for subtopology_id, partitions in tasks.items():
            subtopology = subtopologies.get(subtopology_id)
            if subtopology is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"the topology has no subtopology {subtopology_id}")
            for partition in partitions:
                if not 0 <= partition < subtopology.tasks:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, f"the subtopology {subtopology_id} has no task {partition}"
                    )


def _reconcile(
    machine: GroupTable, step: GroupStep, group: StreamsGroup, member: StreamsMember, owned: Owned, now: Now
) -> StreamsMember:
    """Move the member one step towards its target."""
    if member.is_reconciled_to(group.assignment_epoch):
        return member
    wanted = Wanted(group.assignment_epoch, group.target_of(member.member_id), group.active_process, group.has_copy)
    found = reconciled(member, wanted, owned)
    if found != member:
        append_current(machine, step, group, found, records.current_record)
        group.journal.reconciled(group, member.member_id)
        deadlines.set_rebalance_timer(machine, group.group_id, found, now)
        if MemberState.UNREVOKED_TASKS in (member.state, found.state):
            step.then(deadlines.RebalanceTimerSet(group.group_id, member.member_id))
    return found


# ---- the answer ----


def _ids(tasks: Mapping[str, Any]) -> list[Response.TaskIds]:
    return [
        Response.TaskIds(subtopology_id=subtopology, partitions=sorted(partitions))
        for subtopology, partitions in tasks.items()
    ]


# ---- leave ----


def _leave(machine: GroupTable, step: GroupStep, request: Request, now: Now) -> Response:
    group = streams_group(machine, request.group_id)
    if request.shutdown_application:
        group.shut_down(request.member_id)
    member = group.member(request.member_id)
    fencing.fence(machine, step, group, member.member_id, "leave", now)
    return Response(member_id=member.member_id, member_epoch=request.member_epoch, status=[])
