"""EndTxn (26), versions 0-5: commits or aborts a transaction. The answer is sent when the decision is on disk; the
markers follow.

2 has PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before. 5 is for producers of transaction.version 2 (KIP-890):
each end bumps the epoch, and the answer has the producer's next id and epoch.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.txn.state import ProducerIdAndEpoch
from broker_cy.coordinator_services.txn_service import VERSION_IMPLICIT, VERSION_OLD
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.shared.txn_answers import fenced_before
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_FENCED = 2
VERSION_BUMPS = 5


@handler(ApiKey.END_TXN)
async def end_txn(ctx: RequestContext, request: messages.EndTxnRequest) -> messages.EndTxnResponse:
    if not ctx.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return messages.EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    answer = await ctx.broker.transactions.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        request.committed,
        VERSION_IMPLICIT if ctx.version >= VERSION_BUMPS else VERSION_OLD,
    )
    return messages.EndTxnResponse(
        error_code=fenced_before(VERSION_FENCED, ctx.version, answer.code),
        producer_id=answer.producer_id,
        producer_epoch=answer.epoch,
    )
