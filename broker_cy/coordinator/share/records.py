"""The records of share groups, as Kafka 4.3 writes them. Topics and partitions are sorted, unlike in Kafka."""

from __future__ import annotations

import struct
from typing import Any

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_partitions import SharePartitions
from broker_cy.coordinator.step import Record
from broker_cy.wire import codec, messages

StateValue = messages.ShareGroupStatePartitionMetadataValue

_KEY_VERSIONS: dict[type[Any], KeyType] = {
    messages.ShareGroupMemberMetadataKey: KeyType.SHARE_GROUP_MEMBER_METADATA,
    messages.ShareGroupMetadataKey: KeyType.SHARE_GROUP_METADATA,
    messages.ShareGroupTargetAssignmentMetadataKey: KeyType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    messages.ShareGroupTargetAssignmentMemberKey: KeyType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    messages.ShareGroupCurrentMemberAssignmentKey: KeyType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    messages.ShareGroupStatePartitionMetadataKey: KeyType.SHARE_GROUP_STATE_PARTITION_METADATA,
}


def _record(key: Any, value: Any | None) -> Record:
    """The record of a key; a value of None makes a tombstone."""
    encoded = struct.pack(">h", _KEY_VERSIONS[type(key)]) + codec.encode(key, 0)
    return Record(encoded, None if value is None else codec.encode_versioned(value, 0))


# ---- the group ----


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    value = messages.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(messages.ShareGroupMetadataKey(group_id=group_id), value)


def epoch_tombstone(group_id: str) -> Record:
    return _record(messages.ShareGroupMetadataKey(group_id=group_id), None)


def share_partitions_record(group_id: str, state: SharePartitions) -> Record:
    def infos(partitions: Assignment) -> list[StateValue.TopicPartitionsInfo]:
        return [
            StateValue.TopicPartitionsInfo(
                topic_id=topic_id, topic_name=state.names[topic_id], partitions=sorted(partitions[topic_id])
            )
            for topic_id in sorted(partitions)
        ]

    value = StateValue(
        initializing_topics=infos(state.initializing),
        initialized_topics=infos(state.initialized),
        deleting_topics=[
            StateValue.TopicInfo(topic_id=topic_id, topic_name=state.names[topic_id])
            for topic_id in sorted(state.deleting)
        ],
    )
    return _record(messages.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def share_partitions_tombstone(group_id: str) -> Record:
    return _record(messages.ShareGroupStatePartitionMetadataKey(group_id=group_id), None)


def share_partitions_of(value: bytes) -> SharePartitions:
    """Raises WireError if the value is malformed. A topic without partitions counts for nothing: Kafka writes such."""
    data, _ = codec.decode_versioned(StateValue, value)
    initializing, initialized = (
        {each.topic_id: frozenset(each.partitions) for each in infos if each.partitions}
        for infos in (data.initializing_topics, data.initialized_topics)
    )
    names = {
        each.topic_id: each.topic_name
        for infos in (data.deleting_topics, data.initialized_topics, data.initializing_topics)
        for each in infos
    }
    deleting = frozenset(each.topic_id for each in data.deleting_topics)
    kept = {topic_id: names[topic_id] for topic_id in (*initializing, *initialized, *deleting)}
    return SharePartitions(initializing, initialized, deleting, kept)


# ---- the target assignment ----


def target_epoch_record(group_id: str, epoch: int, wall_ms: int) -> Record:
    value = messages.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return _record(messages.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_epoch_tombstone(group_id: str) -> Record:
    return _record(messages.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Assignment) -> Record:
    value = messages.ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            messages.ShareGroupTargetAssignmentMemberValue.TopicPartition(
                topic_id=topic_id, partitions=sorted(target[topic_id])
            )
            for topic_id in sorted(target)
        ]
    )
    return _record(messages.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def target_of(value: bytes) -> Assignment:
    """Raises WireError if the value is malformed."""
    data, _ = codec.decode_versioned(messages.ShareGroupTargetAssignmentMemberValue, value)
    return {each.topic_id: frozenset(each.partitions) for each in data.topic_partitions if each.partitions}


# ---- members ----


def member_record(group_id: str, member: ShareMember) -> Record:
    value = messages.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return _record(messages.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def member_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def with_metadata(member: ShareMember, value: bytes) -> ShareMember:
    """The member with the metadata of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(messages.ShareGroupMemberMetadataValue, value)
    return member._replace(
        rack_id=data.rack_id,
        client_id=data.client_id,
        client_host=data.client_host,
        topics=frozenset(data.subscribed_topic_names),
    )


def current_record(group_id: str, member: ShareMember) -> Record:
    value = messages.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=[
            messages.ShareGroupCurrentMemberAssignmentValue.TopicPartitions(
                topic_id=topic_id, partitions=sorted(member.assigned[topic_id])
            )
            for topic_id in sorted(member.assigned)
        ],
    )
    return _record(messages.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def current_tombstone(group_id: str, member_id: str) -> Record:
    return _record(messages.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def with_current(member: ShareMember, value: bytes) -> ShareMember:
    """The member with the assignment of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(messages.ShareGroupCurrentMemberAssignmentValue, value)
    return member._replace(
        epoch=data.member_epoch,
        previous_epoch=data.previous_member_epoch,
        state=MemberState.of(data.state),
        assigned={each.topic_id: frozenset(each.partitions) for each in data.assigned_partitions if each.partitions},
    )


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Kafka cannot load a log that has them in another order."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def group_tombstones(group: ShareGroup) -> list[Record]:
    """Kafka cannot load a log that has them in another order: the record of the group's epoch comes last."""
    group_id = group.group_id
    return [
        *(current_tombstone(group_id, member_id) for member_id in group.members),
        *(target_tombstone(group_id, member_id) for member_id in dict.fromkeys((*group.members, *group.target))),
        target_epoch_tombstone(group_id),
        *(member_tombstone(group_id, member_id) for member_id in group.members),
        share_partitions_tombstone(group_id),
        epoch_tombstone(group_id),
    ]
