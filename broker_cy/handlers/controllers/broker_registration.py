"""BrokerRegistration (62), versions 0-4: a broker asks to be a member of the cluster.

The answer has the broker epoch once the registration is committed; the broker is fenced until its heartbeats show that
it has applied the registration. See `controller.registration`.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, handler
from broker_cy.controller.registration import RegisterBroker
from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.BROKER_REGISTRATION, versions=(0, 4), on=(ListenerKind.CONTROLLER,), requires="CLUSTER_ACTION on the cluster"
)
async def broker_registration(
    ctx: RequestContext, request: messages.BrokerRegistrationRequest
) -> messages.BrokerRegistrationResponse:
    try:
        ctx.require_cluster(Operation.CLUSTER_ACTION)
        epoch = await ctx.broker.controller.submit(RegisterBroker(request, ctx.version, ctx.broker.cluster_id))
    except KafkaError as error:
        return messages.BrokerRegistrationResponse(error_code=int(error.code))
    return messages.BrokerRegistrationResponse(broker_epoch=epoch)
