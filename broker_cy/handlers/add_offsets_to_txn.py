"""AddOffsetsToTxn (25), versions 0-4: the partition of `__consumer_offsets` that keeps a group becomes part of a
producer's transaction. 2 has PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before.

Producers of transaction.version 2 do without it.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.routing import OFFSETS_TOPIC
from broker_cy.coordinator.txn.state import ProducerIdAndEpoch
from broker_cy.coordinator_services.txn_service import VERSION_OLD
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.shared.txn_answers import fenced_before
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

VERSION_FENCED = 2


@handler(ApiKey.ADD_OFFSETS_TO_TXN)
async def add_offsets_to_txn(
    ctx: RequestContext, request: messages.AddOffsetsToTxnRequest
) -> messages.AddOffsetsToTxnResponse:
    if not ctx.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return messages.AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not ctx.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return messages.AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    # A client that commits offsets looks up the group's coordinator, but perhaps later.
    groups = ctx.broker.groups
    code = await groups.ensure_topic()
    if code is ErrorCode.NONE:
        partition = (OFFSETS_TOPIC, groups.partition_for(request.group_id))
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        code = await ctx.broker.transactions.add_partitions(
            request.transactional_id, producer, frozenset((partition,)), VERSION_OLD
        )
    return messages.AddOffsetsToTxnResponse(error_code=fenced_before(VERSION_FENCED, ctx.version, code))
