"""UnregisterBroker (64), version 0: remove a broker that will not come back.

Its replicas stay assigned: they are moved by AlterPartitionReassignments.
"""

from __future__ import annotations

from typing import cast

from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.UNREGISTER_BROKER, versions=(0, 0), on=BOTH, requires="ALTER on the cluster")
async def unregister_broker(
    ctx: RequestContext, request: messages.UnregisterBrokerRequest
) -> messages.UnregisterBrokerResponse:
    # Imported here, because a node that is alone hardly ever needs it, and starts sooner without it.
    from broker_cy.controller.registration import UnregisterBroker

    try:
        if (answer := await ctx.broker.controller.forward(ctx, request, messages.UnregisterBrokerResponse)) is not None:
            return cast(messages.UnregisterBrokerResponse, answer)
        ctx.require_cluster(Operation.ALTER)
        await ctx.broker.controller.submit(UnregisterBroker(request.broker_id))
    except KafkaError as error:
        return messages.UnregisterBrokerResponse(error_code=int(error.code), error_message=error.message)
    return messages.UnregisterBrokerResponse(error_message=None)
