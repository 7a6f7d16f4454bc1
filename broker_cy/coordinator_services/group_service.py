"""The group coordinator of this broker: one runtime for each partition of `__consumer_offsets`. See
`coordinator_service`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVarTuple

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.routing import OFFSETS_TOPIC
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.step import GroupStep, Place
from broker_cy.coordinator_services.coordinator_service import CoordinatorService, ServiceContext
from broker_cy.coordinator_services.group_runtime import GroupRuntime, ignore_commits
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from broker_cy.metadata.features import GROUP_VERSION, STREAMS_VERSION

if TYPE_CHECKING:
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.replica.partition import Partition

Ts = TypeVarTuple("Ts")

# The settings of groups that may change while the broker runs.
_DYNAMIC: Final = tuple(f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams"))

_FEATURES: Final = {"consumer": GROUP_VERSION, "streams": STREAMS_VERSION}


class GroupService(CoordinatorService[GroupRuntime, GroupMachine]):
    topic = OFFSETS_TOPIC
    what = "group"
    logger = logging.getLogger("broker_cy.server.groups")

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self.on_commits: Callable[[GroupMachine, Sequence[Place]], None] = ignore_commits
        self.settings = GroupSettings.from_config(context.config)
        self.protocols: Final = frozenset[str](context.config["group.coordinator.rebalance.protocols"])
        # Types of groups that the features of the cluster allow.
        self.served: frozenset[str] = frozenset()
        context.config.on_change(self._take_settings, *_DYNAMIC)
        self._sweep_every(self.settings.offsets_retention_check_interval_ms, GroupRuntime.sweep)

    def _new_runtime(self, partition: Partition, leader_epoch: int) -> GroupRuntime:
        runtime = GroupRuntime(partition, leader_epoch, self._runtime_context, self.settings)
        runtime.on_commits = self.on_commits
        return runtime

    def _take_settings(self, changed: frozenset[str]) -> None:
        self.settings = GroupSettings.from_config(self._config)
        for runtime in self.runtimes.values():
            runtime.machine.settings = self.settings

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        # Each heartbeat asks.
        self.served = frozenset(kind for kind, feature in _FEATURES.items() if image.features.served(feature) > 0)
        super().apply(delta, image)

    # ---- for handlers ----

    async def run(
        self, group_id: str, operation: Callable[[GroupMachine, GroupStep, *Ts, Any, Now], None], *request: *Ts
    ) -> Any:
        """`GroupRuntime.run` on the group's coordinator; returns the answer. Waits and raises as `ready`."""
        return await (await self.ready(group_id)).run(operation, *request)

    def end_transaction(
        self,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> asyncio.Future[ErrorCode]:
        """GroupRuntime.end_transaction in one partition of `__consumer_offsets`. Raises also
        KafkaError(NOT_COORDINATOR).
        """
        runtime = self.runtimes.get(index)
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{OFFSETS_TOPIC}-{index} is not served")
        return runtime.end_transaction(producer_id, producer_epoch, coordinator_epoch, commit, transaction_version)

    def readable(self) -> list[GroupRuntime]:
        """The runtime of each partition. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while one is still being
        loaded.
        """
        return self._loaded_runtimes()
