"""DescribeTransactions (65), version 0 (KIP-664): the state of transactional ids, with the partitions that are part of
an open transaction, or have no marker yet.
"""

from __future__ import annotations

from broker_cy.server.context import RequestContext
from broker_cy.server.registry import handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0))
def describe_transactions(
    ctx: RequestContext, request: messages.DescribeTransactionsRequest
) -> messages.DescribeTransactionsResponse:
    describe = ctx.broker.transactions.describe
    return messages.DescribeTransactionsResponse(
        transaction_states=[describe(name) for name in request.transactional_ids]
    )
