"""The runtime of one partition of the group coordinator. See `coordinator_runtime`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker_cy.coordinator import commit, expiry, markers
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.step import GroupStep, Place
from broker_cy.coordinator.written import WrittenGroups
from broker_cy.coordinator_services.coordinator_runtime import (
    CoordinatorRuntime,
    LoadState,
    RuntimeContext,
)
from broker_cy.coordinator_services.record_writer import code_of, size_bytes
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.storage.errors import StorageError
from broker_cy.wire import messages
from broker_cy.wire import records as wire_records

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.verification import Verification

__all__ = ["GroupRuntime", "LoadState"]


class GroupRuntime(CoordinatorRuntime[GroupMachine, GroupStep]):
    """Owns a `GroupMachine` and its partition of `__consumer_offsets`."""

    coordinator = "group coordinator"
    logger = logging.getLogger("broker_cy.server.groups")

    def __init__(
        self, partition: Partition, leader_epoch: int, context: RuntimeContext, settings: GroupSettings
    ) -> None:
        super().__init__(partition, leader_epoch, GroupMachine(settings), context)
        self.codec = settings.offsets_topic_compression_codec
        self.on_commits: Callable[[GroupMachine, Sequence[Place]], None] = ignore_commits

    def loaded_facts(self) -> dict[str, object]:
        return {"groups": len(self.machine.groups), "offsets": self.machine.offsets.count}

    def accept(self, step: GroupStep) -> None:
        if step.committed:
            self.on_commits(self.machine, step.committed)
        super().accept(step)

    def written(self) -> WrittenGroups:
        """The groups as the written records leave them."""
        return WrittenGroups(self.machine.groups, self.unwritten())

    def commit_transactional(
        self, request: messages.TxnOffsetCommitRequest, verification: Verification | None
    ) -> asyncio.Future[Any]:
        """Run the operation of the same name; its records become one transactional batch."""
        token: asyncio.Future[Any] = self._loop.create_future()
        self._make_way()
        now = self.now()
        step = self.machine.run(commit.commit_transactional, request, token, now)
        if not step.records:
            self.accept(step)
            return token
        batch = wire_records.encode_batch(
            [wire_records.Record(timestamp=now.wall_ms, key=key, value=value) for key, value in step.records],
            codec=self.codec,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            # As in Kafka's coordinators: each batch claims to be the first, and no reader checks it.
            base_sequence=0,
            transactional=True,
        )
        try:
            if size_bytes(step.records) > self._max_batch_bytes():
                raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE)
            self._check_epoch()
            self._check_room()
            written = self.partition.append_transactional(batch, now.wall_ms, verification)
        except (KafkaError, StorageError) as error:
            # The step is the newest one, so it can be undone alone.
            self.accept(self.machine.failed([step], code_of(error), now))
            return token
        self._follow(step, written)
        self._expect(step)
        return token

    def end_transaction(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, committed: bool, transaction_version: int
    ) -> asyncio.Future[ErrorCode]:
        """Write the marker that commits or discards the producer's offsets.

        Raises KafkaError as check and Partition.append_marker, NOT_LEADER_OR_FOLLOWER if another leader epoch has
        begun, or COORDINATOR_NOT_AVAILABLE if too many records wait to be committed; the future receives the code of a
        failed write. How long the marker is waited for is up to the caller.
        """
        code = self.check()
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        token: asyncio.Future[ErrorCode] = self._loop.create_future()
        self._make_way()
        self._check_epoch()
        self._check_room()
        written = self.partition.append_marker(
            producer_id, producer_epoch, coordinator_epoch, committed, self._clock.wall_ms(), transaction_version
        )
        self._follow(self.machine.run(markers.end_transaction, producer_id, committed, token), written)
        return token

    def _timeout_ms(self, step: GroupStep) -> int:
        return self.machine.settings.offsets_commit_timeout_ms

    def sweep(self) -> None:
        """Apply `offsets.retention.minutes`."""
        if self.state is LoadState.ACTIVE:
            self.accept(self.machine.run(expiry.sweep, self.now()))


def ignore_commits(_: object, __: Sequence[Place]) -> None:
    """Ignore commits; the default of `on_commits`."""
