"""AllocateProducerIds (67), version 0: a broker asks for the next block of producer ids (KIP-730)."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, handler
from broker_cy.controller.producer_ids import AllocateProducerIds
from broker_cy.core.errors import KafkaError
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.ALLOCATE_PRODUCER_IDS,
    versions=(0, 0),
    on=(ListenerKind.CONTROLLER,),
    requires="CLUSTER_ACTION on the cluster",
)
async def allocate_producer_ids(
    ctx: RequestContext, request: messages.AllocateProducerIdsRequest
) -> messages.AllocateProducerIdsResponse:
    try:
        ctx.require_cluster(Operation.CLUSTER_ACTION)
        block = await ctx.broker.controller.submit(AllocateProducerIds(request.broker_id, request.broker_epoch))
    except KafkaError as error:
        return messages.AllocateProducerIdsResponse(error_code=int(error.code))
    return messages.AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
