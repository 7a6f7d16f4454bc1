"""RenewDelegationToken (39), versions 1-2: a later expiry time of a token, at most the end of its life (KIP-48).

The owner of a token and its renewers may do that, if they know its HMAC. Errors:
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED without a login, or with one by a token; DELEGATION_TOKEN_AUTH_DISABLED without
delegation.token.secret.key; DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
"""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.handlers.shared.token_requests import change_time
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey


@handler(ApiKey.RENEW_DELEGATION_TOKEN)
async def renew_delegation_token(
    ctx: RequestContext, request: messages.RenewDelegationTokenRequest
) -> messages.RenewDelegationTokenResponse:
    # Imported here, because most nodes are never asked, and start sooner without it.
    from broker_cy.controller.token_ops import RenewToken

    operation = RenewToken(request, ctx.author)
    return await change_time(ctx, request, messages.RenewDelegationTokenResponse, operation)
