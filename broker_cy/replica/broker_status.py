"""The state of brokers, as the leaders of partitions know it."""

from __future__ import annotations

from broker_cy.core.classes import NamedTuple


class BrokerStatus(NamedTuple):
    """A registered broker: its epoch, whether it may join in-sync sets (it is neither fenced nor shutting down), its
    rack.
    """

    epoch: int
    is_eligible: bool
    rack: str | None = None
