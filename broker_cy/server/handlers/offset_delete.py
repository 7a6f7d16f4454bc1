"""OffsetDelete, version 0 (KIP-496): offsets of topics that the group does not read."""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.OFFSET_DELETE, versions=(0, 0))
async def offset_delete(ctx: RequestContext, request: messages.OffsetDeleteRequest) -> messages.OffsetDeleteResponse:
    if not request.group_id:
        return messages.OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    unknown: dict[str, list[int]] = {}
    known = []
    for topic in request.topics:
        image = ctx.broker.image.topics.by_name(topic.name)
        exists = [p for p in topic.partitions if image is not None and p.partition_index in image.partitions]
        missing = [p.partition_index for p in topic.partitions if p not in exists]
        if missing:
            unknown.setdefault(topic.name, []).extend(missing)
        if exists:
            known.append(messages.OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic.name, partitions=exists))
    request.topics = known
    try:
        response: messages.OffsetDeleteResponse = await ctx.broker.groups.run(
            request.group_id, lambda machine, token, now: machine.delete_offsets(request, token)
        )
    except KafkaError as error:
        return messages.OffsetDeleteResponse(error_code=error.code)
    if response.error_code != ErrorCode.NONE:
        return response
    by_name = {topic.name: topic for topic in response.topics}
    for name, indexes in unknown.items():
        topic_response = by_name.get(name)
        if topic_response is None:
            topic_response = messages.OffsetDeleteResponse.OffsetDeleteResponseTopic(name=name, partitions=[])
            response.topics.append(topic_response)
        topic_response.partitions.extend(
            messages.OffsetDeleteResponse.OffsetDeleteResponsePartition(
                partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for index in indexes
        )
    return response
