"""The coordinator of the transactional ids in one partition of `__transaction_state`: a state machine without socket,
file or clock.

Durable state is `transactions`, which only `_set` changes, both for records read from the log and for those that an
operation has just created. Everything else is live state, which `loaded` rebuilds: the transactions that are being
completed, and which of them wait for a retry.

The caller appends the records of each `Step` in order, and calls `written` or `failed` when their outcome is known. It
writes the markers in `outbox` and reports the results to `markers_written`. It calls `expire` no later than
`next_wake_ms`, and adds a producer id when `wants_producer_id` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker_cy.coordinator.base import StateMachine
from broker_cy.coordinator.step import Now, Record, Step, Token
from broker_cy.coordinator.txn import admin, end, expiry, init, markers, partitions, records
from broker_cy.coordinator.txn.markers import Ending, Markers
from broker_cy.coordinator.txn.settings import TxnSettings
from broker_cy.coordinator.txn.state import TopicPartition, Transaction, TxnState
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages


class TransactionStateMachine(StateMachine[str]):
    """Invariants: `ending` has exactly the ids whose transaction is prepared and whose record of that is on disk;
    `ongoing` those whose state is ONGOING. `timers` has, by transactional id, when to retry the markers of a
    transaction that is being completed.
    """

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
        self.outbox: list[Markers] = []
        """Markers to be written; the caller takes them out."""
        self.settled: list[str] = []
        """Transactional ids that can be asked again, after CONCURRENT_TRANSACTIONS; the caller takes them out."""
        self.producer_ids: list[int] = []
        """Unused producer ids; see `take_producer_id`."""
        self.wants_producer_id = False
        """An operation needs a producer id: the caller adds one to `producer_ids` and runs the operation again."""
        # The steps whose records of a transactional id are not on disk yet, the oldest first.
        self._unwritten: dict[str, list[Step]] = {}
        self._endings = 0

    # ---- loading ----

    def load_record(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Replay a record from the log. Raises WireError if it is malformed."""
        self.next_offset = offset + 1
        if records.key_type(key) != records.KEY_TYPE:
            self.unknown_records += 1
            return
        transactional_id = records.id_of_key(key)
        found = None
        if value is not None:
            found = records.decode_value(transactional_id, value)
            if found is None:
                # As in Kafka, the previous value stays.
                self.unknown_records += 1
                return
        self._set(transactional_id, found)

    def load_marker(self, offset: int, producer_id: int, committed: bool) -> None:
        """There are no transactions in this log."""
        self.next_offset = offset + 1

    def loaded(self, now: Now) -> Step:
        """All records of the log are replayed: transactions whose end is decided are ended."""
        step = Step()
        for transaction in list(self.transactions.values()):
            if transaction.state.is_prepared:
                self.start_ending(step, transaction, now)
        return step

    # ---- records of an operation ----

    def change(self, step: Step, transaction: Transaction) -> None:
        """Make the record of a transaction's change part of the step and replay it."""
        self._append(step, transaction.transactional_id, transaction)

    def forget(self, step: Step, transactional_id: str) -> None:
        """The same for the end of a transactional id."""
        self._append(step, transactional_id, None)

    def _append(self, step: Step, transactional_id: str, transaction: Transaction | None) -> None:
        new: Record = (
            records.tombstone(transactional_id)
            if transaction is None
            else records.record(transaction, self.transaction_version)
        )
        before = self.transactions.get(transactional_id)
        step.records.append(new)
        step._undo.append(self._undo(transactional_id, before))
        self._set(transactional_id, transaction)
        self.next_offset += 1
        self._unwritten.setdefault(transactional_id, []).append(step)
        step.then(
            lambda out, now: self._known(transactional_id, step),
            lambda out, now, code: self._known(transactional_id, step),
        )

    def _undo(self, transactional_id: str, before: Transaction | None) -> Callable[[], None]:
        return lambda: self._set(transactional_id, before)

    def _known(self, transactional_id: str, step: Step) -> None:
        """Handle the result of writing a step that has a record of this transactional id."""
        waiting = [other for other in self._unwritten[transactional_id] if other is not step]
        if waiting:
            self._unwritten[transactional_id] = waiting
        else:
            del self._unwritten[transactional_id]
            self.settled.append(transactional_id)

    def _set(self, transactional_id: str, transaction: Transaction | None) -> None:
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if transaction is not None and transaction.state is TxnState.ONGOING:
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)

    def unwritten(self, transactional_id: str) -> Step | None:
        """Return the newest step with a record of this id that is not on disk yet."""
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

    def take_producer_id(self) -> int | None:
        """An unused producer id. Without one, None, and `wants_producer_id` is set."""
        if self.producer_ids:
            return self.producer_ids.pop()
        self.wants_producer_id = True
        return None

    # ---- markers ----

    def start_ending(self, step: Step, transaction: Transaction, now: Now) -> None:
        """The record of a decided end is on disk: write the markers."""
        self._endings += 1
        ending = Ending(self._endings, set(transaction.partitions))
        self.ending[transaction.transactional_id] = ending
        markers.go_on(self, step, transaction, ending, now)

    def markers_written(self, sent: Markers, results: Mapping[TopicPartition, ErrorCode], now: Now) -> Step:
        """Handle the results of markers from the outbox, for each of their partitions."""
        step = Step()
        markers.written(self, step, sent, results, now)
        return step

    # ---- time ----

    def expire(self, now: Now) -> Step:
        """Retry failed markers that are due now."""
        step = Step()
        for transactional_id in self.timers.due(now.mono_ms):
            ending = self.ending.get(transactional_id)
            if ending is not None:
                markers.go_on(self, step, self.transactions[transactional_id], ending, now)
        return step

    def abort_timed_out(self, now: Now) -> Step:
        """Abort transactions that are open for longer than their producer's timeout. One that needs a producer id when
        there is none (see `wants_producer_id`) is left to the next call.
        """
        step = Step()
        expiry.abort_timed_out(self, step, now)
        return step

    def remove_expired(self, now: Now) -> Step:
        """Forget the transactional ids that exceed `transactional.id.expiration.ms`."""
        step = Step()
        expiry.remove_expired(self, step, now)
        return step

    def unload(self) -> Step:
        """This broker no longer coordinates the partition. Nothing to answer: every request that waits does so for a
        record, and `failed` has answered it before.
        """
        return Step()

    # ---- operations; requests are answered under `token` ----

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: init.ProducerIdAndEpoch | None, token: Token, now: Now
    ) -> Step:
        """Answers `init.Initialized`, or None if the operation needs a producer id first."""
        step = Step()
        init.init_producer_id(self, step, transactional_id, timeout_ms, expected, token, now)
        return step

    def add_partitions(
        self,
        transactional_id: str,
        producer: init.ProducerIdAndEpoch,
        added: frozenset[TopicPartition],
        client_version: int,
        token: Token,
        now: Now,
    ) -> Step:
        """Answers an ErrorCode."""
        step = Step()
        partitions.add(self, step, transactional_id, producer, added, client_version, token, now)
        return step

    def verify_partitions(
        self,
        transactional_id: str,
        producer: init.ProducerIdAndEpoch,
        asked: Iterable[TopicPartition],
        token: Token,
        now: Now,
    ) -> Step:
        """Answers a dict from partition to ErrorCode."""
        step = Step()
        partitions.verify(self, step, transactional_id, producer, asked, token)
        return step

    def end(
        self,
        transactional_id: str,
        producer: init.ProducerIdAndEpoch,
        commit: bool,
        client_version: int,
        token: Token,
        now: Now,
    ) -> Step:
        """Answers `end.Ended`, or None if the operation needs a producer id first."""
        step = Step()
        end.end(self, step, transactional_id, producer, commit, client_version, token, now)
        return step

    def describe(self, transactional_id: str) -> messages.DescribeTransactionsResponse.TransactionState:
        return admin.describe(self, transactional_id)

    def list_transactions(
        self, wanted: admin.Filter, now: Now
    ) -> list[messages.ListTransactionsResponse.TransactionState]:
        return admin.list_transactions(self, wanted, now)
