"""Who may ask for delegation tokens at all."""

from __future__ import annotations

from broker_cy.security.acls import ANONYMOUS
from broker_cy.server.context import RequestContext


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
