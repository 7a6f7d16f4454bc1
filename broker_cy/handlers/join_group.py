"""JoinGroup, versions 0 to 9.

0 has no rebalance timeout (the session timeout stands for it). From 4 on a member without an id gets one and has to
join again with it (KIP-394), 5 has static members (KIP-345), 7 the protocol type and a nullable protocol, 8 the reason,
9 lets the leader skip the assignment (KIP-814). The answer is sent when the join phase ends.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.classic import join
from broker_cy.coordinator.classic.rebalance import join_error
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.group_client import client_facts
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_NULLABLE_PROTOCOL = 7


@handler(ApiKey.JOIN_GROUP)
async def join_group(ctx: RequestContext, request: messages.JoinGroupRequest) -> messages.JoinGroupResponse:
    response = await _join(ctx, request)
    if ctx.version < VERSION_NULLABLE_PROTOCOL:
        response.protocol_name = response.protocol_name or ""
    else:
        response.protocol_name = response.protocol_name or None
    return response


async def _join(ctx: RequestContext, request: messages.JoinGroupRequest) -> messages.JoinGroupResponse:
    groups = ctx.broker.groups
    settings = groups.settings
    if not ctx.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return join_error("", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return join_error(request.member_id, ErrorCode.INVALID_GROUP_ID)
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return join_error(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
    if ctx.version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    client = client_facts(ctx)
    unique = str(ctx.broker.randomness.uuid())
    try:
        response: messages.JoinGroupResponse = await groups.run(request.group_id, join.join, request, client, unique)
    except KafkaError as error:
        return join_error("", error.code)
    return response
