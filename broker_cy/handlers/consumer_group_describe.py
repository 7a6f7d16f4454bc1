"""ConsumerGroupDescribe, versions 0 and 1 (KIP-848): consumer groups as their written records have them. 1 also has the
protocol of each member.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.consumer.describe import describe
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared import group_protocols
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

Response = messages.ConsumerGroupDescribeResponse


@handler(
    ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), requires="DESCRIBE on each group, and on each topic that it reads"
)
def consumer_group_describe(ctx: RequestContext, request: messages.ConsumerGroupDescribeRequest) -> Response:
    if not group_protocols.is_consumer_served(ctx):
        return Response(groups=[_error(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in request.group_ids])
    refused, described = [], []
    for group_id in request.group_ids:
        if not ctx.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            refused.append(_error(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        group = _described(ctx, group_id)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = ctx.operations(ResourceType.GROUP, group_id)
        described.append(group)
    return Response(groups=[*refused, *described])


def _error(group_id: str, code: ErrorCode, message: str | None = None) -> Response.DescribedGroup:
    return Response.DescribedGroup(group_id=group_id, error_code=code, error_message=message or None)


def _described(ctx: RequestContext, group_id: str) -> Response.DescribedGroup:
    if not group_id:
        return _error(group_id, ErrorCode.INVALID_GROUP_ID)
    groups = ctx.broker.groups
    try:
        runtime = groups.runtime_for(group_id)
    except KafkaError as error:
        return _error(group_id, error.code, error.message)
    default = groups.settings.consumer.assignors[0]
    group = describe(runtime.written().get(group_id), group_id, default, runtime.machine.image)
    # One topic that the client may not see hides the group.
    names = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }
    if len(ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)) < len(names):
        return _error(
            group_id,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        )
    return group
