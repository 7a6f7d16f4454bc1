"""OffsetForLeaderEpoch, versions 2 to 4 (KIP-320): the end offset of an epoch in the log.

It lets a client detect that records that it has read were truncated. Omissions: none.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.control.image.metadata_view import absent_partition_error
from broker_cy.core.errors import ErrorCode
from broker_cy.replica.replica import Role
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Asked = messages.OffsetForLeaderEpochRequest.OffsetForLeaderPartition
Answer = messages.OffsetForLeaderEpochResponse.EpochEndOffset


@handler(ApiKey.OFFSET_FOR_LEADER_EPOCH)
async def offset_for_leader_epoch(
    ctx: RequestContext, request: messages.OffsetForLeaderEpochRequest
) -> messages.OffsetForLeaderEpochResponse:
    names = {topic.topic for topic in request.topics}
    if not ctx.allows_cluster(Operation.CLUSTER_ACTION, in_list=True):
        names = ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
    # As in Kafka, denied topics come last.
    asked_topics = sorted(request.topics, key=lambda topic: topic.topic not in names)
    await ctx.broker.openings.opened(
        ctx.broker.partitions.get(topic.topic, asked.partition)
        for topic in request.topics
        if topic.topic in names
        for asked in topic.partitions
    )
    return messages.OffsetForLeaderEpochResponse(
        topics=[
            messages.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    end_offset(ctx, topic.topic, asked)
                    if topic.topic in names
                    else Answer(partition=asked.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    for asked in topic.partitions
                ],
            )
            for topic in asked_topics
        ]
    )


def end_offset(ctx: RequestContext, topic: str, asked: Asked) -> Answer:
    """The largest epoch at or below the requested one, and the first offset after it; -1 for both if it is unknown."""
    partition = ctx.broker.partitions.get(topic, asked.partition)
    if partition is None:
        code = absent_partition_error(ctx.broker.image, topic, asked.partition)
        return Answer(partition=asked.partition, error_code=code)
    if partition.offline is not None:
        return Answer(partition=asked.partition, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    problem = partition.check_leader_epoch(asked.current_leader_epoch)
    if problem is not None:
        return Answer(partition=asked.partition, error_code=problem)
    if partition.replica.role != Role.LEADER:
        return Answer(partition=asked.partition, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if asked.leader_epoch == partition.leader_epoch:
        return Answer(
            partition=asked.partition, leader_epoch=asked.leader_epoch, end_offset=partition.log.written_end_offset
        )
    epoch, offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return Answer(partition=asked.partition, leader_epoch=epoch, end_offset=offset)
