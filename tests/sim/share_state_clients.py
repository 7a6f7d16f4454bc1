"""The clients of the share state simulation, and the coordinator that they use."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, cast

from broker_cy.coordinator.share_state.share_state_machine import ShareStateMachine
from broker_cy.coordinator.share_state.state import NO_EPOCH, NO_START_OFFSET, SharePartitionKey, StateBatch
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica.partition import Partition
from tests.broker_cy.coordinator.share_state.share_state_harness import ShareStateHarness
from tests.sim.real_partitions import Partitions

LOG = ("__share_group_state", 0)


class LoggedHarness(ShareStateHarness):
    """A harness whose log is a partition, which it may write to in one leader epoch."""

    def __init__(self, partitions: Partitions, **settings: Any) -> None:
        self.partitions = partitions
        self.leader_epoch = self.partition.leader_epoch
        super().__init__(**settings)

    @property
    def partition(self) -> Partition:
        return self.partitions[LOG]

    def write_held(self) -> None:
        found = [record for step in self.held for record in step.records]
        if found:
            try:
                # The runtime does the same before each append.
                CoordinatorRuntime._check_epoch(cast(Any, self))
            except KafkaError as error:
                self.fail(error.code)
                return
            self.partitions.append(LOG, found, self.wall_ms)
        super().write_held()

    def replayed(self) -> ShareStateMachine:
        """Return a machine with the records of the file, which must be those that were written."""
        log = self.partition.log
        assert log is not None
        self.log_start = log.log_start_offset
        machine = ShareStateMachine(self.settings)
        machine.take_image(self.image)
        for batch in self.partitions.batches(LOG, self.log_start):
            for record in batch.records():
                assert record.key is not None
                assert (record.key, record.value) == self.log[record.offset], "the log lost or changed records"
                if record.offset >= self.log_start:
                    machine.apply(record.offset, -1, record.key, record.value)
        machine.next_offset = log.log_end_offset
        assert machine.next_offset == len(self.log), "the log of the coordinator lost records"
        return machine

    def restart(self) -> None:
        self.partitions.crash()
        self.load()

    def load(self) -> None:
        """Begin to coordinate in the current leader epoch, with the records in the log."""
        self.leader_epoch = self.partition.leader_epoch
        super().restart()

    def cut(self) -> None:
        """Delete redundant records, unless the answer waits for a record."""
        offset = self.redundant_offset()
        log = self.partition.log
        if offset is not None and log is not None:
            self.partitions.manager.delete_records_before(log, offset)

    def successor(self, kept: int) -> LoggedHarness:
        """Return the coordinator of the next leader epoch, on the broker that also has the records of the first `kept`
        pending steps. It shares the answers, and no other mutable state.
        """
        records = [record for step in self.held[:kept] for record in step.records]
        if records:
            self.partitions.append(LOG, records, self.wall_ms)
        self.partitions.elect(LOG)
        found = copy.copy(self)
        found.held = []
        found.log = self.log + records
        found.hold = False
        found.load()
        return found

    def learn(self) -> None:
        """This is no longer the coordinator: pending requests are answered, as the runtime does when it is closed."""
        self.hold = True
        self.fail(ErrorCode.NOT_COORDINATOR)
        self.take(self.machine.unload())


@dataclass
class Leader:
    """The leader of a topic partition, for one share group: it knows the state once it has read it."""

    key: SharePartitionKey
    epoch: int
    state_epoch: int | None = None
    start_offset: int = NO_START_OFFSET
    is_fenced: bool = False
    """A newer leader has read the state."""


@dataclass
class Request:
    """A request that waits for its answer."""

    kind: str
    key: SharePartitionKey
    leader: Leader | None = None
    state_epoch: int = NO_EPOCH
    start_offset: int = NO_START_OFFSET
    batches: tuple[StateBatch, ...] = ()
    was_fenced: bool = False
    """Its sender had been replaced, with knowledge of the new leader, before it sent this."""
    is_current: bool = False
    """When it was sent, its sender was the only leader that may write."""
