"""OffsetDelete, version 0 (KIP-496): offsets of topics that the group does not read."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator import commit
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.OFFSET_DELETE)
async def offset_delete(ctx: RequestContext, request: messages.OffsetDeleteRequest) -> messages.OffsetDeleteResponse:
    if not ctx.allows(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return messages.OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return messages.OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    failed: dict[str, dict[int, ErrorCode]] = {}
    known = []
    for topic in request.topics:
        if not ctx.allows(Operation.READ, ResourceType.TOPIC, topic.name):
            refused = failed.setdefault(topic.name, {})
            refused.update((p.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for p in topic.partitions)
            continue
        image = ctx.broker.image.topics.by_name(topic.name)
        exists = [p for p in topic.partitions if image is not None and p.partition_index in image.partitions]
        missing = [p.partition_index for p in topic.partitions if p not in exists]
        if missing:
            absent = failed.setdefault(topic.name, {})
            absent.update(dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if exists:
            known.append(messages.OffsetDeleteRequest.OffsetDeleteRequestTopic(name=topic.name, partitions=exists))
    request.topics = known
    try:
        response: messages.OffsetDeleteResponse = await ctx.broker.groups.run(
            request.group_id, commit.delete_offsets, request
        )
    except KafkaError as error:
        return messages.OffsetDeleteResponse(error_code=error.code)
    if response.error_code != ErrorCode.NONE:
        return response
    by_name = {topic.name: topic for topic in response.topics}
    for name, codes in failed.items():
        topic_response = by_name.get(name)
        if topic_response is None:
            topic_response = messages.OffsetDeleteResponse.OffsetDeleteResponseTopic(name=name, partitions=[])
            response.topics.append(topic_response)
        topic_response.partitions.extend(
            messages.OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            for index, code in codes.items()
        )
    return response
