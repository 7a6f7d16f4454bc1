"""DeleteAcls (31), versions 1-3: deletes the ACLs that each filter selects, and returns them.

All filters of a request are one atomic change of the metadata log; INVALID_REQUEST for more than 10,000 entries.
Without an authorizer SECURITY_DISABLED, as in Kafka. Kafka closes the connection for a filter with the number 0, which
is INVALID_REQUEST here.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import KafkaError
from broker_cy.handlers.create_acls import require_authorizer
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


def _failed(_: RequestContext, request: messages.DeleteAclsRequest, error: KafkaError) -> messages.DeleteAclsResponse:
    return messages.DeleteAclsResponse(
        filter_results=[
            messages.DeleteAclsResponse.DeleteAclsFilterResult(error_code=int(error.code), error_message=error.message)
            for _ in request.filters
        ]
    )


@handler(ApiKey.DELETE_ACLS)
@at_controller(messages.DeleteAclsResponse, _failed, needs=Operation.ALTER)
async def delete_acls(ctx: RequestContext, request: messages.DeleteAclsRequest) -> messages.DeleteAclsResponse:
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.acl_ops import DeleteAcls

    require_authorizer(ctx)
    results = await ctx.broker.controller.submit(DeleteAcls(request.filters, ctx.author))
    return messages.DeleteAclsResponse(filter_results=results)
