"""Whether this broker serves the protocols of consumer groups (KIP-848) and of streams groups (KIP-1071)."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext


def is_consumer_served(ctx: RequestContext) -> bool:
    """Whether the cluster has finalized group.version, and the setting names the protocol."""
    groups = ctx.broker.groups
    return "consumer" in groups.served and "consumer" in groups.protocols


def is_streams_served(ctx: RequestContext) -> bool:
    """The same for streams.version."""
    groups = ctx.broker.groups
    return "streams" in groups.served and "streams" in groups.protocols
