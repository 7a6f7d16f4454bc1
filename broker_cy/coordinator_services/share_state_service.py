"""The share coordinator of this broker: one runtime for each partition of `__share_group_state`. See
`coordinator_service`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from broker_cy.coordinator.share_state import answers, operations
from broker_cy.coordinator.share_state.answers import Outcome, StateRead, SummaryRead
from broker_cy.coordinator.share_state.settings import ShareStateSettings
from broker_cy.coordinator.share_state.share_state_machine import ShareStateMachine
from broker_cy.coordinator.share_state.share_state_table import ShareStateTable
from broker_cy.coordinator.share_state.state import SharePartitionKey, ShareState
from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.coordinator_services.coordinator_service import CoordinatorService, ServiceContext
from broker_cy.coordinator_services.share_state_runtime import DeleteBefore, ShareStateRuntime
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from broker_cy.metadata import topic_names
from broker_cy.metrics.histogram import Histogram

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ShareStateService(CoordinatorService[ShareStateRuntime, ShareStateMachine]):
    topic = topic_names.SHARE_GROUP_STATE
    what = "share partition"

    def __init__(self, context: ServiceContext, delete_before: DeleteBefore) -> None:
        super().__init__(context)
        self.settings = ShareStateSettings.from_config(context.config)
        self._clock = context.clock
        self.write_times = Histogram()
        """The times of writes, of this broker's share partitions and of others'; one for each share partition."""
        self._delete_before = delete_before
        self._sweep_every(self.settings.cold_snapshot_interval_ms, ShareStateRuntime.snapshot_cold)
        self._sweep_every(self.settings.prune_interval_ms, ShareStateRuntime.prune)

    def _new_runtime(self, partition: Partition, leader_epoch: int) -> ShareStateRuntime:
        return ShareStateRuntime(partition, leader_epoch, self._runtime_context, self.settings, self._delete_before)

    # ---- for handlers and the persister ----

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Outcome:
        return await self._run(answers.refused_initialization, operations.initialize, key, state_epoch, start_offset)

    async def write(self, key: SharePartitionKey, change: ShareState) -> Outcome:
        """`change` has the epochs of the sender, and the batches of its write."""
        begin_s = self._clock.monotonic()
        outcome = await self._run(answers.refused_write, operations.write, key, change)
        self.write_times.observe_ns(int((self._clock.monotonic() - begin_s) * 1e9))
        return outcome

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> StateRead:
        return await self._run(answers.refused_read, operations.read, key, leader_epoch)

    async def read_summary(self, key: SharePartitionKey) -> SummaryRead:
        return await self._run(answers.refused_summary, operations.read_summary, key)

    async def delete(self, key: SharePartitionKey) -> Outcome:
        return await self._run(answers.refused_deletion, operations.delete, key)

    async def _run(
        self,
        refused: Callable[[ErrorCode], T],
        operation: Callable[[ShareStateTable, CoordinatorStep, SharePartitionKey, *Ts, Any, Now], None],
        key: SharePartitionKey,
        *request: *Ts,
    ) -> T:
        """Return the answer of an operation, or that of a coordinator which is not ready, or is another broker."""
        try:
            runtime = await self.ready(key.text)
        except KafkaError as error:
            return refused(error.code)
        answer: T = await runtime.run(operation, key, *request)
        return answer

    def pruned_offsets(self) -> dict[int, int]:
        """The offset of the last cut, by partition of the topic."""
        return {
            index: runtime.pruned_offset
            for index, runtime in self.runtimes.items()
            if runtime.pruned_offset is not None
        }
