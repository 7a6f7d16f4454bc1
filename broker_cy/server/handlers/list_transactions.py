"""ListTransactions (66), versions 0-2: the transactional ids of this broker and their states (KIP-664).

1 filters by how long ago the transaction began (KIP-994), 2 by a pattern of the transactional id (KIP-1152).
"""

from __future__ import annotations

from broker_cy.coordinator.txn.admin import Filter
from broker_cy.coordinator.txn.pattern import PatternError
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(
    ApiKey.LIST_TRANSACTIONS,
    versions=(0, 2),
    requires="DESCRIBE on each transactional id; other ids are left out",
)
def list_transactions(
    ctx: RequestContext, request: messages.ListTransactionsRequest
) -> messages.ListTransactionsResponse:
    try:
        wanted, unknown = Filter.of(request)
        found = ctx.broker.transactions.list_transactions(wanted)
    except PatternError:
        return messages.ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    except KafkaError as error:
        return messages.ListTransactionsResponse(error_code=error.code)
    ids = (state.transactional_id for state in found)
    shown = ctx.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ids, in_list=True)
    found = [state for state in found if state.transactional_id in shown]
    return messages.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)
