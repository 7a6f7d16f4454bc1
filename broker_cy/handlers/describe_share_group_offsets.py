"""DescribeShareGroupOffsets, versions 0 and 1: where share groups begin to read partitions. 1 also has the lag
(KIP-1226).

As in Kafka, offsets of named topics come from the share coordinators alone: any broker answers, and the group need not
exist. The topics of a group that names none are those of its coordinator.
"""

from __future__ import annotations

import asyncio

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share_state.answers import message_of
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.DescribeShareGroupOffsetsRequest
Response = messages.DescribeShareGroupOffsetsResponse
RequestGroup = Request.DescribeShareGroupOffsetsRequestGroup
RequestTopic = Request.DescribeShareGroupOffsetsRequestTopic
ResponseGroup = Response.DescribeShareGroupOffsetsResponseGroup
ResponseTopic = Response.DescribeShareGroupOffsetsResponseTopic
ResponsePartition = Response.DescribeShareGroupOffsetsResponsePartition


@handler(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
async def describe_share_group_offsets(ctx: RequestContext, request: Request) -> Response:
    groups = await asyncio.gather(*(_described(ctx, group) for group in request.groups))
    return Response(groups=list(groups))


async def _described(ctx: RequestContext, group: RequestGroup) -> ResponseGroup:
    group_id = group.group_id
    if not ctx.broker.share.is_enabled:
        return ResponseGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not ctx.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return ResponseGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        wanted = _partitions_of(ctx, group_id) if group.topics is None else _partitions(group.topics)
    except KafkaError as error:
        return ResponseGroup(group_id=group_id, error_code=error.code, error_message=message_of(error.code))
    shown = ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, wanted)
    wanted = {name: partitions for name, partitions in wanted.items() if name in shown}
    if any(not _can_be_read(ctx, group_id, name, partitions) for name, partitions in wanted.items()):
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return ResponseGroup(group_id=group_id, error_code=code, error_message=message_of(code))
    found = await ctx.broker.share_groups.describe_offsets(group_id, wanted)
    if group.topics is not None:
        found += [_hidden(topic) for topic in group.topics if topic.topic_name not in shown]
    return ResponseGroup(group_id=group_id, topics=found)


def _partitions_of(ctx: RequestContext, group_id: str) -> dict[str, list[int]]:
    """The initialized partitions of a group, by topic name; none if the group does not exist. Raises KafkaError."""
    runtime = ctx.broker.groups.runtime_for(group_id)
    group = runtime.written().get(group_id)
    if not isinstance(group, ShareGroup):
        return {}
    topics = runtime.machine.image.topics
    return {
        topic.name: sorted(partitions)
        for topic_id, partitions in group.share_partitions.initialized.items()
        if (topic := topics.by_id(topic_id)) is not None
    }


def _partitions(topics: list[RequestTopic]) -> dict[str, list[int]]:
    """The partitions of each topic, each once."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in topics:
        wanted.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
    return {name: list(partitions) for name, partitions in wanted.items()}


def _can_be_read(ctx: RequestContext, group_id: str, name: str, partitions: list[int]) -> bool:
    """Whether the share coordinator can be asked for the state of these partitions; if not, Kafka's handler fails for
    the whole group.
    """
    if ctx.broker.image.topics.by_name(name) is None:
        return True
    return bool(group_id and partitions) and min(partitions) >= 0


def _hidden(topic: RequestTopic) -> ResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            ResponsePartition(
                partition_index=partition, start_offset=-1, lag=-1, error_code=code, error_message=message_of(code)
            )
            for partition in topic.partitions
        ],
    )
