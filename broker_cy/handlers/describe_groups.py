"""DescribeGroups, versions 0 to 6: classic groups, their state and members.

3 can ask for the authorized operations, 4 has static members, 6 reports a group that does not exist as an error. Groups
of other types have APIs of their own. Groups are shown as the written records leave them.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator import admin
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_AUTHORIZED_OPERATIONS = 3


@handler(ApiKey.DESCRIBE_GROUPS)
def describe_groups(ctx: RequestContext, request: messages.DescribeGroupsRequest) -> messages.DescribeGroupsResponse:
    described = []
    refused = []
    for group_id in request.groups:
        if not ctx.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            refused.append(
                messages.DescribeGroupsResponse.DescribedGroup(
                    group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
            )
            continue
        try:
            group = admin.describe(ctx.broker.groups.runtime_for(group_id).written(), group_id, ctx.version)
        except KafkaError as error:
            group = messages.DescribeGroupsResponse.DescribedGroup(group_id=group_id, error_code=error.code)
        if (
            ctx.version >= VERSION_AUTHORIZED_OPERATIONS
            and request.include_authorized_operations
            and group.error_code == ErrorCode.NONE
        ):
            group.authorized_operations = ctx.operations(ResourceType.GROUP, group_id)
        described.append(group)
    return messages.DescribeGroupsResponse(groups=refused + described)
