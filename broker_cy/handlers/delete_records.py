"""DeleteRecords, versions 0 to 2 (KIP-107): moves the log start offset; -1 means the high watermark.

The answer waits until all active replicas have deleted the same records as the leader, at most `timeout_ms`; its low
watermark is the smallest log start offset of them. Whole segments below the log start are deleted after
file.delete.delay.ms.
Omissions: none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.control.image.metadata_view import absent_partition_error
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metrics.events import RecordsDeleted
from broker_cy.replica.replica import Role
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition

HIGH_WATERMARK = -1
Result = messages.DeleteRecordsResponse.DeleteRecordsPartitionResult


class Waiting(NamedTuple):
    """Records that are deleted here, and not yet on all replicas."""

    partition: Partition
    offset: int
    result: Result


@handler(ApiKey.DELETE_RECORDS)
async def delete_records(ctx: RequestContext, request: messages.DeleteRecordsRequest) -> messages.DeleteRecordsResponse:
    allowed = ctx.allowed(Operation.DELETE, ResourceType.TOPIC, (topic.name for topic in request.topics))
    await ctx.broker.openings.opened(
        ctx.broker.partitions.get(topic.name, partition.partition_index)
        for topic in request.topics
        if topic.name in allowed
        for partition in topic.partitions
    )
    topics = []
    waiting: list[Waiting] = []
    for topic in request.topics:
        # As in Kafka, the last offset of a partition that is named twice counts, and a topic without any is left out.
        offsets = {partition.partition_index: partition.offset for partition in topic.partitions}
        if topic.name in allowed:
            results = [delete_before(ctx, topic.name, index, offset, waiting) for index, offset in offsets.items()]
        else:
            results = [
                Result(partition_index=index, low_watermark=-1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for index in offsets
            ]
        if results:
            topics.append(messages.DeleteRecordsResponse.DeleteRecordsTopicResult(name=topic.name, partitions=results))
    if waiting:
        await deleted_everywhere(ctx, waiting, request.timeout_ms)
    return messages.DeleteRecordsResponse(topics=topics)


def delete_before(ctx: RequestContext, topic: str, index: int, offset: int, waiting: list[Waiting]) -> Result:
    """Delete the records before `offset` in one partition, here; add the deletions of other replicas to `waiting`."""
    partition = ctx.broker.partitions.get(topic, index)
    if partition is None:
        code = absent_partition_error(ctx.broker.image, topic, index)
        return Result(partition_index=index, low_watermark=-1, error_code=code)
    if partition.protected:
        # The log start of a mirror is that of its source.
        refusal = ErrorCode.POLICY_VIOLATION if partition.mirrors else ErrorCode.INVALID_TOPIC_EXCEPTION
        return Result(partition_index=index, low_watermark=-1, error_code=refusal)
    policies = ctx.broker.topic_settings(topic)["cleanup.policy"]
    if "compact" in policies and "delete" not in policies:
        # A topic that is only compacted keeps its newest value of each key forever.
        return Result(partition_index=index, low_watermark=-1, error_code=ErrorCode.POLICY_VIOLATION)
    if (problem := hindrance(ctx, partition)) is not None:
        return Result(partition_index=index, low_watermark=-1, error_code=problem)
    target = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if target < 0 or target > partition.high_watermark:
        return Result(partition_index=index, low_watermark=-1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    before = partition.log.log_start_offset
    try:
        ctx.broker.log_manager.delete_records_before(partition.log, target)
    except KafkaError as error:
        return Result(partition_index=index, low_watermark=-1, error_code=error.code)
    after = partition.log.log_start_offset
    if after != before:
        ctx.broker.events.note(RecordsDeleted(topic, index, before, after, ctx.client))
        partition.tell_log_start()
    result = Result(partition_index=index, low_watermark=partition.low_watermark())
    if result.low_watermark < target:
        waiting.append(Waiting(partition, target, result))
    return result


def hindrance(ctx: RequestContext, partition: Partition) -> ErrorCode | None:
    """Why records of a partition cannot be deleted here."""
    if partition.closed:
        return absent_partition_error(ctx.broker.image, partition.topic, partition.index)
    if partition.offline is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if partition.replica.role != Role.LEADER else None


async def deleted_everywhere(ctx: RequestContext, waiting: list[Waiting], timeout_ms: int) -> None:
    """Wait for the other replicas, and set the results. As in Kafka, one that times out keeps its first low
    watermark.
    """
    futures = [each.partition.until_deleted(each.offset) for each in waiting]
    try:
        await asyncio.wait(futures, timeout=max(0, timeout_ms) / 1000)
    finally:
        for future, each in zip(futures, waiting, strict=True):
            future.cancel()
            each.partition.settle_deletes()
    for each in waiting:
        partition, result = each.partition, each.result
        if (problem := hindrance(ctx, partition)) is not None:
            result.error_code, result.low_watermark = problem, -1
        elif (low_watermark := partition.low_watermark()) < each.offset:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        else:
            result.low_watermark = low_watermark
