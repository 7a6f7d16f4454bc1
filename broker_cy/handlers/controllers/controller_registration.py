"""ControllerRegistration (70), version 0: a controller reports its listeners and features (KIP-919)."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, handler
from broker_cy.controller.registration import RegisterController
from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.CONTROLLER_REGISTRATION,
    versions=(0, 0),
    on=(ListenerKind.CONTROLLER,),
    requires="CLUSTER_ACTION on the cluster",
)
async def controller_registration(
    ctx: RequestContext, request: messages.ControllerRegistrationRequest
) -> messages.ControllerRegistrationResponse:
    try:
        ctx.require_cluster(Operation.CLUSTER_ACTION)
        await ctx.broker.controller.submit(RegisterController(request))
    except KafkaError as error:
        return messages.ControllerRegistrationResponse(error_code=int(error.code), error_message=error.message)
    return messages.ControllerRegistrationResponse(error_message=None)
