"""Replication of this broker: its partitions with several replicas follow their leaders, or report in-sync sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker_cy.core.mirror_settings import is_mirror, source_topic_id
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.replication.alterations import Alterations
from broker_cy.replication.broker_links import AlterLink, BrokerLinks
from broker_cy.replication.fetcher import Follower
from broker_cy.replication.fetcher_manager import ReplicaFetcherManager

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.replication.mirror_manager import MirrorManager
    from broker_cy.replication.mirror_view import MirrorView
    from broker_cy.replication.throttles import Throttles


class BrokerReplication:
    """`fetchers` are those of followers, and `alterations` the reports of leaders. With the first mirror, leaders also
    fetch from other clusters. `close` ends all.
    """

    def __init__(self, broker: Broker, throttles: Throttles, flush: Callable[[], int]) -> None:
        """`flush` writes the staged batches of all partitions."""
        self._broker = broker
        self._flush = flush
        self._mirrors: MirrorManager | None = None
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

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed, and the partitions have their roles."""
        self.fetchers.apply(delta)
        if self._mirrors is None and self._has_mirrors(delta, image):
            self._mirrors = self._make_mirrors()
        if self._mirrors is not None:
            self._mirrors.apply(delta)

    @staticmethod
    def _has_mirrors(delta: ImageDelta, image: MetadataImage) -> bool:
        """Whether one of the changed topics is a mirror, or was promoted."""
        changed = (
            settings
            for kind, name in delta.configs
            if kind == RESOURCE_TOPIC and (settings := image.configs.topic(name))
        )
        return any(is_mirror(each) or source_topic_id(each) is not None for each in changed)

    def refresh(self, topic: str) -> None:
        """A partition of the topic was opened, or took its role, after the metadata were applied."""
        if self._mirrors is not None:
            self._mirrors.refresh(topic)

    def _make_mirrors(self) -> MirrorManager:
        from broker_cy.replication.mirror_manager import MirrorManager, Parts

        broker = self._broker
        return MirrorManager(
            Parts(
                broker.node_id,
                lambda: broker.controller.broker_epoch,
                broker.config,
                broker.clock,
                broker.loop,
                lambda: broker.image,
                broker.partitions,
                broker.log_manager,
                self._flush,
                broker.controller,
                broker.outgoing,
                broker.cold_reader,
                broker.events.note,
            )
        )

    def mirror_views(self) -> Iterable[MirrorView]:
        """The mirrors that this broker leads, and those that were promoted."""
        return () if self._mirrors is None else self._mirrors.views()

    async def close(self) -> None:
        self.fetchers.close()
        self.alterations.close()
        if self._mirrors is not None:
            await self._mirrors.close()
