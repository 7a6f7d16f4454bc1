"""The client of a request, as the group coordinator records it."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.coordinator.step import ClientFacts


def client_facts(ctx: RequestContext) -> ClientFacts:
    """Return the client facts; the host starts with a slash, as Java's InetAddress prints it and tools expect it."""
    return ClientFacts(ctx.client_id or "", f"/{ctx.client_host}", ctx.version)
