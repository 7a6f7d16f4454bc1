"""Replication of this broker: its partitions with several replicas follow their leaders, or report in-sync sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_cy.replication.alterations import Alterations
from broker_cy.replication.broker_links import AlterLink, BrokerLinks
from broker_cy.replication.fetcher import Follower
from broker_cy.replication.fetcher_manager import ReplicaFetcherManager

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.metadata.image import ImageDelta
    from broker_cy.replication.throttles import Throttles


class BrokerReplication:
    """`fetchers` are those of followers, `alterations` the reports of leaders. `close` ends both."""

    def __init__(self, broker: Broker, throttles: Throttles, flush: Callable[[], int]) -> None:
        """`flush` writes the staged batches of all partitions."""
        config, node_id, controller = broker.config, broker.node_id, broker.controller

        def broker_epoch() -> int:
            return controller.broker_epoch

        links = BrokerLinks(node_id, lambda: broker.image, config.network.inter_broker, broker.outgoing)
        self.fetchers = ReplicaFetcherManager(
            Follower(
                node_id,
                broker_epoch,
                config,
                broker.clock,
                broker.loop,
                links,
                broker.log_manager,
                flush,
                throttles.follower,
            )
        )
        self.alterations = Alterations(node_id, broker_epoch, broker.loop, AlterLink(controller))

    def apply(self, delta: ImageDelta) -> None:
        """The committed metadata have changed."""
        self.fetchers.apply(delta)

    def close(self) -> None:
        self.fetchers.close()
        self.alterations.close()
