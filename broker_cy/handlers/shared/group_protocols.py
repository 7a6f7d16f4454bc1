"""Whether this broker serves the protocols of consumer groups (KIP-848) and of streams groups (KIP-1071)."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.metadata.features import GROUP_VERSION, STREAMS_VERSION


def is_consumer_served(ctx: RequestContext) -> bool:
    """Whether the cluster has finalized group.version, and the setting names the protocol."""
    broker = ctx.broker
    return "consumer" in broker.groups.protocols and broker.image.features.served(GROUP_VERSION) > 0


def is_streams_served(ctx: RequestContext) -> bool:
    """The same for streams.version."""
    broker = ctx.broker
    return "streams" in broker.groups.protocols and broker.image.features.served(STREAMS_VERSION) > 0
