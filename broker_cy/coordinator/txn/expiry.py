"""Timeouts of open transactions, and the expiration of unused transactional ids."""

from __future__ import annotations

from broker_cy.coordinator.step import Now
from broker_cy.coordinator.txn import end
from broker_cy.coordinator.txn.shard import TransactionShard, TxnStep
from broker_cy.coordinator.txn.state import TIMEOUT_NEVER_MS, Transaction, TxnState
from broker_cy.metrics.events import PARTITIONS_REPORTED_MAX, TransactionTimedOut


def abort_timed_out(machine: TransactionShard, step: TxnStep, now: Now) -> None:
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


def remove_expired(machine: TransactionShard, step: TxnStep, now: Now) -> None:
    step.atomic = False
    oldest_ms = now.wall_ms - machine.settings.id_expiration_ms
    for transactional_id, transaction in list(machine.transactions.items()):
        expires = transaction.state is TxnState.EMPTY or transaction.state.is_complete
        if expires and transaction.last_update_ms <= oldest_ms and not machine.is_changing(transactional_id):
            machine.forget(step, transactional_id)
