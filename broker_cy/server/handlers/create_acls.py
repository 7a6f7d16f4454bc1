"""CreateAcls (30), versions 1-3: one result for each entry; those that exist already are a success.

The entries that can be created are one atomic change of the metadata log, of at most 10,000 records. Without an
authorizer SECURITY_DISABLED, as in Kafka. An entry with ANY, MATCH or the number 0 is INVALID_REQUEST here; Kafka
answers UNKNOWN_SERVER_ERROR for all entries of the request, or closes the connection.
"""

from __future__ import annotations

from typing import cast

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.security.acls import Operation
from broker_cy.server.context import RequestContext
from broker_cy.server.registry import BOTH, handler
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

NO_AUTHORIZER = "No Authorizer is configured."


@handler(ApiKey.CREATE_ACLS, versions=(1, 3), on=BOTH, requires="ALTER on the cluster")
async def create_acls(ctx: RequestContext, request: messages.CreateAclsRequest) -> messages.CreateAclsResponse:
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.acl_ops import CreateAcls

    try:
        if (answer := await ctx.broker.controller.forward(ctx, request, messages.CreateAclsResponse)) is not None:
            return cast(messages.CreateAclsResponse, answer)
        ctx.require_cluster(Operation.ALTER)
        if ctx.broker.authorization is None:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        results = await ctx.broker.controller.submit(CreateAcls(request.creations, ctx.author))
    except KafkaError as error:
        results = [
            messages.CreateAclsResponse.AclCreationResult(error_code=int(error.code), error_message=error.message)
            for _ in request.creations
        ]
    return messages.CreateAclsResponse(results=results)
