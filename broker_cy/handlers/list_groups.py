"""ListGroups, versions 0 to 5: groups of every type, as the written records leave them. 4 filters by state (KIP-518), 5
by type (KIP-848).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from itertools import groupby

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator import admin
from broker_cy.coordinator.group import Group
from broker_cy.coordinator_services.group_runtime import GroupRuntime
from broker_cy.core.errors import KafkaError
from broker_cy.handlers.shared.listing import in_parts
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.LIST_GROUPS)
def list_groups(
    ctx: RequestContext, request: messages.ListGroupsRequest
) -> messages.ListGroupsResponse | Awaitable[messages.ListGroupsResponse]:
    try:
        runtimes = ctx.broker.groups.readable()
    except KafkaError as error:
        return messages.ListGroupsResponse(error_code=error.code)
    is_all = ctx.allows_cluster(Operation.DESCRIBE, in_list=True)

    def look(part: Sequence[tuple[GroupRuntime, str]]) -> list[messages.ListGroupsResponse.ListedGroup]:
        found = admin.list_groups(_written(part), request.states_filter, request.types_filter)
        if is_all:
            return found
        ids = (group.group_id for group in found)
        shown = ctx.allowed(Operation.DESCRIBE, ResourceType.GROUP, ids, in_list=True)
        return [group for group in found if group.group_id in shown]

    entries = [(runtime, group_id) for runtime in runtimes for group_id in runtime.written().ids()]
    return in_parts(entries, look, lambda found: messages.ListGroupsResponse(groups=found))


def _written(part: Sequence[tuple[GroupRuntime, str]]) -> Iterator[Group]:
    """The groups of these ids that exist now. Those of a runtime follow each other."""
    for runtime, entries in groupby(part, lambda entry: entry[0]):
        groups = runtime.written()
        for _, group_id in entries:
            group = groups.get(group_id)
            if group is not None:
                yield group
