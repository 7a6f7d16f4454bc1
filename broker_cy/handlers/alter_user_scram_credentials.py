"""AlterUserScramCredentials (51), version 0: set and delete SCRAM credentials (KIP-554).

One result for each user. The request has no error of its own, so that an error of all is that of each user.
"""

from __future__ import annotations

from typing import cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import Operation
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


def _failed(
    _: RequestContext, request: messages.AlterUserScramCredentialsRequest, error: KafkaError
) -> messages.AlterUserScramCredentialsResponse:
    response = messages.AlterUserScramCredentialsResponse
    users = {each.name for each in request.deletions} | {each.name for each in request.upsertions}
    return response(
        results=[
            response.AlterUserScramCredentialsResult(user=user, error_code=int(error.code), error_message=error.message)
            for user in sorted(users)
        ]
    )


@handler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
@at_controller(messages.AlterUserScramCredentialsResponse, _failed, needs=Operation.ALTER)
async def alter_user_scram_credentials(
    ctx: RequestContext, request: messages.AlterUserScramCredentialsRequest
) -> messages.AlterUserScramCredentialsResponse:
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.scram_ops import AlterScramCredentials

    response = await ctx.broker.controller.submit(AlterScramCredentials(request, ctx.author))
    return cast(messages.AlterUserScramCredentialsResponse, response)
