"""OffsetFetch: the committed offsets of one group."""

from __future__ import annotations

from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.other_groups import GroupType
from broker_cy.coordinator.shard import GroupShard
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.uuid import ZERO
from broker_cy.wire import messages

NO_OFFSET = -1


def fetch_offsets(
    machine: GroupShard, request: messages.OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool
) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
    """Return the offsets of the requested partitions, by topic name, or of all (`topics` is None). A partition without
    an offset has offset -1 and no error, and so does every partition of an unknown group. With `require_stable`, a
    partition with an offset in an open transaction has UNSTABLE_OFFSET_COMMIT.
    """
    try:
        is_visible = _is_visible(machine, request)
    except KafkaError as error:
        return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)
    if request.topics is None:
        topics = _all_topics(machine, request.group_id, require_stable) if is_visible else []
        return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)
    offsets = machine.offsets.topics(request.group_id) if is_visible else {}
    results = []
    for topic in request.topics:
        found = offsets.get(topic.name, {})
        topic_id = topic.topic_id.bytes
        partitions = []
        for index in topic.partition_indexes:
            offset = found.get(index)
            if offset is not None and not offset.is_of_topic(topic_id):
                # Committed for a topic of the same name that has been deleted since.
                offset = None
            partitions.append(_partition(machine, request.group_id, topic.name, index, offset, require_stable))
        results.append(
            messages.OffsetFetchResponse.OffsetFetchResponseTopics(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, topics=results)


def _all_topics(
    machine: GroupShard, group_id: str, require_stable: bool
) -> list[messages.OffsetFetchResponse.OffsetFetchResponseTopics]:
    return [
        messages.OffsetFetchResponse.OffsetFetchResponseTopics(
            name=name,
            topic_id=ZERO,
            partitions=[
                _partition(machine, group_id, name, index, offset, require_stable)
                for index, offset in partitions.items()
            ],
        )
        for name, partitions in machine.offsets.topics(group_id).items()
    ]


def _partition(
    machine: GroupShard,
    group_id: str,
    topic: str,
    index: int,
    offset: CommittedOffset | None,
    require_stable: bool,
) -> messages.OffsetFetchResponse.OffsetFetchResponsePartitions:
    if require_stable and machine.offsets.is_pending(group_id, topic, index):
        return messages.OffsetFetchResponse.OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=NO_OFFSET,
            committed_leader_epoch=-1,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    if offset is None:
        return messages.OffsetFetchResponse.OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=-1, metadata=""
        )
    return messages.OffsetFetchResponse.OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.committed_offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _is_visible(machine: GroupShard, request: messages.OffsetFetchRequest.OffsetFetchRequestGroup) -> bool:
    """Return whether the group's offsets may be returned. Raises KafkaError if the sender is refused.

    Only groups of the other types check the member (from version 9 on), and those have no live members on this broker.
    """
    other = machine.other_groups.get(request.group_id)
    if other is None:
        return request.group_id in machine.groups
    if other.group_type is GroupType.SHARE:
        return False
    if request.member_id is not None or request.member_epoch >= 0:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return True
