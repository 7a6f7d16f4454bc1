"""AlterShareGroupOffsets and DeleteShareGroupOffsets, for groups without members. The offsets are those of the share
coordinator: an alteration gives share partitions new state, a deletion takes the state of whole topics away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.share import state_calls
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.heartbeat import share_group
from broker_cy.coordinator.share.hooks import HookedShareGroup
from broker_cy.coordinator.share.state_calls import Asked, DeleteState, InitializeState, Outcomes
from broker_cy.coordinator.share.state_partitions import Partitions, common, united, without
from broker_cy.coordinator.share_state.answers import message_of
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator.step import CallFailed, GroupStep, Waiting
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, Token
from broker_cy.wire import messages

Altered = messages.AlterShareGroupOffsetsResponse
Deleted = messages.DeleteShareGroupOffsetsResponse
AlterTopic = messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def alter_error(code: ErrorCode, message: str | None = None) -> Altered:
    return Altered(error_code=code, error_message=message or message_of(code))


def delete_error(code: ErrorCode, message: str | None = None) -> Deleted:
    return Deleted(error_code=code, error_message=message or message_of(code))


def _check_empty(group: ShareGroup) -> None:
    """Raises KafkaError(NON_EMPTY_GROUP)."""
    if group.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)


# ---- AlterShareGroupOffsets ----


def alter(
    machine: GroupTable, step: GroupStep, group_id: str, topics: Sequence[AlterTopic], token: Token, now: Now
) -> None:
    """Set the start offsets of share partitions. A group that does not exist is created."""
    response, offsets = _alteration(machine, topics)
    names = {topic.topic_id: topic.topic_name for topic in response.responses if topic.topic_id in offsets}
    try:
        is_new = group_id not in machine.groups
        group = HookedShareGroup(group_id) if is_new else share_group(machine, group_id)
        _check_empty(group)
        _check_indexes(machine, topics)
        state_calls.check_calls(group, offsets)
    except KafkaError as error:
        step.reply(token, alter_error(error.code, error.message))
        return
    if not offsets:
        step.reply_when_written(token, response, alter_error)
        return
    partitions = {topic_id: frozenset(each) for topic_id, each in offsets.items()}
    earlier = common(partitions, group.share_partitions.initializing)
    new = group.share_partitions.began(partitions, names)
    group = state_calls.put_share_partitions(machine, step, group, new)
    group.note_request(partitions, now.mono_ms)
    asked = state_calls.begin_call(step, group, partitions)
    request = InitializeState(group_id, group.epoch, offsets)
    step.call_for(Waiting(token, alter_error), request, altered, asked, earlier, response, token)


def _check_indexes(machine: GroupTable, topics: Iterable[AlterTopic]) -> None:
    """Raises KafkaError(UNKNOWN_SERVER_ERROR), as Kafka, for a negative partition of a topic that exists."""
    for topic in topics:
        wrong = [each.partition_index for each in topic.partitions if each.partition_index < 0]
        if wrong and machine.image.topics.by_name(topic.topic_name) is not None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{topic.topic_name} has no partition {wrong[0]}")


def _alteration(machine: GroupTable, topics: Iterable[AlterTopic]) -> tuple[Altered, Mapping[UUID, Mapping[int, int]]]:
    """The response if all goes well, and the offsets to set. Partitions that do not exist have an error already."""
    response = Altered()
    offsets: dict[UUID, dict[int, int]] = {}
    for topic in topics:
        known = machine.image.topics.by_name(topic.topic_name)
        answer = Altered.AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
        if known is not None:
            answer.topic_id = known.topic_id
        for each in topic.partitions:
            code = ErrorCode.NONE if known is not None and each.partition_index in known.partitions else UNKNOWN
            if known is not None and code is ErrorCode.NONE:
                offsets.setdefault(known.topic_id, {})[each.partition_index] = each.start_offset
            answer.partitions.append(_altered(each.partition_index, code))
        response.responses.append(answer)
    return response, offsets


def _altered(
    partition: int, code: ErrorCode, message: str | None = None
) -> Altered.AlterShareGroupOffsetsResponsePartition:
    if code is not ErrorCode.NONE and not message:
        message = message_of(code)
    return Altered.AlterShareGroupOffsetsResponsePartition(
        partition_index=partition, error_code=code, error_message=message
    )


def altered(
    machine: GroupTable,
    step: GroupStep,
    asked: Asked,
    earlier: Partitions,
    response: Altered,
    token: Token,
    result: Outcomes | CallFailed,
    now: Now,
) -> None:
    """Note the offsets that are set, and answer. That they are set does not depend on the record, so neither does the
    answer: a coordinator that finds `initializing` partitions asks for their state again. The `earlier` ones may have
    the offset of an earlier request, which they keep: if this one fails, they stay `initializing`.
    """
    group = asked.ended(machine)
    if group is not None:
        done = state_calls.done_of(asked.group_id, result)
        after = group.share_partitions.ended(united(without(asked.partitions, earlier), done), done)
        state_calls.put_share_partitions(machine, step, group, after)
        state_calls.delete_fenced(step, group, state_calls.fenced_of(group.share_partitions, asked.partitions, result))
    found = Altered()
    for topic in response.responses:
        answer = Altered.AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=topic.topic_id)
        for each in topic.partitions:
            if each.error_code == ErrorCode.NONE:
                key = SharePartitionKey(asked.group_id, topic.topic_id, each.partition_index)
                each = _altered(each.partition_index, *state_calls.outcome_of(key, result))
            answer.partitions.append(each)
        found.responses.append(answer)
    step.reply_when_written(token, found, _altered_anyway, found)


def _altered_anyway(response: Altered, code: ErrorCode) -> Altered:
    return response


# ---- DeleteShareGroupOffsets ----


def delete(machine: GroupTable, step: GroupStep, group_id: str, names: Iterable[str], token: Token, now: Now) -> None:
    """Delete the state of all partitions of topics."""
    try:
        group = share_group(machine, group_id)
        _check_empty(group)
        topics, response = _deletion(machine, group, names)
        state_calls.check_calls(group, topics)
    except KafkaError as error:
        step.reply(token, delete_error(error.code, error.message))
        return
    state = group.share_partitions
    partitions = united(
        {
            topic_id: each
            for topic_id, each in united(state.initializing, state.initialized).items()
            if topic_id in topics
        },
        state_calls.existing(machine, state.deleting & topics.keys()),
    )
    if not partitions:
        step.reply_when_written(token, response, delete_error)
        return
    group = state_calls.put_share_partitions(machine, step, group, state.removing(partitions))
    asked = state_calls.begin_call(step, group, partitions)
    request = DeleteState({group_id: partitions})
    step.call_for(Waiting(token, delete_error), request, deleted, asked, topics, response, token)


def _deletion(machine: GroupTable, group: ShareGroup, names: Iterable[str]) -> tuple[Mapping[UUID, str], Deleted]:
    """The names of the topics to delete, and the response with the errors of the others. A deletion that was not
    completed is repeated.
    """
    topics: dict[UUID, str] = {}
    response = Deleted()
    state = group.share_partitions
    for name in names:
        known = machine.image.topics.by_name(name)
        if known is None:
            response.responses.append(_deleted(name, None, UNKNOWN))
        elif known.topic_id in state.initialized or known.topic_id in state.deleting:
            topics[known.topic_id] = name
        else:
            response.responses.append(_deleted(name, None, UNKNOWN, "There is no offset information to delete."))
    return topics, response


def _deleted(
    name: str, topic_id: UUID | None, code: ErrorCode, message: str | None = None
) -> Deleted.DeleteShareGroupOffsetsResponseTopic:
    if code is not ErrorCode.NONE and not message:
        message = message_of(code)
    answer = Deleted.DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=code, error_message=message)
    if topic_id is not None:
        answer.topic_id = topic_id
    return answer


def deleted(
    machine: GroupTable,
    step: GroupStep,
    asked: Asked,
    topics: Mapping[UUID, str],
    response: Deleted,
    token: Token,
    result: Outcomes | CallFailed,
    now: Now,
) -> None:
    """Note which topics have no state any more, and answer."""
    group = asked.ended(machine)
    failed = state_calls.failed_topics(asked.group_id, asked.partitions, result)
    done = [topic_id for topic_id in asked.partitions if topic_id not in failed]
    if group is not None:
        state_calls.put_share_partitions(machine, step, group, group.share_partitions.removed(done))
    found = [
        *(_deleted(topics[topic_id], topic_id, ErrorCode.NONE) for topic_id in done),
        *response.responses,
        *(_deleted(topics[topic_id], topic_id, code) for topic_id, code in failed.items()),
    ]
    step.reply_when_written(token, Deleted(responses=found), delete_error)
