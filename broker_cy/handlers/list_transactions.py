"""ListTransactions (66), versions 0-2: the transactional ids of this broker and their states (KIP-664).

1 filters by how long ago the transaction began (KIP-994), 2 by a pattern of the transactional id (KIP-1152).
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.coordinator.pattern import PatternError
from broker_cy.coordinator.txn import admin
from broker_cy.coordinator.txn.admin import Filter
from broker_cy.coordinator.txn.state import Transaction
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.listing import in_parts
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.LIST_TRANSACTIONS)
def list_transactions(
    ctx: RequestContext, request: messages.ListTransactionsRequest
) -> messages.ListTransactionsResponse | Awaitable[messages.ListTransactionsResponse]:
    try:
        wanted, unknown = Filter.of(request)
        transactions = ctx.broker.transactions.readable_transactions()
    except PatternError:
        return messages.ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    except KafkaError as error:
        return messages.ListTransactionsResponse(error_code=error.code)
    wall_ms = ctx.broker.clock.wall_ms()

    def look(part: Sequence[Transaction]) -> list[messages.ListTransactionsResponse.TransactionState]:
        found = admin.list_transactions(part, wanted, wall_ms)
        ids = (state.transactional_id for state in found)
        shown = ctx.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids, in_list=True)
        return [state for state in found if state.transactional_id in shown]

    def response(
        found: list[messages.ListTransactionsResponse.TransactionState],
    ) -> messages.ListTransactionsResponse:
        return messages.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)

    return in_parts(transactions, look, response)
