"""The group coordinator of this broker: the shards of `__consumer_offsets`. See `coordinator_service`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_cy.coordinator.routing import OFFSETS_TOPIC
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.shard import Shard
from broker_cy.coordinator.step import Now, Step
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.server.coordinator_service import CoordinatorService, Submit, Sweeper
from broker_cy.server.group_shard import GroupShard

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import TopicImage
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable

Operation = Callable[[Shard, Any, Now], Step]


class GroupService(CoordinatorService[GroupShard]):
    topic = OFFSETS_TOPIC
    what = "group"
    logger = logging.getLogger("broker_cy.server.groups")

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        partitions: PartitionTable,
        submit: Submit,
        topic_settings: Callable[[str], Any],
        executor: Executor | None = None,
    ) -> None:
        super().__init__(config, clock, loop, partitions, submit, topic_settings, executor)
        self.settings = GroupSettings.from_config(config)
        interval_ms = self.settings.offsets_retention_check_interval_ms
        self._sweepers.append(Sweeper(loop, interval_ms, lambda: list(self.shards.values()), GroupShard.sweep))

    def _new_shard(self, partition: Partition) -> GroupShard:
        return GroupShard(
            partition, self.settings, self._clock, self._loop, lambda: self._max_batch_bytes, self._executor
        )

    def _topics_gone(self, topics: list[TopicImage]) -> None:
        """Delete the offsets committed in them."""
        deleted = [(topic.name, topic.topic_id) for topic in topics]
        for shard in self._active():
            shard.accept(shard.shard.topics_deleted(deleted))

    # ---- for handlers ----

    def run(self, group_id: str, operation: Operation) -> asyncio.Future[Any]:
        """Run `operation(shard, token, now)` on the group's shard; the future gets its answer. Raises as shard_for."""
        return self.shard_for(group_id).run(operation)

    def end_transaction(
        self,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> asyncio.Future[ErrorCode]:
        """GroupShard.end_transaction in one partition of `__consumer_offsets`. Raises also
        KafkaError(NOT_COORDINATOR).
        """
        shard = self.shards.get(index)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{OFFSETS_TOPIC}-{index} is not served")
        return shard.end_transaction(producer_id, producer_epoch, coordinator_epoch, commit, transaction_version)

    def readable_shards(self) -> list[Shard]:
        """All shards there are. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) where one is not loaded yet."""
        return [shard.shard for shard in self._loaded_shards()]

    def shards_now(self) -> list[Shard]:
        """All shards that are loaded."""
        return [shard.shard for shard in self._active()]
