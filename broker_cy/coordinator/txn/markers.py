"""Completing a transaction whose end is decided and on disk: markers in all of its partitions, then the record that
completes it.

Partitions that fail are retried without limit, as in Kafka: until the markers are written, a transaction holds back
read_committed consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_cy.coordinator.txn.state import Ending, Markers, TopicPartition, Transaction, TxnState
from broker_cy.coordinator.txn.transaction_table import TransactionTable, TxnStep
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now

BACKOFF_MS: Final = 20
BACKOFF_MAX_MS: Final = 1_000

# Errors of partitions that need no marker, because the producer never wrote to them.
_NOT_NEEDED: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
# Another coordinator, or an administrator, has ended the producer's transaction.
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


def start(machine: TransactionTable, step: TxnStep, transaction: Transaction, now: Now) -> None:
    """The record of a decided end is on disk: write the markers."""
    machine.endings += 1
    ending = Ending(machine.endings, set(transaction.partitions))
    machine.ending[transaction.transactional_id] = ending
    go_on(machine, step, transaction, ending, now)


def go_on(machine: TransactionTable, step: TxnStep, transaction: Transaction, ending: Ending, now: Now) -> None:
    """Send the missing markers; if none is missing, write the last record."""
    if ending.under_way or ending.fenced:
        return
    ending.under_way = True
    if not ending.remaining:
        _complete(machine, step, transaction, ending, now)
        return
    step.markers.append(
        Markers(
            ending.number,
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            machine.coordinator_epoch,
            transaction.state is TxnState.PREPARE_COMMIT,
            tuple(sorted(ending.remaining)),
            transaction.client_version,
        )
    )


def written(
    machine: TransactionTable, step: TxnStep, sent: Markers, results: Mapping[TopicPartition, ErrorCode], now: Now
) -> None:
    """Handle the results of markers that a step had, for each of their partitions."""
    ending = machine.ending.get(sent.transactional_id)
    if ending is None or ending.number != sent.number:
        return
    ending.under_way = False
    failed = False
    for partition in sent.partitions:
        code = results.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        if code is ErrorCode.NONE or code in _NOT_NEEDED:
            ending.remaining.discard(partition)
        else:
            failed = True
            ending.fenced = ending.fenced or code in _FENCED
    if ending.fenced:
        return
    if failed:
        _again(machine, sent.transactional_id, ending, now)
    else:
        ending.failures = 0
        go_on(machine, step, machine.transactions[sent.transactional_id], ending, now)


def _complete(machine: TransactionTable, step: TxnStep, transaction: Transaction, ending: Ending, now: Now) -> None:
    """Append the last record after all markers are written. The next transaction may start right behind it."""
    transactional_id = transaction.transactional_id
    # Later requests see the transaction complete. If this record fails, the completion is undone with it.
    del machine.ending[transactional_id]
    step.settled.append(transactional_id)
    machine.change(step, transaction.completed(now.wall_ms))
    step.then(Completed(transactional_id, ending.number, ending.failures))


class Completed(NamedTuple):
    """The last record of a transaction, all of whose markers are written."""

    transactional_id: str
    number: int
    failures: int

    def written(self, machine: TransactionTable, out: TxnStep, now: Now) -> None:
        """Nothing waits for it."""

    def failed(self, machine: TransactionTable, out: TxnStep, now: Now, code: ErrorCode) -> None:
        ending = Ending(self.number, set(), self.failures)
        machine.ending[self.transactional_id] = ending
        _again(machine, self.transactional_id, ending, now)


def _again(machine: TransactionTable, transactional_id: str, ending: Ending, now: Now) -> None:
    delay_ms = min(BACKOFF_MS << min(ending.failures, 16), BACKOFF_MAX_MS)
    ending.failures += 1
    machine.timers.set(transactional_id, now.mono_ms + delay_ms)
