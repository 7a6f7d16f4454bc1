"""InitProducerId of a transactional id: a new one, fencing, bumping the epoch (KIP-360), another producer id where
epochs are exhausted.
"""

from __future__ import annotations

from broker_cy.coordinator.txn import end
from broker_cy.coordinator.txn.state import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    Transaction,
    TxnState,
)
from broker_cy.coordinator.txn.transaction_table import TransactionTable, TxnStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token


class Initialized(NamedTuple):
    """The answer; id and epoch are -1 with a code other than NONE."""

    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


def init_producer_id(
    machine: TransactionTable,
    step: TxnStep,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    token: Token,
    now: Now,
) -> None:
    """Answers `Initialized`, or None if the step needs a producer id."""
    if machine.is_changing(transactional_id):
        step.reply(token, Initialized(ErrorCode.CONCURRENT_TRANSACTIONS))
        return
    transaction = machine.transactions.get(transactional_id)
    if transaction is None:
        producer_id = machine.take_producer_id(step)
        if producer_id is None:
            step.reply(token, None)
            return
        transaction = Transaction(transactional_id, producer_id, timeout_ms, now.wall_ms)
    if expected is not None and not _may_be(transaction, expected):
        step.reply(token, Initialized(ErrorCode.PRODUCER_FENCED))
    elif transaction.state is TxnState.ONGOING:
        _fence(machine, step, transaction, token, now)
    elif transaction.epoch_exhausted and (expected is None or expected.epoch == transaction.producer_epoch):
        _rotate(machine, step, transaction, timeout_ms, expected, token, now)
    else:
        _bump(machine, step, transaction, timeout_ms, expected, token, now)


def _may_be(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Whether the coordinator gave the producer the id that it claims. The previous id is valid after its epochs were
    exhausted, because the answer with the new one may have been lost.
    """
    return (
        transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and expected.epoch >= EPOCH_MAX - 1)
    )


def _fence(machine: TransactionTable, step: TxnStep, transaction: Transaction, token: Token, now: Now) -> None:
    """Abort the transaction of the previous producer; the new one gets CONCURRENT_TRANSACTIONS and retries."""
    if not end.abort_fenced(machine, step, transaction, now):
        step.reply(token, None)
        return
    step.reply_when_written(
        token,
        Initialized(ErrorCode.CONCURRENT_TRANSACTIONS),
        Initialized,
    )


def _rotate(
    machine: TransactionTable,
    step: TxnStep,
    transaction: Transaction,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    token: Token,
    now: Now,
) -> None:
    producer_id = machine.take_producer_id(step)
    if producer_id is None:
        step.reply(token, None)
        return
    last_epoch = NO_PRODUCER_EPOCH if expected is None else transaction.producer_epoch
    _write(
        machine,
        step,
        transaction.initialized(0, last_epoch, timeout_ms, now.wall_ms, producer_id=producer_id),
        token,
    )


def _bump(
    machine: TransactionTable,
    step: TxnStep,
    transaction: Transaction,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    token: Token,
    now: Now,
) -> None:
    epoch = transaction.producer_epoch
    if transaction.epoch_exhausted:
        # A producer with an older epoch; Kafka fails with an internal error here.
        step.reply(token, Initialized(ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    if expected is None:
        new = transaction.initialized(epoch + 1, NO_PRODUCER_EPOCH, timeout_ms, now.wall_ms)
    elif epoch in (NO_PRODUCER_EPOCH, expected.epoch):
        new = transaction.initialized(epoch + 1, epoch, timeout_ms, now.wall_ms)
    elif expected.epoch == transaction.last_producer_epoch:
        # The producer did not receive the answer: send the same one again.
        new = transaction.initialized(epoch, transaction.last_producer_epoch, timeout_ms, now.wall_ms)
    else:
        step.reply(token, Initialized(ErrorCode.PRODUCER_FENCED))
        return
    _write(machine, step, new, token)


def _write(machine: TransactionTable, step: TxnStep, new: Transaction, token: Token) -> None:
    machine.change(step, new)
    step.reply_when_written(
        token,
        Initialized(ErrorCode.NONE, new.producer_id, new.producer_epoch),
        Initialized,
    )
