"""DescribeTopicPartitions (75), version 0 (KIP-966): topics in the order of their names, page by page.

An empty list of topics means all. The page ends at `response_partition_limit` partitions (at most
`max.request.partition.size.limit`, at least one), and `next_cursor` is the start of the next.
"""

from __future__ import annotations

from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.control.image import metadata_view
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import topic_names
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.topics import TopicImage
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Response = messages.DescribeTopicPartitionsResponse


@handler(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(
    ctx: RequestContext, request: messages.DescribeTopicPartitionsRequest
) -> messages.DescribeTopicPartitionsResponse:
    image = ctx.broker.image
    cursor = request.cursor
    every = not request.topics
    asked = set(image.topics.names()) if every else {topic.name for topic in request.topics}
    start_name, start_index = (cursor.topic_name, cursor.partition_index) if cursor is not None else ("", 0)
    if start_index < 0 or (cursor is not None and not every and start_name not in asked):
        return _invalid(request)
    shown = ctx.allowed(
        Operation.DESCRIBE, ResourceType.TOPIC, (name for name in asked if name >= start_name), in_list=every
    )
    refused = [] if every else [_refused(name) for name in sorted(asked) if name >= start_name and name not in shown]
    left = max(min(ctx.broker.config["max.request.partition.size.limit"], request.response_partition_limit), 1)
    topics: list[Any] = []
    next_cursor = None
    for name in sorted(shown):
        if left <= 0:
            next_cursor = Response.Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.by_name(name)
        if topic is None:
            if not every:
                topics.append(_absent(ctx, name))
            continue
        begin = start_index if name == start_name else 0
        end = min(len(topic.partitions), begin + left)
        partitions = [_partition(image, topic, index, ctx.listener) for index in range(begin, end)]
        topics.append(
            Response.DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=partitions,
                topic_authorized_operations=ctx.operations(ResourceType.TOPIC, name),
            )
        )
        if end < len(topic.partitions):
            next_cursor = Response.Cursor(topic_name=name, partition_index=end)
            break
        left -= len(partitions)
    return Response(topics=topics + refused, next_cursor=next_cursor)


def _partition(image: MetadataImage, topic: TopicImage, index: int, listener: str) -> Any:
    partition = topic.partitions[index]
    return Response.DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=metadata_view.reported_leader(image, partition, listener),
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=metadata_view.offline_replicas(image, partition, listener),
    )


def _refused(name: str) -> Any:
    """The answer hides a topic that the client may not describe, even whether it exists."""
    return Response.DescribeTopicPartitionsResponseTopic(
        error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), name=name
    )


def _absent(ctx: RequestContext, name: str) -> Any:
    return Response.DescribeTopicPartitionsResponseTopic(
        error_code=int(metadata_view.absent_topic_error(name)),
        name=name,
        is_internal=topic_names.is_internal(name),
        topic_authorized_operations=ctx.operations(ResourceType.TOPIC, name),
    )


def _invalid(request: messages.DescribeTopicPartitionsRequest) -> messages.DescribeTopicPartitionsResponse:
    """Return the answer for a cursor outside of the requested topics, or before the first partition: the response has
    no error field of its own.
    """
    return Response(
        topics=[
            Response.DescribeTopicPartitionsResponseTopic(error_code=int(ErrorCode.INVALID_REQUEST), name=topic.name)
            for topic in request.topics
        ]
    )
