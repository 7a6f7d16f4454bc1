"""Whether this broker serves the consumer protocol (KIP-848)."""

from __future__ import annotations

from broker_cy.broker.context import RequestContext
from broker_cy.metadata.features import GROUP_VERSION

_PROTOCOLS = "group.coordinator.rebalance.protocols"


def is_served(ctx: RequestContext) -> bool:
    """Whether the cluster has finalized group.version, and the setting names the protocol."""
    broker = ctx.broker
    return broker.image.features.served(GROUP_VERSION) > 0 and "consumer" in broker.config[_PROTOCOLS]
