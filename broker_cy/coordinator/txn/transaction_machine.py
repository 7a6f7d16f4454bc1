"""The life cycle of a transaction coordinator: the end of loading, deadlines, and the end.

The caller appends the records of each `TxnStep` in order, and calls `written` or `failed` when their outcome is known.
It writes the step's markers and reports the results (`markers.written`). It calls `expire` no later than
`next_wake_ms`.
"""

from __future__ import annotations

from broker_cy.coordinator.txn import expiry, markers
from broker_cy.coordinator.txn.transaction_table import TransactionTable, TxnStep
from broker_cy.core.step import Now


class TransactionMachine(TransactionTable):
    """The state machine that the runtime drives. Operations see only its state, so this module is above theirs."""

    def loaded(self, now: Now) -> TxnStep:
        """All records of the log are applied: transactions whose end is decided are ended."""
        step = TxnStep()
        for transaction in list(self.transactions.values()):
            if transaction.state.is_prepared:
                markers.start(self, step, transaction, now)
        return step

    # ---- time ----

    def expire(self, now: Now) -> TxnStep:
        """Retry failed markers that are due now, or go on with the search for expired ids."""
        step = TxnStep()
        for transactional_id in self.timers.due(now.mono_ms):
            ending = self.ending.get(transactional_id)
            if ending is not None:
                markers.go_on(self, step, self.transactions[transactional_id], ending, now)
        if self.has_deletions() and self.may_delete(now) and not step.records:
            # Records of markers are not mixed with those that may be written in parts.
            expiry.remove_some(self, step, now)
        return step

    def unload(self) -> TxnStep:
        """This broker no longer coordinates the partition. Nothing to answer: every request that waits does so for a
        record, and `failed` has answered it before.
        """
        return TxnStep()
