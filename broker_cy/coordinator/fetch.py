"""OffsetFetch: the committed offsets of one group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker_cy.coordinator.group import Group
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.step import GroupStep
from broker_cy.coordinator.written import WrittenGroups, WrittenOffsets
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, Token
from broker_cy.core.uuid import ZERO
from broker_cy.wire import messages

NO_OFFSET = -1


def fetch_offsets(
    machine: GroupMachine,
    request: messages.OffsetFetchRequest.OffsetFetchRequestGroup,
    unwritten: Iterable[GroupStep] = (),
) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
    """Return the offsets of the requested partitions, by topic name, or of all (`topics` is None). A partition without
    an offset has offset -1 and no error, and so does every partition of an unknown group. Changes of the steps
    `unwritten`, the oldest first, are not visible.
    """
    steps = list(unwritten)
    group = WrittenGroups(machine.groups, steps).get(request.group_id)
    offsets = WrittenOffsets(machine, request.group_id, steps).topics()
    try:
        return _fetched(group, offsets, request, lambda topic, partition: False)
    except KafkaError as error:
        return _group_error(request.group_id, error.code)


def fetch_stable_offsets(
    machine: GroupMachine,
    step: GroupStep,
    request: messages.OffsetFetchRequest.OffsetFetchRequestGroup,
    token: Token,
    now: Now,
) -> None:
    """The newest offsets (KIP-447): a partition with an offset in an open transaction has UNSTABLE_OFFSET_COMMIT. As in
    Kafka, the answer waits until all earlier commits are written; one that refuses the sender does not wait.
    """

    def is_unstable(topic: str, partition: int) -> bool:
        return machine.offsets.is_pending(request.group_id, topic, partition)

    group, offsets = machine.groups.get(request.group_id), machine.offsets.topics(request.group_id)
    try:
        found = _fetched(group, offsets, request, is_unstable)
    except KafkaError as error:
        step.reply(token, _group_error(request.group_id, error.code))
        return
    step.reply_when_written(token, found, _not_fetched, request.group_id)


def _not_fetched(group_id: str, code: ErrorCode) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
    """The answer if earlier records cannot be written. Consumers before 3.9 do not expect COORDINATOR_NOT_AVAILABLE
    here: as in Kafka, NOT_COORDINATOR makes them look up the coordinator again.
    """
    is_unknown_to_clients = code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    return _group_error(group_id, ErrorCode.NOT_COORDINATOR if is_unknown_to_clients else code)


def _group_error(group_id: str, code: ErrorCode) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
    return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group_id, error_code=code)


def _fetched(
    group: Group | None,
    committed: Mapping[str, Mapping[int, CommittedOffset]],
    request: messages.OffsetFetchRequest.OffsetFetchRequestGroup,
    is_unstable: Callable[[str, int], bool],
) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
    """Raises KafkaError if the sender is refused."""
    offsets = committed if group is not None and group.shows_offsets(request) else {}
    if request.topics is None:
        topics = _all_topics(offsets, is_unstable)
        return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)
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
            partitions.append(_partition(index, offset, is_unstable(topic.name, index)))
        results.append(
            messages.OffsetFetchResponse.OffsetFetchResponseTopics(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, topics=results)


def _all_topics(
    offsets: Mapping[str, Mapping[int, CommittedOffset]], is_unstable: Callable[[str, int], bool]
) -> list[messages.OffsetFetchResponse.OffsetFetchResponseTopics]:
    return [
        messages.OffsetFetchResponse.OffsetFetchResponseTopics(
            name=name,
            topic_id=ZERO,
            partitions=[_partition(index, offset, is_unstable(name, index)) for index, offset in partitions.items()],
        )
        for name, partitions in offsets.items()
    ]


def _partition(
    index: int, offset: CommittedOffset | None, is_unstable: bool
) -> messages.OffsetFetchResponse.OffsetFetchResponsePartitions:
    if is_unstable:
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
