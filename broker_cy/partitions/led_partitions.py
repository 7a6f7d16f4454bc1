"""The partitions with several replicas that this broker leads. Slow and silent followers leave their in-sync sets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker_cy.core.logs import facts
from broker_cy.replica.broker_status import BrokerStatus
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.silence import FollowerSilence

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.replica.flush_group import FlushGroup
    from broker_cy.replica.partition import Partition

LOGGER = logging.getLogger("broker_cy.server.partitions")


class LedPartitions:
    """Bounded by the partitions and the brokers of the cluster."""

    def __init__(self, config: BrokerConfig, group: FlushGroup) -> None:
        self._config = config
        self._group = group
        # The brokers of the image, shared by the leaders' InSync.
        self._broker_statuses: dict[int, BrokerStatus] = {}
        self.silence = FollowerSilence(
            config["brokercy.replica.silence.max.ms"], config["replica.lag.time.max.ms"], self._broker_statuses
        )
        """The brokers that have stopped fetching; the code that answers fetches reports to it."""
        self._led: dict[tuple[str, int], Partition] = {}
        self._last_tick_s = 0.0

    def take_brokers(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Take the brokers that have changed."""
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            if broker is None:
                self._broker_statuses.pop(broker_id, None)
            else:
                self._broker_statuses[broker_id] = BrokerStatus(broker.epoch, broker.is_active, broker.rack)

    def add(self, partition: Partition) -> None:
        """This broker leads the partition; known before or not."""
        self._led[partition.topic, partition.index] = partition

    def remove(self, partition: Partition) -> None:
        """This broker does not lead the partition, or no longer."""
        self._led.pop((partition.topic, partition.index), None)

    def settle_deletes(self) -> None:
        """Brokers have changed: requests to delete records wait for no broker that is fenced."""
        for partition in self._led.values():
            partition.settle_deletes()

    def new_in_sync(self) -> InSync:
        """For a partition that begins to lead; it sets min.insync.replicas."""
        lag_max_ms = self._config["replica.lag.time.max.ms"]
        return InSync(self._config.node_id, self._broker_statuses, lag_max_ms, 1, self.silence)

    def drop_slow(self, now_s: float) -> None:
        """Remove slow and silent followers from in-sync sets. Cheap without any."""
        if not self._led:
            return
        silence = self.silence
        if silence.tick(int(now_s * 1000)):
            LOGGER.warning("followers have stopped fetching", extra=facts(brokers=sorted(silence.silent)))
        is_due = now_s - self._last_tick_s >= self._config["replica.lag.time.max.ms"] / 2000
        if is_due:
            self._last_tick_s = now_s
        elif not silence.silent:
            return
        self._group.before_ticks()
        for partition in self._led.values():
            in_sync = partition.replica.in_sync
            if is_due or (in_sync is not None and not silence.silent.isdisjoint(in_sync.isr)):
                partition.tick()
