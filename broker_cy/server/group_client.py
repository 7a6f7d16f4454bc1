"""Who sent a request, as the group coordinator notes it."""

from __future__ import annotations

from broker_cy.coordinator.step import ClientFacts
from broker_cy.server.registry import RequestContext


def client_facts(ctx: RequestContext) -> ClientFacts:
    """The host with the slash in front that Java's InetAddress prints and tools expect to see."""
    return ClientFacts(ctx.client_id or "", f"/{ctx.client_host}", ctx.version)
