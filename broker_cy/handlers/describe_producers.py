"""DescribeProducers, version 0 (KIP-664): the producers that partitions remember, and their open transactions."""

from __future__ import annotations

from broker_cy.access.authorization import MESSAGES
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.control.image.metadata_view import absent_partition_error
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.topic_names import invalid_reason
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

UNKNOWN_TOPIC = "This server does not host this topic-partition."

Result = messages.DescribeProducersResponse.PartitionResponse


@handler(ApiKey.DESCRIBE_PRODUCERS)
async def describe_producers(
    ctx: RequestContext, request: messages.DescribeProducersRequest
) -> messages.DescribeProducersResponse:
    readable = ctx.allowed(Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics))
    await ctx.broker.openings.opened(
        ctx.broker.partitions.get(topic.name, index)
        for topic in request.topics
        if topic.name in readable
        for index in topic.partition_indexes
    )
    topics = []
    for topic in request.topics:
        code, problem = ErrorCode.INVALID_TOPIC_EXCEPTION, invalid_reason(topic.name)
        if problem is None and topic.name not in readable:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            problem = MESSAGES[code]
        elif problem is None and ctx.broker.image.topics.by_name(topic.name) is None:
            code, problem = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC
        results = [
            _describe(ctx, topic.name, index)
            if problem is None
            else Result(partition_index=index, error_code=code, error_message=problem)
            for index in topic.partition_indexes
        ]
        topics.append(messages.DescribeProducersResponse.TopicResponse(name=topic.name, partitions=results))
    return messages.DescribeProducersResponse(topics=topics)


def _describe(ctx: RequestContext, topic: str, index: int) -> Result:
    partition = ctx.broker.partitions.get(topic, index)
    if partition is None:
        return Result(partition_index=index, error_code=absent_partition_error(ctx.broker.image, topic, index))
    if partition.offline is not None:
        return Result(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return Result(
        partition_index=index,
        active_producers=[
            messages.DescribeProducersResponse.ProducerState(
                producer_id=producer_id,
                producer_epoch=epoch,
                last_sequence=last_sequence,
                last_timestamp=last_timestamp,
                coordinator_epoch=coordinator_epoch,
                current_txn_start_offset=first_offset,
            )
            for (
                producer_id,
                epoch,
                last_sequence,
                last_timestamp,
                coordinator_epoch,
                first_offset,
            ) in partition.log.producers.describe()
        ],
    )
