"""ListGroups, versions 0 to 5: groups of every type. 4 filters by state (KIP-518), 5 by type (KIP-848)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator import admin
from broker_cy.coordinator.group import Group
from broker_cy.core.errors import KafkaError
from broker_cy.handlers.shared.listing import in_parts
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.LIST_GROUPS,
    versions=(0, 5),
    requires="DESCRIBE on the cluster, or on each group; other groups are left out",
)
def list_groups(
    ctx: RequestContext, request: messages.ListGroupsRequest
) -> messages.ListGroupsResponse | Awaitable[messages.ListGroupsResponse]:
    try:
        machines = ctx.broker.groups.readable_machines()
    except KafkaError as error:
        return messages.ListGroupsResponse(error_code=error.code)
    is_all = ctx.allows_cluster(Operation.DESCRIBE, in_list=True)

    def look(part: Sequence[Group]) -> list[messages.ListGroupsResponse.ListedGroup]:
        found = admin.list_groups(part, request.states_filter, request.types_filter)
        if is_all:
            return found
        ids = (group.group_id for group in found)
        shown = ctx.allowed(Operation.DESCRIBE, ResourceType.GROUP, ids, in_list=True)
        return [group for group in found if group.group_id in shown]

    groups = [group for machine in machines for group in machine.groups.values()]
    return in_parts(groups, look, lambda found: messages.ListGroupsResponse(groups=found))
