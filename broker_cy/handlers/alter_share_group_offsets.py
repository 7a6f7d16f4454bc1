"""AlterShareGroupOffsets, version 0: where a share group without members begins to read partitions."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share import offsets
from broker_cy.coordinator.share.offsets import alter_error
from broker_cy.coordinator.share_state.answers import message_of
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.AlterShareGroupOffsetsRequest
Response = messages.AlterShareGroupOffsetsResponse


@handler(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
async def alter_share_group_offsets(ctx: RequestContext, request: Request) -> Response:
    group_id = request.group_id
    if not ctx.broker.share.is_enabled:
        return alter_error(ErrorCode.UNSUPPORTED_VERSION)
    if not ctx.allows(Operation.READ, ResourceType.GROUP, group_id):
        return alter_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return alter_error(ErrorCode.INVALID_GROUP_ID)
    readable = ctx.allowed(Operation.READ, ResourceType.TOPIC, (topic.topic_name for topic in request.topics))
    try:
        response: Response = await ctx.broker.groups.run(
            group_id, offsets.alter, group_id, [topic for topic in request.topics if topic.topic_name in readable]
        )
    except KafkaError as error:
        return alter_error(error.code, error.message)
    if response.error_code == ErrorCode.NONE:
        response.responses += [_refused(ctx, topic) for topic in request.topics if topic.topic_name not in readable]
    return response


def _refused(
    ctx: RequestContext, topic: Request.AlterShareGroupOffsetsRequestTopic
) -> Response.AlterShareGroupOffsetsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    answer = Response.AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
    known = ctx.broker.image.topics.by_name(topic.topic_name)
    if known is not None:
        answer.topic_id = known.topic_id
    answer.partitions = [
        Response.AlterShareGroupOffsetsResponsePartition(
            partition_index=each.partition_index, error_code=code, error_message=message_of(code)
        )
        for each in topic.partitions
    ]
    return answer
