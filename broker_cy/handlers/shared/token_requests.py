"""The common parts of requests about delegation tokens: the clients that may send them, and changes of the expiry."""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast

from broker_cy.broker.context import RequestContext
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.handlers.shared.at_controller import at_controller
from broker_cy.security.acls import ANONYMOUS
from broker_cy.wire import messages

R = TypeVar("R", messages.RenewDelegationTokenResponse, messages.ExpireDelegationTokenResponse)
_NO_TIME_MS: Final = -1


def may_ask(ctx: RequestContext) -> bool:
    """Whether the client may create, renew, expire or describe tokens at all: it has logged in, and not with a token
    (so that a token ends with its life). A broker that has forwarded the request knows the listener.
    """
    if ctx.by_token:
        return False
    if ctx.is_forwarded:
        return True
    network = ctx.broker.config.network
    protocol = next(
        each.protocol for each in (*network.listeners, *network.controller_listeners) if each.name == ctx.listener
    )
    return protocol != "PLAINTEXT" and not (protocol == "SSL" and ctx.principal == ANONYMOUS)


def _check(ctx: RequestContext, _: Any) -> None:
    if not may_ask(ctx):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


async def change_time(ctx: RequestContext, request: Any, response: type[R], operation: Any) -> R:
    """Have `operation`, RenewToken or ExpireToken with the request, run by the active controller."""

    def failed(_ctx: RequestContext, _request: Any, error: KafkaError) -> R:
        return response(error_code=int(error.code), expiry_timestamp_ms=_NO_TIME_MS)

    @at_controller(response, failed, before=_check)
    async def change(ctx: RequestContext, _: Any) -> R:
        return cast(R, await ctx.broker.controller.submit(operation))

    return await change(ctx, request)
