"""EndTxn, and the aborts that the coordinator starts itself: the decision to end a transaction.

With transaction.version 2 (EndTxn 5) each end bumps the epoch, so the epoch distinguishes a retry from a new request.
An abort is then allowed although no transaction was started, because the producer cannot know that.
"""

from __future__ import annotations

from broker_cy.coordinator.txn import markers
from broker_cy.coordinator.txn.state import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    VERSION_EPOCH_BUMP,
    ProducerIdAndEpoch,
    Transaction,
    TxnState,
)
from broker_cy.coordinator.txn.transaction_table import TransactionTable, TxnStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token


class Ended(NamedTuple):
    """The answer. The producer continues with this id and epoch; they are -1 if the answer does not have them."""

    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


def end(
    machine: TransactionTable,
    step: TxnStep,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    commit: bool,
    client_version: int,
    token: Token,
    now: Now,
) -> None:
    """Answers `Ended`, or None if the step needs a producer id."""
    transaction = machine.transactions.get(transactional_id)
    if transaction is None:
        step.reply(token, Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        return
    bumps = client_version >= VERSION_EPOCH_BUMP
    changing = machine.is_changing(transactional_id)
    check = _check_bumping if bumps else _check
    answer = check(transaction, producer, commit, changing)
    if answer is not None:
        step.reply(token, answer)
        return
    next_producer_id = _next_producer_id(machine, step, transaction) if bumps else NO_PRODUCER_ID
    if next_producer_id is None:
        step.reply(token, None)
        return
    state = TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT
    decided = transaction.ended(state, client_version if bumps else 0, now.wall_ms, next_producer_id=next_producer_id)
    answer = Ended(ErrorCode.NONE)
    if bumps:
        after = decided.completed(now.wall_ms)
        answer = Ended(ErrorCode.NONE, after.producer_id, after.producer_epoch)
    decide(machine, step, decided)
    step.reply_when_written(token, answer, Ended)


def decide(machine: TransactionTable, step: TxnStep, decided: Transaction) -> None:
    """Write the record of a decided end, and then the markers."""
    machine.change(step, decided)
    step.then(Decided(decided))


class Decided(NamedTuple):
    """The record of a decided end: the markers follow it."""

    transaction: Transaction

    def written(self, machine: TransactionTable, out: TxnStep, now: Now) -> None:
        markers.start(machine, out, self.transaction, now)

    def failed(self, machine: TransactionTable, out: TxnStep, now: Now, code: ErrorCode) -> None:
        """The transaction is open again, as the record is undone."""


def abort_fenced(machine: TransactionTable, step: TxnStep, transaction: Transaction, now: Now) -> bool:
    """Abort an ongoing transaction and fence its producer with a bumped epoch. False if that needs a new producer id
    first (see `TransactionTable.take_producer_id`).
    """
    version = machine.transaction_version
    if version < VERSION_EPOCH_BUMP:
        decide(machine, step, transaction.fenced().ended(TxnState.PREPARE_ABORT, 0, now.wall_ms))
        return True
    next_producer_id = _next_producer_id(machine, step, transaction)
    if next_producer_id is None:
        return False
    decided = transaction.ended(TxnState.PREPARE_ABORT, version, now.wall_ms, next_producer_id=next_producer_id)
    decide(machine, step, decided)
    return True


def _next_producer_id(machine: TransactionTable, step: TxnStep, transaction: Transaction) -> int | None:
    """The producer id after an end that bumps the epoch: -1 to keep the current one, None if a new one is needed
    first.
    """
    return machine.take_producer_id(step) if transaction.epoch_exhausted else NO_PRODUCER_ID


def _check(transaction: Transaction, producer: ProducerIdAndEpoch, commit: bool, changing: bool) -> Ended | None:
    """The answer to a producer that does not bump epochs (EndTxn 0 to 4); None if its transaction is to be ended."""
    if transaction.producer_id != producer.producer_id:
        return Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer.epoch:
        return Ended(ErrorCode.PRODUCER_FENCED)
    if changing:
        return Ended(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TxnState.ONGOING:
        return None
    same = transaction.state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)
    return Ended(ErrorCode.NONE if same else ErrorCode.INVALID_TXN_STATE)


def _check_bumping(
    transaction: Transaction, producer: ProducerIdAndEpoch, commit: bool, changing: bool
) -> Ended | None:
    """The same for EndTxn 5. A pending change is checked first: after the epochs were exhausted the producer may
    already know its new id.
    """
    if changing:
        return Ended(ErrorCode.CONCURRENT_TRANSACTIONS)
    current = transaction.producer_epoch
    complete = transaction.state.is_complete
    after_overflow = (
        transaction.previous_producer_id == producer.producer_id and producer.epoch == EPOCH_MAX - 1 and current == 0
    )
    retry = current == producer.epoch + 1 or after_overflow
    if transaction.producer_id != producer.producer_id and not after_overflow:
        return Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if producer.epoch != current and not (complete and retry):
        return Ended(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TxnState.ONGOING:
        return None
    if complete and retry:
        same = transaction.state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT)
        if same:
            return Ended(ErrorCode.NONE, transaction.producer_id, current)
        # A producer that repeats its request decides as before: the coordinator has aborted the transaction meanwhile,
        # because it timed out. INVALID_TXN_STATE would be fatal for the client (KAFKA-20785).
        return Ended(ErrorCode.PRODUCER_FENCED if commit else ErrorCode.INVALID_TXN_STATE)
    # No transaction was started: there is nothing to commit, and an abort only bumps the epoch.
    return Ended(ErrorCode.INVALID_TXN_STATE) if commit else None
