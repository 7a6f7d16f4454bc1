"""The records of streams groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from broker_cy.coordinator.assignors.streams_spec import TaskAssignment, Tasks
from broker_cy.coordinator.modern.records import GroupRecords, P, epochs_of, record, with_epochs
from broker_cy.coordinator.step import Record
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.member import ActiveTasks, Endpoint, HeldTasks, MemberState, StreamsMember
from broker_cy.coordinator.streams.topology import Topology, to_value
from broker_cy.wire import codec, messages

RECORDS: Final = GroupRecords(
    epoch_key=messages.StreamsGroupMetadataKey,
    epoch_value=messages.StreamsGroupMetadataValue,
    target_epoch_key=messages.StreamsGroupTargetAssignmentMetadataKey,
    target_epoch_value=messages.StreamsGroupTargetAssignmentMetadataValue,
    target_key=messages.StreamsGroupTargetAssignmentMemberKey,
    member_key=messages.StreamsGroupMemberMetadataKey,
    current_key=messages.StreamsGroupCurrentMemberAssignmentKey,
)
MemberValue = messages.StreamsGroupMemberMetadataValue
TargetValue = messages.StreamsGroupTargetAssignmentMemberValue
CurrentValue = messages.StreamsGroupCurrentMemberAssignmentValue

target_epoch_record = RECORDS.target_epoch
member_tombstones = RECORDS.member_tombstones

# ---- the group ----


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_epoch: int, assignment_configs: Mapping[str, str]
) -> Record:
    value = messages.StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_epoch,
        last_assignment_configs=[
            messages.StreamsGroupMetadataValue.LastAssignmentConfig(key=key, value=assignment_configs[key])
            for key in sorted(assignment_configs)
        ],
    )
    return record(RECORDS.epoch_key(group_id=group_id), value)


def topology_record(group_id: str, topology: Topology) -> Record:
    return record(messages.StreamsGroupTopologyKey(group_id=group_id), to_value(topology))


def topology_tombstone(group_id: str) -> Record:
    return record(messages.StreamsGroupTopologyKey(group_id=group_id), None)


# ---- the target assignment ----


def target_record(group_id: str, member_id: str, target: TaskAssignment) -> Record:
    active, standby, warmup = (task_ids(TargetValue.TaskIds, tasks) for tasks in target)
    value = TargetValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
    return RECORDS.target(group_id, member_id, value)


def target_of(value: bytes) -> TaskAssignment:
    """Raises WireError if the value is malformed."""
    data, _ = codec.decode_versioned(TargetValue, value)
    return TaskAssignment(task_sets(data.active_tasks), task_sets(data.standby_tasks), task_sets(data.warmup_tasks))


# ---- members ----


def member_record(group_id: str, member: StreamsMember) -> Record:
    endpoint = member.endpoint
    value = MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else MemberValue.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[MemberValue.KeyValue(key=key, value=value) for key, value in member.tags],
    )
    return RECORDS.member(group_id, member.member_id, value)


def with_metadata(member: StreamsMember, value: bytes) -> StreamsMember:
    """The member with the metadata of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(MemberValue, value)
    endpoint = data.user_endpoint
    return member._replace(
        instance_id=data.instance_id,
        rack_id=data.rack_id,
        client_id=data.client_id,
        client_host=data.client_host,
        rebalance_timeout_ms=data.rebalance_timeout_ms,
        topology_epoch=data.topology_epoch,
        process_id=data.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tags=tuple(sorted((tag.key, tag.value) for tag in data.client_tags)),
    )


def current_record(group_id: str, member: StreamsMember) -> Record:
    value = CurrentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_active_ids(member.assigned.active),
        standby_tasks=_ids(member.assigned.standby),
        warmup_tasks=_ids(member.assigned.warmup),
        active_tasks_pending_revocation=_active_ids(member.revoking.active),
        standby_tasks_pending_revocation=_ids(member.revoking.standby),
        warmup_tasks_pending_revocation=_ids(member.revoking.warmup),
    )
    return RECORDS.current(group_id, member.member_id, value)


def with_current(member: StreamsMember, value: bytes) -> StreamsMember:
    """The member with the tasks of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(CurrentValue, value)
    return member._replace(
        epoch=data.member_epoch,
        previous_epoch=data.previous_member_epoch,
        state=MemberState.of(data.state),
        assigned=HeldTasks(
            _active(data.active_tasks, data.member_epoch), task_sets(data.standby_tasks), task_sets(data.warmup_tasks)
        ),
        revoking=HeldTasks(
            _active(data.active_tasks_pending_revocation, data.member_epoch),
            task_sets(data.standby_tasks_pending_revocation),
            task_sets(data.warmup_tasks_pending_revocation),
        ),
    )


def group_tombstones(group: StreamsGroup) -> list[Record]:
    group_id = group.group_id
    return [*RECORDS.tombstones(group), RECORDS.epoch_tombstone(group_id), topology_tombstone(group_id)]


def task_ids(structure: Callable[..., P], tasks: Mapping[str, Iterable[int]]) -> list[P]:
    """Tasks as a record or an answer has them."""
    return [structure(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def task_sets(ids: Iterable[Any]) -> Tasks:
    """Tasks of a record or of a request, by subtopology."""
    found: dict[str, set[int]] = {}
    for each in ids:
        if each.partitions:
            found.setdefault(each.subtopology_id, set()).update(each.partitions)
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}


def _ids(tasks: Tasks) -> list[CurrentValue.TaskIds]:
    return task_ids(CurrentValue.TaskIds, tasks)


def _active_ids(tasks: ActiveTasks) -> list[CurrentValue.TaskIds]:
    return codec.structures(CurrentValue.TaskIds, *with_epochs(sorted(tasks), tasks))


def _active(ids: Iterable[CurrentValue.TaskIds], member_epoch: int) -> ActiveTasks:
    return {each.subtopology_id: epochs_of(each, member_epoch) for each in ids if each.partitions}
