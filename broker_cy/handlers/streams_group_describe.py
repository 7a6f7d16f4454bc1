"""StreamsGroupDescribe, version 0 (KIP-1071): streams groups as their written records have them."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.modern.description import Description
from broker_cy.coordinator.streams.describe import describe
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.handlers.shared import group_descriptions, group_protocols
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Response = messages.StreamsGroupDescribeResponse


@handler(ApiKey.STREAMS_GROUP_DESCRIBE)
async def streams_group_describe(ctx: RequestContext, request: messages.StreamsGroupDescribeRequest) -> Response:
    groups = await group_descriptions.described_groups(
        ctx,
        request,
        Response,
        _describe,
        is_served=group_protocols.is_streams_served(ctx),
        hidden="The described group uses topics that the client is not authorized to describe.",
    )
    return Response(groups=groups)


def _describe(ctx: RequestContext, runtime: GroupRuntime, group_id: str) -> Description[Response.DescribedGroup]:
    return describe(runtime.written().get(group_id), group_id)
