"""DescribeTransactions (65), version 0 (KIP-664): the state of transactional ids, with the partitions that are part of
an open transaction, or have no marker yet.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions(
    ctx: RequestContext, request: messages.DescribeTransactionsRequest
) -> messages.DescribeTransactionsResponse:
    return messages.DescribeTransactionsResponse(
        transaction_states=[_describe(ctx, name) for name in request.transactional_ids]
    )


def _describe(ctx: RequestContext, name: str) -> messages.DescribeTransactionsResponse.TransactionState:
    if not ctx.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
        return messages.DescribeTransactionsResponse.TransactionState(
            transactional_id=name, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    state = ctx.broker.transactions.describe(name)
    shown = ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, (topic.topic for topic in state.topics))
    state.topics = [topic for topic in state.topics if topic.topic in shown]
    return state
