"""InitProducerId (22), versions 0-5.

An idempotent producer gets a producer id that nobody had before, with epoch 0. One that names the id and epoch it has
(KIP-360, version 3) gets a new id too, as in Kafka where no transactional id is given.

A transactional id is answered with UNSUPPORTED_VERSION until there is a transaction coordinator. Retriable codes such
as COORDINATOR_NOT_AVAILABLE would keep clients trying until their timeout, and authorization codes would send people
to look for ACLs; this one is final for every client and says that the broker cannot do it.
"""

from __future__ import annotations

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.server.registry import RequestContext, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@handler(
    ApiKey.INIT_PRODUCER_ID,
    versions=(0, 5),
    omissions="Transactional producers are answered with UNSUPPORTED_VERSION.",
)
async def init_producer_id(
    ctx: RequestContext, request: messages.InitProducerIdRequest
) -> messages.InitProducerIdResponse:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _failed(ErrorCode.UNSUPPORTED_VERSION if request.transactional_id else ErrorCode.INVALID_REQUEST)
    try:
        producer_id = await ctx.broker.controller.next_producer_id()
    except KafkaError as error:
        return _failed(error.code)
    return messages.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _failed(code: ErrorCode) -> messages.InitProducerIdResponse:
    return messages.InitProducerIdResponse(
        error_code=int(code), producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )
