"""OffsetFetch: the committed offsets of one group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.offsets import CommitBefore, OffsetsBefore
from broker_cy.coordinator.step import GroupStep
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.uuid import ZERO
from broker_cy.wire import messages

NO_OFFSET = -1


class _Written:
    """The offsets of a group without the changes of steps whose records are not written yet, and may never be: in a
    cluster, another broker may coordinate the group by now.
    """

    def __init__(self, machine: GroupMachine, group_id: str, unwritten: Iterable[GroupStep]) -> None:
        """`unwritten` has the oldest step first."""
        self._offsets, self._group_id = machine.offsets, group_id
        # The offsets before the oldest change.
        self._before: dict[tuple[str, int], CommittedOffset | None] = {}
        # The partitions whose pending offsets change.
        self._changing: set[tuple[str, int]] = set()
        for step in unwritten:
            for before in step.before:
                if not isinstance(before, OffsetsBefore | CommitBefore):
                    continue
                offsets = before.offsets()
                for (of, topic, partition), offset in offsets.committed:
                    if of == group_id:
                        self._before.setdefault((topic, partition), offset)
                for _, (of, topic, partition), _ in offsets.pending:
                    if of == group_id:
                        self._changing.add((topic, partition))

    def topics(self) -> Mapping[str, Mapping[int, CommittedOffset]]:
        current = self._offsets.topics(self._group_id)
        if not self._before:
            return current
        found = {topic: dict(partitions) for topic, partitions in current.items()}
        for (topic, partition), offset in self._before.items():
            partitions = found.setdefault(topic, {})
            if offset is None:
                partitions.pop(partition, None)
            else:
                partitions[partition] = offset
        return {topic: partitions for topic, partitions in found.items() if partitions}

    def is_pending(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self._changing or self._offsets.is_pending(self._group_id, topic, partition)


def fetch_offsets(
    machine: GroupMachine,
    request: messages.OffsetFetchRequest.OffsetFetchRequestGroup,
    *,
    require_stable: bool,
    unwritten: Iterable[GroupStep] = (),
) -> messages.OffsetFetchResponse.OffsetFetchResponseGroup:
    """Return the offsets of the requested partitions, by topic name, or of all (`topics` is None). A partition without
    an offset has offset -1 and no error, and so does every partition of an unknown group. With `require_stable`, a
    partition with an offset in an open transaction has UNSTABLE_OFFSET_COMMIT. Changes of the steps `unwritten`, the
    oldest first, are not visible.
    """
    written = _Written(machine, request.group_id, unwritten)
    try:
        group = machine.groups.get(request.group_id)
        is_visible = group is not None and group.shows_offsets(request)
    except KafkaError as error:
        return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, error_code=error.code)
    if request.topics is None:
        topics = _all_topics(written, require_stable) if is_visible else []
        return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, topics=topics)
    offsets = written.topics() if is_visible else {}
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
            partitions.append(_partition(written, topic.name, index, offset, require_stable))
        results.append(
            messages.OffsetFetchResponse.OffsetFetchResponseTopics(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return messages.OffsetFetchResponse.OffsetFetchResponseGroup(group_id=request.group_id, topics=results)


def _all_topics(
    written: _Written, require_stable: bool
) -> list[messages.OffsetFetchResponse.OffsetFetchResponseTopics]:
    return [
        messages.OffsetFetchResponse.OffsetFetchResponseTopics(
            name=name,
            topic_id=ZERO,
            partitions=[
                _partition(written, name, index, offset, require_stable) for index, offset in partitions.items()
            ],
        )
        for name, partitions in written.topics().items()
    ]


def _partition(
    written: _Written,
    topic: str,
    index: int,
    offset: CommittedOffset | None,
    require_stable: bool,
) -> messages.OffsetFetchResponse.OffsetFetchResponsePartitions:
    if require_stable and written.is_pending(topic, index):
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
