"""SyncGroup, versions 0 to 5. 3 has static members; from 5 on protocol type and name must be those of the group.

The answer is sent when the leader's assignment is written.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.classic import sync
from broker_cy.coordinator.classic.rebalance import sync_error
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_PROTOCOL_MANDATORY = 5


@handler(ApiKey.SYNC_GROUP)
async def sync_group(ctx: RequestContext, request: messages.SyncGroupRequest) -> messages.SyncGroupResponse:
    if ctx.version >= VERSION_PROTOCOL_MANDATORY and (request.protocol_type is None or request.protocol_name is None):
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not ctx.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return sync_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return sync_error(ErrorCode.INVALID_GROUP_ID)
    try:
        response: messages.SyncGroupResponse = await ctx.broker.groups.run(request.group_id, sync.sync, request)
    except KafkaError as error:
        return sync_error(error.code)
    return response
