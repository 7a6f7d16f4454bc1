"""The partitions of the transaction simulation: those that transactions write to, and that of the coordinator."""

from __future__ import annotations

import copy
from typing import Any, cast

from broker_cy.coordinator.txn.state import Markers, TopicPartition
from broker_cy.coordinator.txn.transaction_machine import TransactionMachine
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica.partition import Partition
from broker_cy.replica.verification import Verification
from broker_cy.wire.control import ControlType, control_type
from broker_cy.wire.records import Record as WireRecord
from broker_cy.wire.records import encode_batch
from tests.broker_cy.coordinator.txn_harness import TxnHarness
from tests.sim.real_partitions import Partitions

LOG: TopicPartition = ("__transaction_state", 0)


class DataPartition:
    """A partition that transactions write to. Its log shows which transactions are open, and how the others ended."""

    def __init__(self, partitions: Partitions, place: TopicPartition) -> None:
        self.partitions = partitions
        self.place = place
        self.begin()

    def begin(self) -> None:
        """Begin to read the log from its start."""
        self.open: dict[int, set[int]] = {}
        self.first_offsets: dict[int, int] = {}
        self.ended: dict[int, set[bool]] = {}
        self.end_offset = 0

    @property
    def partition(self) -> Partition:
        return self.partitions[self.place]

    def verify(self, identity: tuple[int, int], *, adds: bool) -> Verification | None:
        """The verification that a batch needs to open a transaction; None if it is open. Raises KafkaError."""
        return self.partition.verify_producer(*identity, adds=adds)

    def produce(
        self, identity: tuple[int, int], transaction: int, verification: Verification | None, now_ms: int
    ) -> ErrorCode:
        """Append a record that names its transaction. Like the group coordinator's records it has no sequence."""
        batch = encode_batch(
            [WireRecord(timestamp=now_ms, key=None, value=b"%d" % transaction)],
            producer_id=identity[0],
            producer_epoch=identity[1],
            transactional=True,
        )
        try:
            self.partition.append_transactional(batch, now_ms, verification)
        except KafkaError as error:
            return error.code
        self.follow()
        return ErrorCode.NONE

    def mark(self, sent: Markers, now_ms: int) -> ErrorCode:
        try:
            self.partition.append_marker(
                sent.producer_id,
                sent.producer_epoch,
                sent.coordinator_epoch,
                sent.commit,
                now_ms,
                sent.transaction_version,
            )
        except KafkaError as error:
            return error.code
        self.follow()
        return ErrorCode.NONE

    def follow(self) -> None:
        """Write staged batches, and read the new part of the log."""
        self.partitions.turn()
        for batch in self.partitions.batches(self.place, self.end_offset):
            self.end_offset = batch.last_offset + 1
            (record,) = batch.records()
            if batch.is_control:
                commit = control_type(record) is ControlType.COMMIT
                self.first_offsets.pop(batch.producer_id, None)
                for transaction in self.open.pop(batch.producer_id, ()):
                    self.ended.setdefault(transaction, set()).add(commit)
            else:
                assert record.value is not None
                self.first_offsets.setdefault(batch.producer_id, batch.base_offset)
                self.open.setdefault(batch.producer_id, set()).add(int(record.value))

    def check(self) -> None:
        """Check that the last stable offset is the first offset of the oldest open transaction."""
        stable = min(self.first_offsets.values(), default=self.partition.high_watermark)
        assert self.partition.last_stable_offset == stable, f"{self.place}: the last stable offset is not {stable}"

    def read_again(self) -> None:
        """Check that reading the whole log gives the same result as reading it while it was written."""
        before = self.open, self.first_offsets, self.ended, self.end_offset
        self.begin()
        self.follow()
        assert (self.open, self.first_offsets, self.ended, self.end_offset) == before, (
            f"{self.place}: a second read differs"
        )


class LoggedHarness(TxnHarness):
    """A harness whose log is a partition, too, which it may write to in one leader epoch."""

    def __init__(self, partitions: Partitions, version: int) -> None:
        self.partitions = partitions
        super().__init__(version)

    @property
    def partition(self) -> Partition:
        return self.partitions[LOG]

    def _new(self) -> TransactionMachine:
        machine = super()._new()
        self.leader_epoch = machine.coordinator_epoch = self.partition.leader_epoch
        return machine

    def write(self) -> None:
        found = [record for step in self.held for record in step.records]
        if found:
            try:
                # The runtime does the same before each append.
                CoordinatorRuntime._check_epoch(cast(Any, self))
            except KafkaError as error:
                self.fail(error.code)
                return
            self.partitions.append(LOG, found, self.wall_ms)
        super().write()

    def successor(self, kept: int) -> LoggedHarness:
        """Return the coordinator of the next leader epoch, on the broker that also has the records of the first `kept`
        pending steps. It shares the answers, and no other mutable state. This one does not know of it.
        """
        records = [record for step in self.held[:kept] for record in step.records]
        if records:
            self.partitions.append(LOG, records, self.wall_ms)
        self.partitions.elect(LOG)
        found = copy.copy(self)
        found.held, found.sent, found.written = [], [], []
        found.log = self.log + records
        found.hold = False
        found.restart()
        return found

    def restart(self) -> None:
        found = self.partitions.records(LOG)
        assert found == self.log, "the log of the coordinator lost records"
        self.log = found
        super().restart()
