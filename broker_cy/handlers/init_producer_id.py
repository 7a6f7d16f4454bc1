"""InitProducerId (22), versions 0-5.

An idempotent producer gets a new producer id, with epoch 0. One that sends its current id and epoch (KIP-360, version
3) gets a new id as well, as in Kafka without a transactional id.

A transactional producer gets the id and epoch of its transactional id, which fences its previous producers, from the
coordinator of that id. Before version 4 clients do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH.

Omissions: version 6, which is not stable in Kafka 4.3 either, has two-phase commit (KIP-939).
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.txn.init import Initialized
from broker_cy.coordinator.txn.state import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.txn_answers import fenced_before
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_FENCED = 4


@handler(
    ApiKey.INIT_PRODUCER_ID,
    versions=(0, 5),
    requires="WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic",
)
async def init_producer_id(
    ctx: RequestContext, request: messages.InitProducerIdRequest
) -> messages.InitProducerIdResponse:
    answer = await _init(ctx, request)
    return messages.InitProducerIdResponse(
        error_code=fenced_before(VERSION_FENCED, ctx.version, answer.code),
        producer_id=answer.producer_id,
        producer_epoch=answer.epoch,
    )


async def _init(ctx: RequestContext, request: messages.InitProducerIdRequest) -> Initialized:
    if request.transactional_id is not None:
        if not ctx.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
            return Initialized(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not (
        ctx.allows_cluster(Operation.IDEMPOTENT_WRITE, in_list=True)
        or ctx.allows_some(Operation.WRITE, ResourceType.TOPIC)
        # Neither: the refusal that is reported names this right.
        or ctx.allows_cluster(Operation.IDEMPOTENT_WRITE)
    ):
        return Initialized(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return Initialized(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        try:
            return Initialized(ErrorCode.NONE, await ctx.broker.controller.next_producer_id(), 0)
        except KafkaError as error:
            return Initialized(error.code)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    return await ctx.broker.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected
    )
