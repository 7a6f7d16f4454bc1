"""One shard of the group coordinator at work: see `shard_runtime`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.shard import Shard
from broker_cy.server.shard_runtime import LoadState, ShardRuntime

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.core.clock import Clock
    from broker_cy.replica.partition import Partition

__all__ = ["GroupShard", "LoadState"]


class GroupShard(ShardRuntime[Shard]):
    """Owns a `Shard` and its partition of `__consumer_offsets`."""

    coordinator = "group coordinator"
    logger = logging.getLogger("broker_cy.server.groups")

    def __init__(
        self,
        partition: Partition,
        settings: GroupSettings,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        max_batch_bytes: Callable[[], int],
        executor: Executor | None = None,
    ) -> None:
        super().__init__(partition, Shard(settings), clock, loop, max_batch_bytes, executor)
        self.codec = settings.offsets_topic_compression_codec

    def loaded_facts(self) -> dict[str, object]:
        found: dict[str, object] = {"groups": len(self.shard.groups), "offsets": self.shard.offsets.count}
        if self.shard.unknown_records:
            found["unknown_records"] = self.shard.unknown_records
        return found

    def sweep(self) -> None:
        """Let `offsets.retention.minutes` take effect."""
        if self.state is LoadState.ACTIVE:
            self.accept(self.shard.sweep(self.now()))
