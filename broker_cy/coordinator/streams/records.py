"""The records of streams groups, as Kafka 4.3 writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from broker_cy.coordinator.assignors.streams_spec import TaskAssignment, Tasks
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.step import Record
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.streams.member import ActiveTasks, Endpoint, HeldTasks, MemberState, StreamsMember
from broker_cy.coordinator.streams.topology import Topology, to_value
from broker_cy.wire import codec, messages

_KEY_VERSIONS: dict[type[Any], KeyType] = {
    messages.StreamsGroupMetadataKey: KeyType.STREAMS_GROUP_METADATA,
    messages.StreamsGroupMemberMetadataKey: KeyType.STREAMS_GROUP_MEMBER_METADATA,
    messages.StreamsGroupTargetAssignmentMetadataKey: KeyType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    messages.StreamsGroupTargetAssignmentMemberKey: KeyType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    messages.StreamsGroupCurrentMemberAssignmentKey: KeyType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    messages.StreamsGroupTopologyKey: KeyType.STREAMS_GROUP_TOPOLOGY,
}

MemberValue = messages.StreamsGroupMemberMetadataValue
TargetValue = messages.StreamsGroupTargetAssignmentMemberValue
CurrentValue = messages.StreamsGroupCurrentMemberAssignmentValue


def _record(key: Any, value: Any | None) -> Record:
    """The record of a key; a value of None makes a tombstone."""
    encoded = struct.pack(">h", _KEY_VERSIONS[type(key)]) + codec.encode(key, 0)
    return Record(encoded, None if value is None else codec.encode_versioned(value, 0))


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
    return _record(messages.StreamsGroupMetadataKey(group_id=group_id), value)


def epoch_tombstone(group_id: str) -> Record:
    return _record(messages.StreamsGroupMetadataKey(group_id=group_id), None)


def topology_record(group_id: str, topology: Topology) -> Record:
    return _record(messages.StreamsGroupTopologyKey(group_id=group_id), to_value(topology))


def topology_tombstone(group_id: str) -> Record:
    return _record(messages.StreamsGroupTopologyKey(group_id=group_id), None)


# ---- the target assignment ----


def target_epoch_record(group_id: str, epoch: int, wall_ms: int) -> Record:
    value = messages.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return _record(messages.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> Record:
    return _record(messages.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: TaskAssignment) -> Record:
    active, standby, warmup = (
        [TargetValue.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]
        for tasks in target
    )
    value = TargetValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
    return _record(messages.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


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
    return _record(messages.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


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
    key = messages.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value)


def current_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


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


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Kafka cannot load a log that has them in another order."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def group_tombstones(group: StreamsGroup) -> list[Record]:
    """Kafka cannot load a log that has them in another order: the record of the group's epoch comes after those of its
    members and of its target.
    """
    group_id = group.group_id
    return [
        *(current_tombstone(group_id, member_id) for member_id in group.members),
        *(target_tombstone(group_id, member_id) for member_id in dict.fromkeys((*group.members, *group.target))),
        target_epoch_tombstone(group_id),
        *(member_tombstone(group_id, member_id) for member_id in group.members),
        epoch_tombstone(group_id),
        topology_tombstone(group_id),
    ]


def task_sets(ids: Iterable[Any]) -> Tasks:
    """Tasks of a record or of a request, by subtopology."""
    found: dict[str, set[int]] = {}
    for each in ids:
        if each.partitions:
            found.setdefault(each.subtopology_id, set()).update(each.partitions)
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}


def _ids(tasks: Tasks) -> list[CurrentValue.TaskIds]:
    return [CurrentValue.TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _active_ids(tasks: ActiveTasks) -> list[CurrentValue.TaskIds]:
    found = []
    for subtopology in sorted(tasks):
        partitions = sorted(tasks[subtopology])
        epochs = [tasks[subtopology][partition] for partition in partitions]
        found.append(CurrentValue.TaskIds(subtopology_id=subtopology, partitions=partitions, assignment_epochs=epochs))
    return found


def _active(ids: Iterable[CurrentValue.TaskIds], member_epoch: int) -> ActiveTasks:
    """Records of Kafka before 4.3 have no assignment epochs: the member epoch stands for them."""
    found: dict[str, dict[int, int]] = {}
    for each in ids:
        epochs = each.assignment_epochs
        if epochs is not None and len(epochs) == len(each.partitions):
            partitions = dict(zip(each.partitions, epochs, strict=True))
        else:
            partitions = dict.fromkeys(each.partitions, member_epoch)
        if partitions:
            found[each.subtopology_id] = partitions
    return found
