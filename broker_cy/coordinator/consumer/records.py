"""The records of consumer groups, as Kafka 4.3 writes them. Partitions are sorted; Kafka has them in no order."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from broker_cy.coordinator.consumer.member import NOTHING_ASSIGNED, AssignedEpochs, ClassicMembership, ConsumerMember
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.step import Record
from broker_cy.wire import codec, messages

_KEY_VERSIONS: dict[type[Any], KeyType] = {
    messages.ConsumerGroupMetadataKey: KeyType.CONSUMER_GROUP_METADATA,
    messages.ConsumerGroupPartitionMetadataKey: KeyType.CONSUMER_GROUP_PARTITION_METADATA,
    messages.ConsumerGroupMemberMetadataKey: KeyType.CONSUMER_GROUP_MEMBER_METADATA,
    messages.ConsumerGroupTargetAssignmentMetadataKey: KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    messages.ConsumerGroupTargetAssignmentMemberKey: KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    messages.ConsumerGroupCurrentMemberAssignmentKey: KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    messages.ConsumerGroupRegularExpressionKey: KeyType.CONSUMER_GROUP_REGULAR_EXPRESSION,
}


def _record(key: Any, value: Any | None) -> Record:
    """The record of a key; a value of None makes a tombstone."""
    encoded = struct.pack(">h", _KEY_VERSIONS[type(key)]) + codec.encode(key, 0)
    return Record(encoded, None if value is None else codec.encode_versioned(value, 0))


# ---- the group ----


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    value = messages.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(messages.ConsumerGroupMetadataKey(group_id=group_id), value)


def epoch_tombstone(group_id: str) -> Record:
    return _record(messages.ConsumerGroupMetadataKey(group_id=group_id), None)


def partition_metadata_tombstone(group_id: str) -> Record:
    """Deletes a record of Kafka before 4.1."""
    return _record(messages.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    value = messages.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return _record(messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> Record:
    return _record(messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


# ---- the target assignment ----


def target_epoch_record(group_id: str, epoch: int, wall_ms: int) -> Record:
    value = messages.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return _record(messages.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> Record:
    return _record(messages.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Assignment) -> Record:
    value = messages.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            messages.ConsumerGroupTargetAssignmentMemberValue.TopicPartition(
                topic_id=topic_id, partitions=sorted(target[topic_id])
            )
            for topic_id in _ordered(target)
        ]
    )
    return _record(messages.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def target_of(value: bytes) -> Assignment:
    """Raises WireError if the value is malformed."""
    data, _ = codec.decode_versioned(messages.ConsumerGroupTargetAssignmentMemberValue, value)
    return {each.topic_id: frozenset(each.partitions) for each in data.topic_partitions if each.partitions}


# ---- members ----


def member_record(group_id: str, member: ConsumerMember) -> Record:
    classic = member.classic
    value = messages.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None
        if classic is None
        else messages.ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                messages.ConsumerGroupMemberMetadataValue.ClassicProtocol(name=name, metadata=metadata)
                for name, metadata in classic.protocols
            ],
        ),
    )
    return _record(messages.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def with_metadata(member: ConsumerMember, value: bytes) -> ConsumerMember:
    """The member with the metadata of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(messages.ConsumerGroupMemberMetadataValue, value)
    classic = data.classic_member_metadata
    if classic is not None and not classic.supported_protocols:
        # The default of the field is an empty structure: the record has none.
        classic = None
    return member._replace(
        instance_id=data.instance_id,
        rack_id=data.rack_id,
        client_id=data.client_id,
        client_host=data.client_host,
        topics=frozenset(data.subscribed_topic_names),
        regex=data.subscribed_topic_regex,
        rebalance_timeout_ms=data.rebalance_timeout_ms,
        assignor=data.server_assignor,
        classic=None
        if classic is None
        else ClassicMembership(
            classic.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
        ),
    )


def current_record(group_id: str, member: ConsumerMember) -> Record:
    value = messages.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_partitions(member.assigned),
        partitions_pending_revocation=_partitions(member.revoking),
    )
    key = messages.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, value)


def current_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def with_current(member: ConsumerMember, value: bytes) -> ConsumerMember:
    """The member with the assignment of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(messages.ConsumerGroupCurrentMemberAssignmentValue, value)
    return member._replace(
        epoch=data.member_epoch,
        previous_epoch=data.previous_member_epoch,
        state=MemberState.of(data.state),
        assigned=_epochs(data.assigned_partitions, data.member_epoch),
        revoking=_epochs(data.partitions_pending_revocation, data.member_epoch),
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Kafka cannot load a log that has them in another order."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def group_tombstones(group: ConsumerGroup) -> list[Record]:
    """Kafka cannot load a log that has them in another order: the record of the group's epoch comes last."""
    group_id = group.group_id
    return [
        *(current_tombstone(group_id, member_id) for member_id in group.members),
        *(target_tombstone(group_id, member_id) for member_id in dict.fromkeys((*group.members, *group.target))),
        target_epoch_tombstone(group_id),
        *(member_tombstone(group_id, member_id) for member_id in group.members),
        *(regex_tombstone(group_id, regex) for regex in group.resolved),
        partition_metadata_tombstone(group_id),
        epoch_tombstone(group_id),
    ]


def _partitions(
    held: AssignedEpochs,
) -> list[messages.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    found = []
    for topic_id in _ordered(held):
        partitions = sorted(held[topic_id])
        epochs = [held[topic_id][partition] for partition in partitions]
        found.append(
            messages.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions(
                topic_id=topic_id, partitions=partitions, assignment_epochs=epochs
            )
        )
    return found


def _epochs(
    topics: Iterable[messages.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions], member_epoch: int
) -> AssignedEpochs:
    """Records of Kafka before 4.3 have no assignment epochs: the member epoch stands for them."""
    found: dict[UUID, dict[int, int]] = {}
    for each in topics:
        epochs = each.assignment_epochs
        if epochs is not None and len(epochs) == len(each.partitions):
            partitions = dict(zip(each.partitions, epochs, strict=True))
        else:
            partitions = dict.fromkeys(each.partitions, max(member_epoch, 0))
        if partitions:
            found[each.topic_id] = partitions
    return found or NOTHING_ASSIGNED


def _ordered(partitions: Iterable[UUID]) -> list[UUID]:
    return sorted(partitions)
