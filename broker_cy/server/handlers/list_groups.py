"""ListGroups, versions 0 to 5: groups of every type. 4 filters by state (KIP-518), 5 by type (KIP-848)."""

from __future__ import annotations

from broker_cy.coordinator import admin
from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.LIST_GROUPS,
    versions=(0, 5),
    requires="DESCRIBE on the cluster, or on each group; other groups are left out",
)
def list_groups(ctx: RequestContext, request: messages.ListGroupsRequest) -> messages.ListGroupsResponse:
    try:
        machines = ctx.broker.groups.readable_machines()
    except KafkaError as error:
        return messages.ListGroupsResponse(error_code=error.code)
    groups = [
        group
        for machine in machines
        for group in admin.list_groups(machine, request.states_filter, request.types_filter)
    ]
    if not ctx.allows_cluster(Operation.DESCRIBE, in_list=True):
        shown = ctx.allowed(Operation.DESCRIBE, ResourceType.GROUP, (group.group_id for group in groups), in_list=True)
        groups = [group for group in groups if group.group_id in shown]
    return messages.ListGroupsResponse(groups=groups)
