"""AddPartitionsToTxn and AddOffsetsToTxn: partitions become part of a transaction, or are looked for in it."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.coordinator.step import Answered
from broker_cy.coordinator.txn.state import ProducerIdAndEpoch, TopicPartition, TxnState
from broker_cy.coordinator.txn.transaction_table import TransactionTable, TxnStep
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token


def add(
    machine: TransactionTable,
    step: TxnStep,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    added: frozenset[TopicPartition],
    client_version: int,
    token: Token,
    now: Now,
) -> None:
    """Answers an ErrorCode.

    Where Kafka answers CONCURRENT_TRANSACTIONS because the record of other partitions, or of the end of the last
    transaction, is still being written, this adds behind it: records are written in order.
    """
    transaction = machine.transactions.get(transactional_id)
    if transaction is None:
        # Also while it is being forgotten, which only happens to ids that were not used for days.
        step.reply(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return
    unwritten = machine.unwritten(transactional_id)
    if transaction.state.is_prepared or (unwritten is not None and transaction.state is TxnState.EMPTY):
        step.reply(token, ErrorCode.CONCURRENT_TRANSACTIONS)
    elif transaction.producer_id != producer.producer_id:
        step.reply(token, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    elif transaction.producer_epoch != producer.epoch:
        step.reply(token, ErrorCode.PRODUCER_FENCED)
    elif transaction.state is TxnState.ONGOING and added <= transaction.partitions:
        _reply_after(step, unwritten, token, ErrorCode.NONE)
    else:
        machine.change(step, transaction.with_partitions(added, client_version, now.wall_ms))
        step.reply_when_written(token, ErrorCode.NONE, ErrorCode)


def verify(
    machine: TransactionTable,
    step: TxnStep,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    asked: Iterable[TopicPartition],
    token: Token,
    now: Now,
) -> None:
    """Answers a dict from partition to ErrorCode."""
    asked = list(asked)
    transaction = machine.transactions.get(transactional_id)
    code = None
    if transaction is None or transaction.producer_id != producer.producer_id:
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif transaction.producer_epoch != producer.epoch:
        code = ErrorCode.PRODUCER_FENCED
    elif transaction.state.is_prepared:
        code = ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction is None or code is not None:
        step.reply(token, dict.fromkeys(asked, code))
        return
    found = {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in asked
    }
    unwritten = machine.unwritten(transactional_id)
    if unwritten is None or ErrorCode.NONE not in found.values():
        step.reply(token, found)
        return
    if unwritten.is_late:
        step.reply(token, dict.fromkeys(asked, ErrorCode.CONCURRENT_TRANSACTIONS))
        return
    # Nothing is part of a transaction before that is on disk.
    unwritten.then(Answered(token, found, _refused, (asked,)))


def _refused(asked: list[TopicPartition], code: ErrorCode) -> dict[TopicPartition, ErrorCode]:
    return dict.fromkeys(asked, code)


def _reply_after(step: TxnStep, unwritten: TxnStep | None, token: Token, code: ErrorCode) -> None:
    """Answer once the pending record is on disk, because the answer depends on it."""
    if unwritten is None:
        step.reply(token, code)
        return
    if unwritten.is_late:
        step.reply(token, ErrorCode.CONCURRENT_TRANSACTIONS)
        return
    unwritten.then(Answered(token, code, ErrorCode))
