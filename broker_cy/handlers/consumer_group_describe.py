"""ConsumerGroupDescribe, versions 0 and 1 (KIP-848): consumer groups as their written records have them. 1 also has the
protocol of each member.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.consumer.describe import describe
from broker_cy.coordinator.modern.description import Description
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.handlers.shared import group_descriptions, group_protocols
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Response = messages.ConsumerGroupDescribeResponse


@handler(ApiKey.CONSUMER_GROUP_DESCRIBE)
async def consumer_group_describe(ctx: RequestContext, request: messages.ConsumerGroupDescribeRequest) -> Response:
    groups = await group_descriptions.described_groups(
        ctx,
        request,
        Response,
        _describe,
        is_served=group_protocols.is_consumer_served(ctx),
        hidden="The group has described topic(s) that the client is not authorized to describe.",
    )
    return Response(groups=groups)


def _describe(ctx: RequestContext, runtime: GroupRuntime, group_id: str) -> Description[Response.DescribedGroup]:
    assignor = ctx.broker.groups.settings.consumer.assignors[0]
    return describe(runtime.written().get(group_id), group_id, assignor, runtime.machine.image)
