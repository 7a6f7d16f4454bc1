"""The runtime of one partition of the share coordinator, which also cuts its log. See `coordinator_runtime`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_cy.coordinator.share_state import upkeep
from broker_cy.coordinator.share_state.settings import ShareStateSettings
from broker_cy.coordinator.share_state.share_state_machine import ShareStateMachine
from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime, LoadState, RuntimeContext
from broker_cy.core.errors import KafkaError
from broker_cy.core.logs import facts
from broker_cy.metadata import features
from broker_cy.storage.errors import StorageError

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition

DeleteBefore = Callable[["Partition", int], None]
"""Deletes the records of a partition that this broker leads below an offset. Raises KafkaError, StorageError."""


class ShareStateRuntime(CoordinatorRuntime[ShareStateMachine, CoordinatorStep]):
    """Owns a `ShareStateMachine` and its partition of `__share_group_state`."""

    coordinator = "share coordinator"

    def __init__(
        self,
        partition: Partition,
        leader_epoch: int,
        context: RuntimeContext,
        settings: ShareStateSettings,
        delete_before: DeleteBefore,
    ) -> None:
        super().__init__(partition, leader_epoch, ShareStateMachine(settings), context)
        self.codec = settings.compression_codec
        self.pruned_offset: int | None = None
        """The offset below which this runtime has deleted the records last."""
        self._delete_before = delete_before

    def loaded_facts(self) -> dict[str, object]:
        return {"share_partitions": len(self.machine.entries)}

    def _timeout_ms(self, step: CoordinatorStep) -> int:
        return self.machine.settings.write_timeout_ms

    # ---- upkeep, which Kafka too does only while share groups are enabled ----

    def _is_enabled(self) -> bool:
        enabled = self.machine.image.features.level(features.SHARE_VERSION) > 0
        return enabled and self.state is LoadState.ACTIVE

    def snapshot_cold(self) -> None:
        """Write old snapshots again."""
        if self._is_enabled():
            self.accept(self.machine.run(upkeep.snapshot_cold, self.now()))

    def prune(self) -> None:
        """Delete redundant records, once it is committed which ones are."""
        if self._is_enabled():
            self.run(upkeep.redundant_offset).add_done_callback(self._prune)

    def _prune(self, answer: asyncio.Future[int | None]) -> None:
        offset = answer.result()
        if offset is None or offset == self.pruned_offset or self.state is not LoadState.ACTIVE:
            return
        try:
            self._check_epoch()
            self._delete_before(self.partition, offset)
        except (KafkaError, StorageError) as error:
            # The next interval tries again.
            self.logger.warning(
                "could not delete redundant records",
                extra=facts(partition=f"{self.partition.topic}-{self.partition.index}", reason=str(error)),
            )
            return
        self.pruned_offset = offset
