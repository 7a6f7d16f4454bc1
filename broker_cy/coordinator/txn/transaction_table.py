"""The state of the transaction coordinator, one for each partition of `__transaction_state`, without socket, file or
clock, and how records change it. Operations are functions of the modules beside this one, which
`TransactionTable.run` runs; the life cycle is in `transaction_machine`.

Durable state is `transactions`, which only `replay` changes, both for records read from the log and for those that an
operation has just created. Everything else is live state: the transactions that are being completed, and which of them
wait for a retry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from broker_cy.coordinator.base import StateMachine
from broker_cy.coordinator.step import CoordinatorStep, Record
from broker_cy.coordinator.txn import records
from broker_cy.coordinator.txn.settings import TxnSettings
from broker_cy.coordinator.txn.state import Ending, Markers, TopicPartition, Transaction, TxnState
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import UNCHANGED, Before, Now
from broker_cy.metadata import features
from broker_cy.metadata.image import MetadataImage


@dataclass(slots=True)
class TxnStep(CoordinatorStep):
    """`markers` are to be written; the caller reports the results (`markers.written`). `settled` are transactional ids
    whose requests can be repeated, after CONCURRENT_TRANSACTIONS. With `needs_producer_id`, the operation did not take
    place: the caller adds a producer id and runs it again. `timeout_ms` is that of the transaction; as in Kafka,
    requests wait that long until its record is committed.
    """

    markers: list[Markers] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)
    needs_producer_id: bool = False
    timeout_ms: int = field(default=0, compare=False)


class TransactionTable(StateMachine[str, TxnStep]):
    """Invariants: `ending` has exactly the ids whose transaction is prepared and whose record of that is on disk;
    `ongoing` those whose state is ONGOING. `timers` has, by transactional id, when to retry the markers of a
    transaction that is being completed.
    """

    new_step = TxnStep

    def __init__(self, settings: TxnSettings) -> None:
        super().__init__()
        self.settings = settings
        self.transaction_version = 0
        """The finalized level of the feature `transaction.version`."""
        self.coordinator_epoch = 0
        """The leader epoch of the partition, which markers carry."""
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        self.ending: dict[str, Ending] = {}
        self.producer_ids: list[int] = []
        """Unused producer ids, which `add_producer_id` adds."""
        # The steps whose records of a transactional id are not on disk yet, the oldest first.
        self._unwritten: dict[str, list[TxnStep]] = {}
        self.endings = 0

    # ---- the metadata ----

    def take_image(self, image: MetadataImage) -> None:
        super().take_image(image)
        self.transaction_version = image.features.finalized.get(features.TRANSACTION_VERSION, 0)

    def exists(self, partition: TopicPartition) -> bool:
        topic = self.image.topics.by_name(partition[0])
        return topic is not None and partition[1] in topic.partitions

    # ---- records ----

    def apply(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
        """Change the state by a record read from the log, and return the state before it. Raises WireError if it is
        malformed.
        """
        self.next_offset = offset + 1
        if records.key_type(key) != records.KEY_TYPE:
            self.unknown_records += 1
            return UNCHANGED
        transactional_id = records.id_of_key(key)
        found = None
        if value is not None:
            found = records.decode_value(transactional_id, value)
            if found is None:
                # As in Kafka, the previous value stays.
                self.unknown_records += 1
                return UNCHANGED
        return self.replay(transactional_id, found)

    def apply_marker(self, offset: int, producer_id: int, committed: bool) -> Before:
        """There are no transactions in this log."""
        self.next_offset = offset + 1
        return UNCHANGED

    def replay(self, transactional_id: str, transaction: Transaction | None) -> TransactionBefore:
        """Change the state by what a record stands for. A record of an operation is not decoded again: it lacks the
        last epoch, which the producer's repeated request needs.
        """
        before = TransactionBefore(transactional_id, self.transactions.get(transactional_id))
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if transaction is not None and transaction.state is TxnState.ONGOING:
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)
        return before

    # ---- records of an operation ----

    def change(self, step: TxnStep, transaction: Transaction) -> None:
        """Make the record of a transaction's change part of the step and apply it."""
        step.timeout_ms = max(step.timeout_ms, transaction.timeout_ms)
        self._append(step, transaction.transactional_id, transaction)

    def forget(self, step: TxnStep, transactional_id: str) -> None:
        """The same for the end of a transactional id."""
        step.timeout_ms = max(step.timeout_ms, self.settings.request_timeout_ms)
        self._append(step, transactional_id, None)

    def _append(self, step: TxnStep, transactional_id: str, transaction: Transaction | None) -> None:
        new: Record = (
            records.tombstone(transactional_id)
            if transaction is None
            else records.record(transaction, self.transaction_version)
        )
        step.records.append(new)
        step.before.append(self.replay(transactional_id, transaction))
        self.next_offset += 1
        self._unwritten.setdefault(transactional_id, []).append(step)
        step.then(IdRecorded(transactional_id))

    def known(self, transactional_id: str, at: int, out: TxnStep) -> None:
        """The outcome of writing a record of this id is known: of the oldest one, or, with `at` -1, the newest."""
        waiting = self._unwritten[transactional_id]
        waiting.pop(at)
        if not waiting:
            del self._unwritten[transactional_id]
            out.settled.append(transactional_id)

    def unwritten(self, transactional_id: str) -> TxnStep | None:
        """Return the newest step with a record of this id that is not on disk yet. No request waits any longer for a
        late one.
        """
        waiting = self._unwritten.get(transactional_id)
        return waiting[-1] if waiting else None

    def is_changing(self, transactional_id: str) -> bool:
        """Whether requests for this id get CONCURRENT_TRANSACTIONS: one of its records is being written, or its
        transaction is being completed. The record that completes a transaction delays nothing: the end is already on
        disk, and the next record is written behind it.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.state.is_prepared:
            return True
        return transactional_id in self._unwritten and (transaction is None or not transaction.state.is_complete)

    def deletions_failed(self, taken: Sequence[Any], now: Now) -> None:
        """The next search finds all expired ids again."""
        self.unswept.clear()
        self.deletions_due_ms = 0

    def take_producer_id(self, step: TxnStep) -> int | None:
        """An unused producer id. Without one, None, and the step needs one."""
        if self.producer_ids:
            return self.producer_ids.pop()
        step.needs_producer_id = True
        return None

    def add_producer_id(self, producer_id: int) -> None:
        """Add an unused producer id, for an operation that needs one."""
        self.producer_ids.append(producer_id)


class TransactionBefore(NamedTuple):
    """The transaction that a record replaced."""

    transactional_id: str
    transaction: Transaction | None

    def restore(self, machine: TransactionTable) -> None:
        machine.replay(self.transactional_id, self.transaction)


class IdRecorded(NamedTuple):
    """A record of a transactional id. Records that fail are always the newest ones."""

    transactional_id: str

    def written(self, machine: TransactionTable, out: TxnStep, now: Now) -> None:
        machine.known(self.transactional_id, 0, out)

    def failed(self, machine: TransactionTable, out: TxnStep, now: Now, code: ErrorCode) -> None:
        machine.known(self.transactional_id, -1, out)
