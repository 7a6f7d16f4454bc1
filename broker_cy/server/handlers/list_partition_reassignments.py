"""ListPartitionReassignments (46), version 0: the reassignments that go on, from the committed metadata (KIP-455)."""

from __future__ import annotations

from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), on=BOTH)
def list_partition_reassignments(
    ctx: RequestContext, request: messages.ListPartitionReassignmentsRequest
) -> messages.ListPartitionReassignmentsResponse:
    # Imported here, because a node that is alone hardly ever needs it, and starts sooner without it.
    from broker_cy.controller.reassignment import list_reassignments

    return list_reassignments(ctx.broker.image, request.topics)
