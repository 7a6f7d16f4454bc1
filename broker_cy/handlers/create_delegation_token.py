"""CreateDelegationToken (38), versions 1-3: a token that lets a client log in as the owner (KIP-48).

Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED without a login, or with one by a token;
DELEGATION_TOKEN_AUTHORIZATION_FAILED without permission to make tokens of another user (KIP-373);
DELEGATION_TOKEN_AUTH_DISABLED without delegation.token.secret.key; INVALID_PRINCIPAL_TYPE for an owner or a renewer
that is not a user.
"""

from __future__ import annotations

from typing import cast

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.handlers.shared.token_requests import may_ask
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

# From this version on the response names the requester.
_REQUESTER_VERSION = 3


def _check(ctx: RequestContext, request: messages.CreateDelegationTokenRequest) -> None:
    # Imported here, because most nodes never get this request, and start sooner without the module.
    from broker_cy.controller import token_ops

    owner = token_ops.owner_of(request, ctx.principal)
    if not may_ask(ctx):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if owner != ctx.principal and not ctx.allows(Operation.CREATE_TOKENS, ResourceType.USER, owner):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if token_ops.names_others_than_users(request, owner):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)


def _failed(
    ctx: RequestContext, request: messages.CreateDelegationTokenRequest, error: KafkaError
) -> messages.CreateDelegationTokenResponse:
    from broker_cy.controller import token_ops

    kind, _, name = token_ops.owner_of(request, ctx.principal).partition(":")
    requester_kind, _, requester_name = ctx.principal.partition(":")
    return messages.CreateDelegationTokenResponse(
        error_code=int(error.code),
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


@at_controller(messages.CreateDelegationTokenResponse, _failed, before=_check)
async def _create(
    ctx: RequestContext, request: messages.CreateDelegationTokenRequest
) -> messages.CreateDelegationTokenResponse:
    from broker_cy.controller.token_ops import CreateToken

    response = await ctx.broker.controller.submit(CreateToken(request, ctx.author))
    return cast(messages.CreateDelegationTokenResponse, response)


@handler(ApiKey.CREATE_DELEGATION_TOKEN)
async def create_delegation_token(
    ctx: RequestContext, request: messages.CreateDelegationTokenRequest
) -> messages.CreateDelegationTokenResponse:
    response = await _create(ctx, request)
    if ctx.version < _REQUESTER_VERSION:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response
