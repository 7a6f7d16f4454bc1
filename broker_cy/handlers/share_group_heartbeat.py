"""ShareGroupHeartbeat, version 1 (KIP-932): members of share groups join, report, and learn their partitions."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.share import heartbeat, validation
from broker_cy.coordinator.share.heartbeat import heartbeat_error
from broker_cy.coordinator.share.steady import steady_heartbeat
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.group_client import client_facts
from broker_cy.handlers.shared.steady_heartbeats import steady_answer
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Request = messages.ShareGroupHeartbeatRequest
Response = messages.ShareGroupHeartbeatResponse

# A group sends it all the time: members of enumerations are slow to look up.
_READ, _GROUP = Operation.READ, ResourceType.GROUP


@handler(ApiKey.SHARE_GROUP_HEARTBEAT)
def share_group_heartbeat(ctx: RequestContext, request: Request) -> Response | Coroutine[Any, Any, Response]:
    if not ctx.broker.share.is_enabled:
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    if ctx.broker.authorization is not None and not ctx.allows(_READ, _GROUP, request.group_id):
        return heartbeat_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    steady = steady_answer(ctx, request, steady_heartbeat)
    return _answered(ctx, request) if steady is None else steady


async def _answered(ctx: RequestContext, request: Request) -> Response:
    try:
        validation.check_member_id(request.member_id)
        names = request.subscribed_topic_names
        if names and len(ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(set(names)):
            return heartbeat_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        validation.check_request(request)
        response: Response = await ctx.broker.groups.run(
            request.group_id, heartbeat.heartbeat, request, client_facts(ctx)
        )
    except KafkaError as error:
        return heartbeat_error(error.code, error.message)
    return response
