"""ConsumerGroupDescribe, versions 0 and 1 (KIP-848): consumer groups as their written records have them. 1 also has the
protocol of each member.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.consumer.describe import describe_members, describe_without_members, topic_names
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared import group_protocols
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.codec import EncodedElements
from broker_cy.wire.frame import ApiKey

Response = messages.ConsumerGroupDescribeResponse
Group = Response.DescribedGroup

# Members that are described and encoded in one turn of the loop, in about 1 ms.
MEMBERS_PER_TURN: Final = 200


@handler(
    ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), requires="DESCRIBE on each group, and on each topic that it reads"
)
async def consumer_group_describe(ctx: RequestContext, request: messages.ConsumerGroupDescribeRequest) -> Response:
    if not group_protocols.is_consumer_served(ctx):
        return Response(groups=[_error(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in request.group_ids])
    refused, described = [], []
    for group_id in request.group_ids:
        if not ctx.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            refused.append(_error(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        group = await _described(ctx, group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ctx.operations(ResourceType.GROUP, group_id)
        described.append(group)
    return Response(groups=[*refused, *described])


def _error(group_id: str, code: ErrorCode, message: str | None = None) -> Group:
    return Response.DescribedGroup(group_id=group_id, error_code=code, error_message=message or None)


async def _described(ctx: RequestContext, group_id: str) -> Group:
    if not group_id:
        return _error(group_id, ErrorCode.INVALID_GROUP_ID)
    groups = ctx.broker.groups
    try:
        runtime = groups.runtime_for(group_id)
    except KafkaError as error:
        return _error(group_id, error.code, error.message)
    group = runtime.written().get(group_id)
    found = describe_without_members(group, group_id, groups.settings.consumer.assignors[0])
    if not isinstance(group, ConsumerGroup):
        return found
    image = runtime.machine.image
    # Members and targets are values: the group may change between two turns of the loop.
    members, target = list(group.members.values()), dict(group.target)
    encoded = EncodedElements(Response.Member, ctx.version)
    names: set[str] = set()
    for begin in range(0, len(members), MEMBERS_PER_TURN):
        if begin:
            await asyncio.sleep(0)
        part = describe_members(members[begin : begin + MEMBERS_PER_TURN], target, image)
        names |= topic_names(part)
        encoded.add(part)
    # One topic that the client may not see hides the group.
    if len(ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(names):
        return _error(
            group_id,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        )
    found.members = cast(Any, encoded)
    return found
