"""DescribeDelegationToken (41), versions 1-3: tokens with their HMACs, from the committed metadata (KIP-48, KIP-373).

A client sees the tokens that it owns, has requested or may renew, and those that ACLs let it see. Expired tokens are
listed until they are swept. Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED without a login, or with one by a token;
DELEGATION_TOKEN_AUTH_DISABLED without delegation.token.secret.key.
"""

from __future__ import annotations

from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.core import tokens
from broker_cy.core.errors import ErrorCode
from broker_cy.handlers.shared.token_requests import may_ask
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

# From this version on the response names the requester.
_REQUESTER_VERSION = 3

_Response = messages.DescribeDelegationTokenResponse


@handler(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def describe_delegation_token(
    ctx: RequestContext, request: messages.DescribeDelegationTokenRequest
) -> messages.DescribeDelegationTokenResponse:
    if not may_ask(ctx):
        return _Response(error_code=int(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    secret_key = ctx.broker.config.token_secret_key
    if not secret_key:
        return _Response(error_code=int(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    return _Response(
        tokens=[
            _described(token, tokens.hmac_of(secret_key, token.token_id), ctx.version)
            for token in ctx.broker.image.tokens.values()
            if _is_shown(ctx, token, owners)
        ]
    )


def _is_shown(ctx: RequestContext, token: Any, owners: set[str] | None) -> bool:
    concerned = {token.owner, token.requester, *token.renewers}
    if owners is not None and not owners & concerned:
        return False
    return (
        ctx.principal in concerned
        or ctx.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, in_list=True)
        or ctx.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, in_list=True)
    )


def _described(token: Any, token_hmac: bytes, version: int) -> _Response.DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    requester_kind, _, requester_name = (
        token.requester.partition(":") if version >= _REQUESTER_VERSION else ("", "", "")
    )
    return _Response.DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac,
        renewers=[
            _Response.DescribedDelegationTokenRenewer(
                principal_type=each.partition(":")[0], principal_name=each.partition(":")[2]
            )
            for each in token.renewers
        ],
    )
