"""DeleteShareGroupOffsets, version 0: what a share group without members has read of whole topics."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share import offsets
from broker_cy.coordinator.share.offsets import delete_error
from broker_cy.coordinator.share_state.answers import message_of
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.DeleteShareGroupOffsetsRequest
Response = messages.DeleteShareGroupOffsetsResponse


@handler(ApiKey.DELETE_SHARE_GROUP_OFFSETS)
async def delete_share_group_offsets(ctx: RequestContext, request: Request) -> Response:
    group_id = request.group_id
    if not ctx.broker.share.is_enabled:
        return delete_error(ErrorCode.UNSUPPORTED_VERSION)
    if not ctx.allows(Operation.DELETE, ResourceType.GROUP, group_id):
        return delete_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        return delete_error(ErrorCode.INVALID_GROUP_ID)
    names = [topic.topic_name for topic in request.topics]
    readable = ctx.allowed(Operation.READ, ResourceType.TOPIC, names)
    try:
        response: Response = await ctx.broker.groups.run(
            group_id, offsets.delete, group_id, [name for name in names if name in readable]
        )
    except KafkaError as error:
        return delete_error(error.code, error.message)
    if response.error_code == ErrorCode.NONE:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        hidden = [
            Response.DeleteShareGroupOffsetsResponseTopic(
                topic_name=name, error_code=code, error_message=message_of(code)
            )
            for name in names
            if name not in readable
        ]
        response.responses = [*hidden, *response.responses]
    return response
