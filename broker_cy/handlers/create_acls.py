"""CreateAcls (30), versions 1-3: one result for each entry; those that exist already are a success.

The entries that can be created are one atomic change of the metadata log, of at most 10,000 records. Without an
authorizer SECURITY_DISABLED, as in Kafka. An entry with ANY, MATCH or the number 0 is INVALID_REQUEST here; Kafka
answers UNKNOWN_SERVER_ERROR for all entries of the request, or closes the connection.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

NO_AUTHORIZER = "No Authorizer is configured."


def require_authorizer(ctx: RequestContext) -> None:
    """Raises KafkaError on a node without one."""
    if ctx.broker.authorization is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def _failed(_: RequestContext, request: messages.CreateAclsRequest, error: KafkaError) -> messages.CreateAclsResponse:
    return messages.CreateAclsResponse(
        results=[
            messages.CreateAclsResponse.AclCreationResult(error_code=int(error.code), error_message=error.message)
            for _ in request.creations
        ]
    )


@handler(ApiKey.CREATE_ACLS)
@at_controller(messages.CreateAclsResponse, _failed, needs=Operation.ALTER)
async def create_acls(ctx: RequestContext, request: messages.CreateAclsRequest) -> messages.CreateAclsResponse:
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.acl_ops import CreateAcls

    require_authorizer(ctx)
    results = await ctx.broker.controller.submit(CreateAcls(request.creations, ctx.author))
    return messages.CreateAclsResponse(results=results)
