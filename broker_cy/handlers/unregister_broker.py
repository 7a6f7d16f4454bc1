"""UnregisterBroker (64), version 0: remove a broker that will not come back.

Its replicas stay assigned: they are moved by AlterPartitionReassignments.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.controller.registration import UnregisterBroker
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.UNREGISTER_BROKER)
@at_controller(messages.UnregisterBrokerResponse, needs=Operation.ALTER)
async def unregister_broker(
    ctx: RequestContext, request: messages.UnregisterBrokerRequest
) -> messages.UnregisterBrokerResponse:
    await ctx.broker.controller.submit(UnregisterBroker(request.broker_id))
    return messages.UnregisterBrokerResponse(error_message=None)
