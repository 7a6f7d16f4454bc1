"""The coordinator of the transactional ids in one partition of `__transaction_state`: a state machine without socket,
file or clock. Its state is `TransactionMachine`.

The caller appends the records of each `TxnStep` in order, and calls `written` or `failed` when their outcome is known.
It writes the step's markers and reports the results to `markers_written`. It calls `expire` no later than
`next_wake_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker_cy.coordinator.step import Now, Token
from broker_cy.coordinator.txn import admin, end, expiry, init, markers, partitions
from broker_cy.coordinator.txn.state import Markers, ProducerIdAndEpoch, TopicPartition
from broker_cy.coordinator.txn.transaction_machine import TransactionMachine, TxnStep
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages


class TransactionStateMachine(TransactionMachine):
    """The operations of the transaction coordinator on its state."""

    def loaded(self, now: Now) -> TxnStep:
        """All records of the log are replayed: transactions whose end is decided are ended."""
        step = TxnStep()
        for transaction in list(self.transactions.values()):
            if transaction.state.is_prepared:
                markers.start(self, step, transaction, now)
        return step

    # ---- markers ----

    def markers_written(self, sent: Markers, results: Mapping[TopicPartition, ErrorCode], now: Now) -> TxnStep:
        """Handle the results of markers from the outbox, for each of their partitions."""
        step = TxnStep()
        markers.written(self, step, sent, results, now)
        return step

    # ---- time ----

    def next_wake_ms(self) -> int | None:
        return 0 if expiry.goes_on(self) else super().next_wake_ms()

    def expire(self, now: Now) -> TxnStep:
        """Retry failed markers that are due now, or go on with the search for expired ids."""
        step = TxnStep()
        for transactional_id in self.timers.due(now.mono_ms):
            ending = self.ending.get(transactional_id)
            if ending is not None:
                markers.go_on(self, step, self.transactions[transactional_id], ending, now)
        if expiry.goes_on(self) and not step.records:
            # Records of markers are not mixed with those that may be written in parts.
            expiry.remove_some(self, step, now)
        return step

    def abort_timed_out(self, now: Now) -> TxnStep:
        """Abort transactions that are open for longer than their producer's timeout. If one needs a producer id and
        none is available, the step asks for one, and the next call aborts the transaction.
        """
        step = TxnStep()
        expiry.abort_timed_out(self, step, now)
        return step

    def remove_expired(self, now: Now) -> TxnStep:
        """Delete transactional ids that exceed `transactional.id.expiration.ms`: a part now, the others by `expire`."""
        step = TxnStep()
        expiry.remove_expired(self, step, now)
        return step

    def unload(self) -> TxnStep:
        """This broker no longer coordinates the partition. Nothing to answer: every request that waits does so for a
        record, and `failed` has answered it before.
        """
        return TxnStep()

    # ---- operations; requests are answered under `token` ----

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, token: Token, now: Now
    ) -> TxnStep:
        """Answers `init.Initialized`, or None if the step needs a producer id."""
        step = TxnStep()
        init.init_producer_id(self, step, transactional_id, timeout_ms, expected, token, now)
        return step

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        added: frozenset[TopicPartition],
        client_version: int,
        token: Token,
        now: Now,
    ) -> TxnStep:
        """Answers an ErrorCode."""
        step = TxnStep()
        partitions.add(self, step, transactional_id, producer, added, client_version, token, now)
        return step

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        asked: Iterable[TopicPartition],
        token: Token,
        now: Now,
    ) -> TxnStep:
        """Answers a dict from partition to ErrorCode."""
        step = TxnStep()
        partitions.verify(self, step, transactional_id, producer, asked, token)
        return step

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        commit: bool,
        client_version: int,
        token: Token,
        now: Now,
    ) -> TxnStep:
        """Answers `end.Ended`, or None if the step needs a producer id."""
        step = TxnStep()
        end.end(self, step, transactional_id, producer, commit, client_version, token, now)
        return step

    def describe(self, transactional_id: str) -> messages.DescribeTransactionsResponse.TransactionState:
        return admin.describe(self, transactional_id)

    def list_transactions(
        self, wanted: admin.Filter, now: Now
    ) -> list[messages.ListTransactionsResponse.TransactionState]:
        return admin.list_transactions(self, wanted, now)
