"""The records of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from broker_cy.coordinator.consumer.member import NOTHING_ASSIGNED, AssignedEpochs, ClassicMembership, ConsumerMember
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.modern.records import (
    GroupRecords,
    assignment_of,
    epochs_of,
    names_in_order,
    record,
    topic_partitions,
    with_epochs,
)
from broker_cy.coordinator.modern.topic_values import in_order
from broker_cy.coordinator.step import Record
from broker_cy.wire import codec, messages

RECORDS: Final = GroupRecords(
    epoch_key=messages.ConsumerGroupMetadataKey,
    epoch_value=messages.ConsumerGroupMetadataValue,
    target_epoch_key=messages.ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=messages.ConsumerGroupTargetAssignmentMetadataValue,
    target_key=messages.ConsumerGroupTargetAssignmentMemberKey,
    member_key=messages.ConsumerGroupMemberMetadataKey,
    current_key=messages.ConsumerGroupCurrentMemberAssignmentKey,
)
TargetValue = messages.ConsumerGroupTargetAssignmentMemberValue
MemberValue = messages.ConsumerGroupMemberMetadataValue
CurrentValue = messages.ConsumerGroupCurrentMemberAssignmentValue

epoch_record = RECORDS.epoch
target_epoch_record = RECORDS.target_epoch
member_tombstones = RECORDS.member_tombstones

# ---- the group ----


def partition_metadata_tombstone(group_id: str) -> Record:
    """Deletes a record of Kafka before 4.1."""
    return record(messages.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> Record:
    value = messages.ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return record(messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> Record:
    return record(messages.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


# ---- the target assignment ----


def target_record(group_id: str, member_id: str, target: Assignment) -> Record:
    value = TargetValue(topic_partitions=topic_partitions(TargetValue.TopicPartition, target))
    return RECORDS.target(group_id, member_id, value)


def target_of(value: bytes) -> Assignment:
    """Raises WireError if the value is malformed."""
    data, _ = codec.decode_versioned(TargetValue, value)
    return assignment_of(data.topic_partitions)


# ---- members ----


def member_record(group_id: str, member: ConsumerMember, given: Sequence[str] | None = None) -> Record:
    """`given` are its topics as a request has them."""
    classic = member.classic
    value = MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=names_in_order(member.topics, given),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None
        if classic is None
        else MemberValue.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                MemberValue.ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
            ],
        ),
    )
    return RECORDS.member(group_id, member.member_id, value)


def with_metadata(member: ConsumerMember, value: bytes) -> ConsumerMember:
    """The member with the metadata of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(MemberValue, value)
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


def current_record(
    group_id: str,
    member: ConsumerMember,
    assigned: codec.EncodedElements | None = None,
    revoking: codec.EncodedElements | None = None,
) -> Record:
    """`assigned` are the partitions that the member has, and `revoking` those that it has to give up, if they are
    encoded already.
    """
    # Encoded elements stand in place of lists.
    held: Any = encoded_of(member.assigned) if assigned is None else assigned
    pending: Any = encoded_of(member.revoking) if revoking is None else revoking
    value = CurrentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=held,
        partitions_pending_revocation=pending,
    )
    return RECORDS.current(group_id, member.member_id, value)


def encoded_partitions() -> codec.EncodedElements:
    """Assigned partitions of a member, for `encode_more`."""
    return codec.EncodedElements(CurrentValue.TopicPartitions, 0)


def encode_more(encoded: codec.EncodedElements, assigned: AssignedEpochs) -> None:
    encoded.add_columns(*with_epochs(in_order(assigned), assigned))


def with_current(member: ConsumerMember, value: bytes) -> ConsumerMember:
    """The member with the assignment of this value. Raises WireError if it is malformed."""
    data, _ = codec.decode_versioned(CurrentValue, value)
    return member._replace(
        epoch=data.member_epoch,
        previous_epoch=data.previous_member_epoch,
        state=MemberState.of(data.state),
        assigned=_epochs(data.assigned_partitions, data.member_epoch),
        revoking=_epochs(data.partitions_pending_revocation, data.member_epoch),
    )


def group_tombstones(group: ConsumerGroup) -> list[Record]:
    """The record of the group's epoch comes last."""
    group_id = group.group_id
    return [
        *RECORDS.tombstones(group),
        *(regex_tombstone(group_id, regex) for regex in group.resolved),
        partition_metadata_tombstone(group_id),
        RECORDS.epoch_tombstone(group_id),
    ]


def encoded_of(held: AssignedEpochs) -> codec.EncodedElements:
    encoded = encoded_partitions()
    encode_more(encoded, held)
    return encoded


def _epochs(topics: Iterable[CurrentValue.TopicPartitions], member_epoch: int) -> AssignedEpochs:
    # Most topics have one of few values, if they have few partitions.
    known: dict[tuple[tuple[int, int], ...], Mapping[int, int]] = {}
    found = {}
    for each in topics:
        if each.partitions:
            value = epochs_of(each, max(member_epoch, 0))
            found[each.topic_id] = known.setdefault(tuple(value.items()), value)
    return found or NOTHING_ASSIGNED
