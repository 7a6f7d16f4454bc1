"""OffsetCommit, TxnOffsetCommit and OffsetDelete."""

from __future__ import annotations

from collections.abc import Callable

from broker_cy.coordinator.group import CommitCheck
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import encode_offset_key, encode_offset_value
from broker_cy.coordinator.step import GroupStep, OffsetsCommitted, Place, Record
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, Token
from broker_cy.core.text import STRING_BYTES_MAX
from broker_cy.core.uuid import ZERO
from broker_cy.wire import messages

# From this version on there is a separate code for an unknown group.
VERSION_GROUP_ID_NOT_FOUND = 9
# The request's RetentionTimeMs that stands for the broker's own retention.
DEFAULT_RETENTION_MS = -1
INT64_MAX = (1 << 63) - 1


def commit_error(request: messages.OffsetCommitRequest, code: ErrorCode) -> messages.OffsetCommitResponse:
    """Return the same code for every partition of the request."""
    return messages.OffsetCommitResponse(
        topics=[
            messages.OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[_result(partition.partition_index, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def commit(
    machine: GroupMachine, step: GroupStep, request: messages.OffsetCommitRequest, version: int, token: Token, now: Now
) -> None:
    """Commit offsets. Topics have their name and their id, even if the request carried only one; they and the
    partitions exist.
    """
    try:
        check = _validate(machine, request, version, now)
        if check is not None:
            _check_partitions(machine, request, check)
    except KafkaError as error:
        step.reply(token, commit_error(request, error.code))
        return
    expire_ms = -1
    if request.retention_time_ms != DEFAULT_RETENTION_MS:
        expire_ms = min(max(now.wall_ms + request.retention_time_ms, 0), INT64_MAX)
    records: list[Record] = []
    places: list[Place] = []
    topics = []
    for topic in request.topics:
        results = []
        topic_id = topic.topic_id.bytes
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            if _is_too_large(metadata, machine.settings.offset_metadata_max):
                results.append(_result(partition.partition_index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            results.append(_result(partition.partition_index, ErrorCode.NONE))
            key = encode_offset_key(request.group_id, topic.name, partition.partition_index)
            value = encode_offset_value(
                partition.committed_offset,
                max(partition.committed_leader_epoch, -1),
                metadata,
                now.wall_ms,
                expire_ms,
                topic_id,
            )
            records.append(Record(key, value))
            places.append((request.group_id, topic.name, partition.partition_index))
        topics.append(
            messages.OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=results
            )
        )
    machine.append(step, records)
    machine.offsets.commits += len(records)
    if places:
        step.then(OffsetsCommitted(tuple(places)))
    step.reply_when_written(
        token,
        messages.OffsetCommitResponse(topics=topics),
        commit_error,
        request,
    )


def _result(index: int, code: ErrorCode) -> messages.OffsetCommitResponse.OffsetCommitResponsePartition:
    return messages.OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=index, error_code=code)


def _is_too_large(metadata: str, units_max: int) -> bool:
    # Kafka counts UTF-16 units: one or two per character.
    if 2 * len(metadata) > units_max and len(metadata.encode("utf-16-le")) // 2 > units_max:
        return True
    # The longest string of a record, even if `offset.metadata.max.bytes` allows more.
    return 3 * len(metadata) > STRING_BYTES_MAX and len(metadata.encode("utf-8")) > STRING_BYTES_MAX


def _check_partitions(machine: GroupMachine, request: messages.OffsetCommitRequest, check: CommitCheck) -> None:
    """As in Kafka, a partition that the sender may not commit in is an error for the whole request, and partitions with
    too large metadata are not checked.
    """
    units_max = machine.settings.offset_metadata_max
    for topic in request.topics:
        for partition in topic.partitions:
            if not _is_too_large(partition.committed_metadata or "", units_max):
                check(topic.name, topic.topic_id, partition.partition_index)


def _validate(
    machine: GroupMachine, request: messages.OffsetCommitRequest, version: int, now: Now
) -> CommitCheck | None:
    """Raises KafkaError if this sender may not commit; prolongs the session of a member that may. Returns the check of
    each partition, if there is one.
    """
    group = machine.groups.get(request.group_id)
    if group is not None:
        return group.check_commit(machine, request, version, now)
    if request.generation_id_or_member_epoch >= 0:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND if version >= VERSION_GROUP_ID_NOT_FOUND else ErrorCode.ILLEGAL_GENERATION
        )
    # A consumer that assigns its partitions itself, or an administrator: the record creates the group.
    return None


# ---- TxnOffsetCommit ----


def txn_commit_error(request: messages.TxnOffsetCommitRequest, code: ErrorCode) -> messages.TxnOffsetCommitResponse:
    """The same code for every partition of the request."""
    return messages.TxnOffsetCommitResponse(
        topics=[
            messages.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[_txn_result(partition.partition_index, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def commit_transactional(
    machine: GroupMachine, step: GroupStep, request: messages.TxnOffsetCommitRequest, token: Token, now: Now
) -> None:
    """Commit offsets that become visible when the producer's transaction is committed. Topics and partitions exist."""
    try:
        check = _validate_transactional(machine, request)
        if check is not None:
            _check_transactional_partitions(machine, request, check)
    except KafkaError as error:
        step.reply(token, txn_commit_error(request, error.code))
        return
    records: list[Record] = []
    topics = []
    for topic in request.topics:
        results = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            if _is_too_large(metadata, machine.settings.offset_metadata_max):
                results.append(_txn_result(partition.partition_index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            results.append(_txn_result(partition.partition_index, ErrorCode.NONE))
            leader_epoch = max(partition.committed_leader_epoch, -1)
            # Kafka stores no topic id here, and no expiry.
            value = encode_offset_value(partition.committed_offset, leader_epoch, metadata, now.wall_ms, -1, ZERO.bytes)
            records.append(Record(encode_offset_key(request.group_id, topic.name, partition.partition_index), value))
        topics.append(
            messages.TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name=topic.name, partitions=results)
        )
    machine.append(step, records, request.producer_id)
    step.reply_when_written(
        token,
        messages.TxnOffsetCommitResponse(topics=topics),
        txn_commit_error,
        request,
    )


def _txn_result(index: int, code: ErrorCode) -> messages.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition:
    return messages.TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)


def _check_transactional_partitions(
    machine: GroupMachine, request: messages.TxnOffsetCommitRequest, check: CommitCheck
) -> None:
    """The request has no ids of topics. Raises KafkaError."""
    units_max = machine.settings.offset_metadata_max
    for topic in request.topics:
        known = machine.image.topics.by_name(topic.name)
        if known is None:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        for partition in topic.partitions:
            if not _is_too_large(partition.committed_metadata or "", units_max):
                check(topic.name, known.topic_id, partition.partition_index)


def _validate_transactional(machine: GroupMachine, request: messages.TxnOffsetCommitRequest) -> CommitCheck | None:
    """Raises KafkaError if this sender may not commit. Returns the check of each partition, if there is one."""
    group = machine.groups.get(request.group_id)
    if group is not None:
        return group.check_transactional_commit(request)
    if request.generation_id >= 0:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return None


# ---- OffsetDelete ----


def delete_offsets(
    machine: GroupMachine, step: GroupStep, request: messages.OffsetDeleteRequest, token: Token, now: Now
) -> None:
    """Delete offsets of topics that the group does not read. Topics and partitions exist."""
    try:
        is_subscribed = _deletable(machine, request.group_id)
    except KafkaError as error:
        step.reply(token, messages.OffsetDeleteResponse(error_code=error.code))
        return
    records: list[Record] = []
    topics = []
    for topic in request.topics:
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed(topic.name) else ErrorCode.NONE
        results = []
        for partition in topic.partitions:
            index = partition.partition_index
            results.append(
                messages.OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            )
            if code is ErrorCode.NONE and (
                machine.offsets.get(request.group_id, topic.name, index) is not None
                or machine.offsets.is_pending(request.group_id, topic.name, index)
            ):
                records.append(Record(encode_offset_key(request.group_id, topic.name, index), None))
        topics.append(messages.OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    machine.append(step, records)
    step.reply_when_written(
        token,
        messages.OffsetDeleteResponse(topics=topics),
        _delete_error,
    )


def _delete_error(code: ErrorCode) -> messages.OffsetDeleteResponse:
    return messages.OffsetDeleteResponse(error_code=code)


def _deletable(machine: GroupMachine, group_id: str) -> Callable[[str], bool]:
    """Return the topics that the group reads. Raises KafkaError if none of its offsets may be deleted."""
    group = machine.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    group.check_offset_deletion()
    return group.is_subscribed
