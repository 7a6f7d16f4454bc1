"""Timeouts of open transactions, and the expiration of unused transactional ids."""

from __future__ import annotations

from typing import Final

from broker_cy.coordinator.txn import end
from broker_cy.coordinator.txn.state import TIMEOUT_NEVER_MS, Transaction, TxnState
from broker_cy.coordinator.txn.transaction_table import TransactionTable, TxnStep
from broker_cy.core.step import Now
from broker_cy.metrics.events import PARTITIONS_REPORTED_MAX, TransactionTimedOut

# Transactional ids that one step deletes: about 8 microseconds each, without appending.
DELETIONS_PER_STEP: Final = 500
# Transactional ids that one step looks at: less than a microsecond each.
LOOKS_PER_STEP: Final = 10_000


def abort_timed_out(machine: TransactionTable, step: TxnStep, now: Now) -> None:
    """Abort transactions that are open for longer than their producer's timeout. If one needs a producer id and none is
    available, the step asks for one, and the next call aborts the transaction.
    """
    # Each abort is whole in itself, and there may be more of them than one batch can hold.
    step.atomic = False
    for transactional_id in list(machine.ongoing):
        transaction = machine.transactions[transactional_id]
        if _is_timed_out(transaction, now) and not machine.is_changing(transactional_id):
            aborted = end.abort_fenced(machine, step, transaction, now)
            if aborted:
                step.events.append(timed_out(transaction, now))


def timed_out(transaction: Transaction, now: Now) -> TransactionTimedOut:
    return TransactionTimedOut(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        now.wall_ms - transaction.start_ms,
        sorted(f"{topic}-{partition}" for topic, partition in transaction.partitions)[:PARTITIONS_REPORTED_MAX],
        len(transaction.partitions),
    )


def _is_timed_out(transaction: Transaction, now: Now) -> bool:
    return transaction.timeout_ms != TIMEOUT_NEVER_MS and transaction.start_ms + transaction.timeout_ms < now.wall_ms


def remove_expired(machine: TransactionTable, step: TxnStep, now: Now) -> None:
    """Begin a search for ids that exceed `transactional.id.expiration.ms`: a part of them now unless other deletions
    are being written, the others by `remove_some`. An unfinished search continues.
    """
    if not machine.unswept:
        machine.unswept.extend(machine.transactions)
    if machine.may_delete(now):
        remove_some(machine, step, now)


def remove_some(machine: TransactionTable, step: TxnStep, now: Now) -> None:
    """Delete expired ids among those that the current search has not looked at, within the bounds of a step."""
    step.atomic = False
    oldest_ms = now.wall_ms - machine.settings.id_expiration_ms
    looks = 0
    while machine.unswept and len(step.records) < DELETIONS_PER_STEP and looks < LOOKS_PER_STEP:
        transactional_id = machine.unswept.popleft()
        looks += 1
        transaction = machine.transactions.get(transactional_id)
        if transaction is None or not (transaction.state is TxnState.EMPTY or transaction.state.is_complete):
            continue
        if transaction.last_update_ms <= oldest_ms and not machine.is_changing(transactional_id):
            machine.forget(step, transactional_id)
    if step.records:
        machine.deletes(step)
