"""InitProducerId (22), versions 0-5.

An idempotent producer gets a producer id that nobody had before, with epoch 0. One that names the id and epoch it has
(KIP-360, version 3) gets a new id too, as in Kafka where no transactional id is given.

A transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED until there is a transaction coordinator.
Clients look for one first, and FindCoordinator, which has room for words, refuses them in the same way: see there.
"""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.server import log_events
from broker_cy.server.registry import RequestContext, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@handler(
    ApiKey.INIT_PRODUCER_ID,
    versions=(0, 5),
    omissions="transactional ids get TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as in FindCoordinator",
)
async def init_producer_id(
    ctx: RequestContext, request: messages.InitProducerIdRequest
) -> messages.InitProducerIdResponse:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        if not request.transactional_id:
            return _failed(ErrorCode.INVALID_REQUEST)
        log_events.transactions_refused(request.transactional_id, ctx.client_host)
        return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        producer_id = await ctx.broker.controller.next_producer_id()
    except KafkaError as error:
        return _failed(error.code)
    return messages.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _failed(code: ErrorCode) -> messages.InitProducerIdResponse:
    return messages.InitProducerIdResponse(
        error_code=int(code), producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
