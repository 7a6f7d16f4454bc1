"""The group coordinator of this broker: one runtime for each partition of `__consumer_offsets`. See
`coordinator_service`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_cy.coordinator.routing import OFFSETS_TOPIC
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.state_machine import GroupStateMachine
from broker_cy.coordinator.step import Now, Step
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.server.coordinator_service import CoordinatorService, Submit, Sweeper
from broker_cy.server.group_runtime import GroupRuntime

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import TopicImage
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable

Operation = Callable[[GroupStateMachine, Any, Now], Step]


class GroupService(CoordinatorService[GroupRuntime]):
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
        self._sweepers.append(Sweeper(loop, interval_ms, lambda: list(self.runtimes.values()), GroupRuntime.sweep))

    def _new_runtime(self, partition: Partition) -> GroupRuntime:
        return GroupRuntime(
            partition, self.settings, self._clock, self._loop, lambda: self._max_batch_bytes, self._executor
        )

    def _topics_gone(self, topics: list[TopicImage]) -> None:
        """Delete the offsets committed for the deleted topics."""
        deleted = [(topic.name, topic.topic_id) for topic in topics]
        for runtime in self._active():
            runtime.accept(runtime.machine.topics_deleted(deleted))

    # ---- for handlers ----

    def run(self, group_id: str, operation: Operation) -> asyncio.Future[Any]:
        """Run `operation(machine, token, now)` where the group is coordinated; the future gets its answer. Raises as
        runtime_for.
        """
        return self.runtime_for(group_id).run(operation)

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

    def readable_machines(self) -> list[GroupStateMachine]:
        """The state machine of each partition. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while one is still being
        loaded.
        """
        return [runtime.machine for runtime in self._loaded_runtimes()]

    def machines_now(self) -> list[GroupStateMachine]:
        """The state machines that are loaded."""
        return [runtime.machine for runtime in self._active()]
