"""Completing a transaction whose end is decided and on disk: markers in all of its partitions, then the record that
completes it.

Partitions that fail are retried without limit, as in Kafka: until the markers are written, a transaction holds back
read_committed consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from broker_cy.coordinator.step import Now, Step
from broker_cy.coordinator.txn.state import TopicPartition, Transaction, TxnState
from broker_cy.core.errors import ErrorCode

if TYPE_CHECKING:
    from broker_cy.coordinator.txn.state_machine import TransactionStateMachine

BACKOFF_MS: Final = 20
BACKOFF_MAX_MS: Final = 1_000

# Errors of partitions that need no marker, because the producer never wrote to them.
_NOT_NEEDED: Final = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
# Another coordinator, or an administrator, has ended the producer's transaction.
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class Markers(NamedTuple):
    """Markers that are to be written for one transaction."""

    number: int
    """Number of the ending to which they belong."""
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


@dataclass(slots=True)
class Ending:
    """A transaction that is being ended: the partitions that have no marker yet."""

    number: int
    remaining: set[TopicPartition]
    failures: int = 0
    """Number of consecutive failures."""
    under_way: bool = False
    """Markers, or the last record, are being written."""
    fenced: bool = False
    """Another coordinator is responsible for the producer: there are no more retries."""


def go_on(machine: TransactionStateMachine, step: Step, transaction: Transaction, ending: Ending, now: Now) -> None:
    """Send the missing markers; if none is missing, write the last record."""
    if ending.under_way or ending.fenced:
        return
    ending.under_way = True
    if not ending.remaining:
        _complete(machine, step, transaction, ending, now)
        return
    machine.outbox.append(
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
    machine: TransactionStateMachine, step: Step, sent: Markers, results: Mapping[TopicPartition, ErrorCode], now: Now
) -> None:
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


def _complete(machine: TransactionStateMachine, step: Step, transaction: Transaction, ending: Ending, now: Now) -> None:
    """All markers are written: append the last record. The next transaction may start right behind it."""
    transactional_id = transaction.transactional_id
    # What comes next sees the transaction complete. If this record fails, that is undone with it.
    del machine.ending[transactional_id]
    machine.settled.append(transactional_id)

    def failed(out: Step, at: Now, code: ErrorCode) -> None:
        machine.ending[transactional_id] = ending
        ending.under_way = False
        _again(machine, transactional_id, ending, at)

    machine.change(step, transaction.completed(now.wall_ms))
    step.then(lambda out, at: None, failed)


def _again(machine: TransactionStateMachine, transactional_id: str, ending: Ending, now: Now) -> None:
    delay_ms = min(BACKOFF_MS << min(ending.failures, 16), BACKOFF_MAX_MS)
    ending.failures += 1
    machine.timers.set(transactional_id, now.mono_ms + delay_ms)
