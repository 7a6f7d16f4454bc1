"""ShareGroupDescribe, version 1 (KIP-932): share groups as their written records have them."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.modern.description import Description
from broker_cy.coordinator.share.describe import describe
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.handlers.shared import group_descriptions
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Response = messages.ShareGroupDescribeResponse


@handler(ApiKey.SHARE_GROUP_DESCRIBE)
async def share_group_describe(ctx: RequestContext, request: messages.ShareGroupDescribeRequest) -> Response:
    groups = await group_descriptions.described_groups(
        ctx,
        request,
        Response,
        _describe,
        is_served=ctx.broker.share.is_enabled,
        hidden="The group has described topic(s) that the client is not authorized to describe.",
    )
    return Response(groups=groups)


def _describe(ctx: RequestContext, runtime: GroupRuntime, group_id: str) -> Description[Response.DescribedGroup]:
    assignor = ctx.broker.groups.settings.share.assignors[0]
    return describe(runtime.written().get(group_id), group_id, assignor, runtime.machine.image)
