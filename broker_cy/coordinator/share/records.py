"""The records of share groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.modern.records import (
    GroupRecords,
    assignment_of,
    names_in_order,
    record,
    topic_partitions,
    values_of,
)
from broker_cy.coordinator.modern.topic_values import in_order, of_each
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_partitions import SharePartitions
from broker_cy.coordinator.step import Record
from broker_cy.wire import codec, messages

RECORDS: Final = GroupRecords(
    epoch_key=messages.ShareGroupMetadataKey,
    epoch_value=messages.ShareGroupMetadataValue,
    target_epoch_key=messages.ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=messages.ShareGroupTargetAssignmentMetadataValue,
    target_key=messages.ShareGroupTargetAssignmentMemberKey,
    member_key=messages.ShareGroupMemberMetadataKey,
    current_key=messages.ShareGroupCurrentMemberAssignmentKey,
)
StateValue = messages.ShareGroupStatePartitionMetadataValue
TargetValue = messages.ShareGroupTargetAssignmentMemberValue
CurrentValue = messages.ShareGroupCurrentMemberAssignmentValue

epoch_record = RECORDS.epoch
epoch_tombstone = RECORDS.epoch_tombstone
target_epoch_record = RECORDS.target_epoch
member_tombstones = RECORDS.member_tombstones

# ---- the group ----


def share_partitions_record(group_id: str, state: SharePartitions) -> Record:
    def infos(partitions: Assignment) -> Any:
        topic_ids = in_order(partitions)
        names = map(state.names.__getitem__, topic_ids)
        # Encoded elements stand in place of a list.
        encoded = codec.EncodedElements(StateValue.TopicPartitionsInfo, 0)
        encoded.add_columns(topic_ids, names, of_each(values_of(topic_ids, partitions), sorted))
        return encoded

    value = StateValue(
        initializing_topics=infos(state.initializing),
        initialized_topics=infos(state.initialized),
        deleting_topics=[
            StateValue.TopicInfo(topic_id=topic_id, topic_name=state.names[topic_id])
            for topic_id in in_order(state.deleting)
        ],
    )
    return record(messages.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def share_partitions_tombstone(group_id: str) -> Record:
    return record(messages.ShareGroupStatePartitionMetadataKey(group_id=group_id), None)


def share_partitions_of(value: bytes) -> SharePartitions:
    """Raises WireError if the value is malformed. A topic without partitions counts for nothing: Kafka writes such."""
    data, _ = codec.decode_versioned(StateValue, value)
    initializing, initialized = (assignment_of(infos) for infos in (data.initializing_topics, data.initialized_topics))
    names = {
        each.topic_id: each.topic_name
        for infos in (data.deleting_topics, data.initialized_topics, data.initializing_topics)
        for each in infos
    }
    deleting = frozenset(each.topic_id for each in data.deleting_topics)
    topic_ids = frozenset(initializing).union(initialized, deleting)
    if len(topic_ids) < len(names):
        names = {topic_id: names[topic_id] for topic_id in topic_ids}
    return SharePartitions(initializing, initialized, deleting, names)


# ---- the target assignment ----


def target_record(group_id: str, member_id: str, target: Assignment) -> Record:
    value = TargetValue(topic_partitions=topic_partitions(TargetValue.TopicPartition, target))
    return RECORDS.target(group_id, member_id, value)


def target_of(value: bytes) -> Assignment:
    """Raises WireError if the value is malformed."""
    data, _ = codec.decode_versioned(TargetValue, value)
    return assignment_of(data.topic_partitions)


# ---- members ----


def member_record(group_id: str, member: ShareMember, given: Sequence[str] | None = None) -> Record:
    """`given` are its topics as a request has them."""
    value = messages.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=names_in_order(member.topics, given),
    )
    return RECORDS.member(group_id, member.member_id, value)


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
    value = CurrentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=topic_partitions(CurrentValue.TopicPartitions, member.assigned),
    )
    return RECORDS.current(group_id, member.member_id, value)


def with_current(member: ShareMember, value: bytes) -> ShareMember:
    """The member with the assignment of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(CurrentValue, value)
    return member._replace(
        epoch=data.member_epoch,
        previous_epoch=data.previous_member_epoch,
        state=MemberState.of(data.state),
        assigned=assignment_of(data.assigned_partitions),
    )


def group_tombstones(group: ShareGroup) -> list[Record]:
    """The record of the group's epoch comes last."""
    group_id = group.group_id
    return [*RECORDS.tombstones(group), share_partitions_tombstone(group_id), epoch_tombstone(group_id)]
