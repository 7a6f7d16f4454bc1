"""LeaveGroup, versions 0 to 5. From 3 on a request has several members, also by instance id alone; 5 has the reason."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.classic import membership
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_MEMBERS = 3


@handler(ApiKey.LEAVE_GROUP)
async def leave_group(ctx: RequestContext, request: messages.LeaveGroupRequest) -> messages.LeaveGroupResponse:
    if not ctx.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return messages.LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return messages.LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    members = (
        request.members
        if ctx.version >= VERSION_MEMBERS
        else [messages.LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    )
    try:
        response: messages.LeaveGroupResponse = await ctx.broker.groups.run(
            request.group_id, membership.leave, request.group_id, members
        )
    except KafkaError as error:
        return messages.LeaveGroupResponse(error_code=error.code)
    if ctx.version < VERSION_MEMBERS and response.error_code == ErrorCode.NONE:
        return messages.LeaveGroupResponse(error_code=response.members[0].error_code)
    return response
