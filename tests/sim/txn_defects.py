"""Defects of the transaction coordinator, which its simulation must find. Each is planted by replacing one function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.coordinator.txn import end, expiry, init, markers, partitions
from broker_cy.coordinator.txn.state import Transaction, TxnState
from broker_cy.coordinator.txn.transaction_machine import TransactionMachine
from broker_cy.coordinator.txn.transaction_table import TxnStep
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime
from broker_cy.core.errors import ErrorCode
from tests.sim.defects import Patch, Planter
from tests.sim.group_defects import Kept
from tests.sim.txn_partitions import DataPartition

Machine = TransactionMachine


def zombie_epoch_adds_partitions(patch: Patch) -> None:
    """AddPartitionsToTxn of a fenced epoch is accepted."""
    right = partitions.add

    def add(machine: Machine, step: TxnStep, transactional_id: str, producer: Any, *more: Any) -> None:
        known = machine.transactions.get(transactional_id)
        if known is not None and known.producer_id == producer.producer_id:
            producer = producer._replace(epoch=known.producer_epoch)
        right(machine, step, transactional_id, producer, *more)

    patch.setattr(partitions, "add", add)


def zombie_epoch_ends_the_transaction(patch: Patch) -> None:
    """EndTxn of a fenced epoch is accepted, with the old protocol."""
    right = end._check

    def check(transaction: Transaction, producer: Any, commit: bool, changing: bool) -> Any:
        return right(transaction, producer._replace(epoch=transaction.producer_epoch), commit, changing)

    patch.setattr(end, "_check", check)


def init_keeps_the_epoch(patch: Patch) -> None:
    """InitProducerId returns the epoch that the predecessor has."""
    right = Transaction.initialized

    def initialized(self: Transaction, epoch: int, *more: Any, **changes: Any) -> Transaction:
        return right(self, max(epoch - 1, 0), *more, **changes)

    patch.setattr(Transaction, "initialized", initialized)


def init_forgets_the_open_transaction(patch: Patch) -> None:
    """InitProducerId does not abort the transaction that the predecessor left open."""

    def fence(machine: Machine, step: TxnStep, transaction: Transaction, token: Any, now: Any) -> None:
        init._bump(machine, step, transaction, transaction.timeout_ms, None, token, now)

    patch.setattr(init, "_fence", fence)


def commit_of_an_aborted_transaction_succeeds(patch: Patch) -> None:
    """A repeated commit request is answered with NONE although the transaction was aborted."""
    right = end._check

    def check(transaction: Transaction, producer: Any, commit: bool, changing: bool) -> Any:
        answer = right(transaction, producer, commit, changing)
        if answer is not None and answer.code is ErrorCode.INVALID_TXN_STATE and transaction.state.is_complete:
            return end.Ended(ErrorCode.NONE)
        return answer

    patch.setattr(end, "_check", check)


def response_is_sent_before_the_write(patch: Patch) -> None:
    """Responses that depend on a record are sent before it is on disk."""
    patch.setattr(
        CoordinatorStep, "reply_when_written", lambda self, token, response, *more: self.reply(token, response)
    )


def verified_without_a_transaction(patch: Patch) -> None:
    """The coordinator confirms to a partition a transaction that is not open."""

    def verify(
        machine: Machine, step: TxnStep, transactional_id: str, producer: Any, asked: Any, token: Any, now: Any
    ) -> None:
        step.reply(token, dict.fromkeys(asked, ErrorCode.NONE))

    patch.setattr(partitions, "verify", verify)


def verified_before_it_is_written(patch: Patch) -> None:
    """The coordinator confirms to a partition a transaction whose record may still fail to be written."""
    right = partitions.verify

    def verify(machine: Machine, step: TxnStep, *more: Any) -> None:
        patch_unwritten = machine._unwritten
        machine._unwritten = {}
        try:
            right(machine, step, *more)
        finally:
            machine._unwritten = patch_unwritten

    patch.setattr(partitions, "verify", verify)


def added_partitions_replace_the_previous_ones(patch: Patch) -> None:
    """A transaction has only the partitions that were added last."""
    right = Transaction.with_partitions

    def with_partitions(self: Transaction, added: frozenset[Any], *more: Any) -> Transaction:
        return replace(right(self, added, *more), partitions=added)

    patch.setattr(Transaction, "with_partitions", with_partitions)


def ending_is_lost_by_a_reload(patch: Patch) -> None:
    """A coordinator that takes over does not write the markers of a decided transaction."""
    patch.setattr(Machine, "loaded", lambda self, now: TxnStep())


def abort_turns_into_commit_by_a_reload(patch: Patch) -> None:
    """A coordinator that takes over commits a transaction that was to be aborted."""
    right = markers.start

    def loaded(self: Machine, now: Any) -> TxnStep:
        step = TxnStep()
        for transaction in list(self.transactions.values()):
            if transaction.state.is_prepared:
                right(self, step, transaction, now)
        step.markers = [sent._replace(commit=True) for sent in step.markers]
        return step

    patch.setattr(Machine, "loaded", loaded)


def commit_turns_into_abort_by_a_retry(patch: Patch) -> None:
    """Markers that are sent again have the opposite outcome."""
    right = markers.go_on

    def go_on(machine: Machine, step: TxnStep, transaction: Any, ending: Any, now: Any) -> None:
        sent = len(step.markers)
        right(machine, step, transaction, ending, now)
        if ending.failures:
            step.markers[sent:] = [each._replace(commit=not each.commit) for each in step.markers[sent:]]

    patch.setattr(markers, "go_on", go_on)


def failed_marker_counts_as_written(patch: Patch) -> None:
    """A partition that could not write its marker is not asked again."""
    patch.setattr(markers, "_NOT_NEEDED", markers._NOT_NEEDED | {ErrorCode.KAFKA_STORAGE_ERROR})


def failed_markers_are_not_sent_again(patch: Patch) -> None:
    """The timer of the next attempt is not set."""
    patch.setattr(markers, "_again", lambda machine, transactional_id, ending, now: None)


def complete_before_all_markers(patch: Patch) -> None:
    """The last record is written when one marker is written."""
    right = markers.written

    def written(machine: Machine, step: TxnStep, sent: Any, results: Any, now: Any) -> None:
        right(machine, step, sent, dict.fromkeys(sent.partitions, ErrorCode.NONE), now)

    patch.setattr(markers, "written", written)


def failed_records_are_not_undone(patch: Patch) -> None:
    """Changes that could not be written stay in memory."""
    right = Machine.failed

    def failed(self: Machine, steps: Any, code: Any, now: Any) -> TxnStep:
        for step in steps:
            step.before = [Kept() for _ in step.before]
        return right(self, steps, code, now)

    patch.setattr(Machine, "failed", failed)


def failed_last_record_is_not_written_again(patch: Patch) -> None:
    """The record which says that all markers are written fails, and is not written again."""
    right = markers._complete

    def complete(machine: Machine, step: TxnStep, transaction: Any, ending: Any, now: Any) -> None:
        right(machine, step, transaction, ending, now)
        step.follows.pop()

    patch.setattr(markers, "_complete", complete)


def nothing_times_out(patch: Patch) -> None:
    """A transaction whose producer is gone stays open forever."""
    patch.setattr(expiry, "_is_timed_out", lambda transaction, now: False)


def timed_out_producer_is_not_fenced(patch: Patch) -> None:
    """A transaction that took too long is aborted under its producer's epoch."""
    patch.setattr(Transaction, "fenced", lambda self: self)


def epochs_run_out(patch: Patch) -> None:
    """The last epoch is given to a producer, so that none is left to fence it with."""
    patch.setattr(Transaction, "epoch_exhausted", property(lambda self: False))


def producer_id_is_given_twice(patch: Patch) -> None:
    """Two transactional ids get the same producer id."""
    right = Machine.take_producer_id

    def take(self: Machine, step: TxnStep) -> int | None:
        found = right(self, step)
        if found is not None and found % 3 == 0:
            self.producer_ids.append(found)
        return found

    patch.setattr(Machine, "take_producer_id", take)


def expiry_forgets_open_transactions(patch: Patch) -> None:
    """A transactional id is forgotten while its transaction is open or being ended."""

    def remove(machine: Machine, step: TxnStep, now: Any) -> None:
        step.atomic = False
        for transactional_id in list(machine.transactions):
            machine.forget(step, transactional_id)

    patch.setattr(expiry, "remove_expired", remove)


def complete_transaction_keeps_its_partitions(patch: Patch) -> None:
    """The next transaction begins with the partitions of the previous one: it ends although nothing was begun."""
    right = Transaction.completed

    def completed(self: Transaction, now_ms: int) -> Transaction:
        return replace(right(self, now_ms), partitions=self.partitions)

    patch.setattr(Transaction, "completed", completed)


def decision_changes_while_markers_are_written(patch: Patch) -> None:
    """EndTxn is accepted again while the markers of another decision are being written."""
    right = end._check

    def check(transaction: Transaction, producer: Any, commit: bool, changing: bool) -> Any:
        return None if transaction.state.is_prepared else right(transaction, producer, commit, changing)

    patch.setattr(end, "_check", check)


def deposed_coordinator_answers(patch: Patch) -> None:
    """A coordinator that is no longer the leader answers as if its records were written."""
    right = Machine.failed

    def failed(self: Machine, steps: Any, code: ErrorCode, now: Any) -> TxnStep:
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return self.written(steps, now)
        return right(self, steps, code, now)

    patch.setattr(Machine, "failed", failed)


def append_of_an_old_epoch_is_accepted(patch: Patch) -> None:
    """A coordinator writes to its partition although that is in another leader epoch."""
    patch.setattr(CoordinatorRuntime, "_check_epoch", lambda self: None)


def markers_of_an_old_coordinator_are_accepted(patch: Patch) -> None:
    """A partition does not compare the epochs of coordinators."""
    right = DataPartition.mark

    def mark(self: DataPartition, sent: Any, now_ms: int) -> ErrorCode:
        return right(self, sent._replace(coordinator_epoch=1 << 20), now_ms)

    patch.setattr(DataPartition, "mark", mark)


def late_end_is_accepted(patch: Patch) -> None:
    """EndTxn of the epoch before the last bump ends the transaction after that (KAFKA-17754, found with Bufstream)."""
    right = end._check

    def check(transaction: Transaction, producer: Any, commit: bool, changing: bool) -> Any:
        if not transaction.state.is_complete and producer.epoch == transaction.producer_epoch - 1:
            producer = producer._replace(epoch=transaction.producer_epoch)
        return right(transaction, producer, commit, changing)

    patch.setattr(end, "_check", check)


def commit_of_a_timed_out_transaction_is_fatal(patch: Patch) -> None:
    """A commit that arrives after the coordinator has aborted the transaction is answered with INVALID_TXN_STATE, and
    no client recovers from this error (KAFKA-20785).
    """
    right = end._check_bumping

    def check(transaction: Transaction, producer: Any, commit: bool, changing: bool) -> Any:
        answer = right(transaction, producer, commit, changing)
        if commit and not changing and transaction.state is TxnState.COMPLETE_ABORT and answer is not None:
            return end.Ended(ErrorCode.INVALID_TXN_STATE)
        return answer

    patch.setattr(end, "_check_bumping", check)


DEFECTS: list[Planter] = [
    zombie_epoch_adds_partitions,
    zombie_epoch_ends_the_transaction,
    init_keeps_the_epoch,
    init_forgets_the_open_transaction,
    commit_of_an_aborted_transaction_succeeds,
    response_is_sent_before_the_write,
    verified_without_a_transaction,
    verified_before_it_is_written,
    added_partitions_replace_the_previous_ones,
    ending_is_lost_by_a_reload,
    abort_turns_into_commit_by_a_reload,
    commit_turns_into_abort_by_a_retry,
    failed_marker_counts_as_written,
    failed_markers_are_not_sent_again,
    complete_before_all_markers,
    failed_records_are_not_undone,
    failed_last_record_is_not_written_again,
    nothing_times_out,
    timed_out_producer_is_not_fenced,
    epochs_run_out,
    producer_id_is_given_twice,
    expiry_forgets_open_transactions,
    complete_transaction_keeps_its_partitions,
    decision_changes_while_markers_are_written,
    deposed_coordinator_answers,
    append_of_an_old_epoch_is_accepted,
    markers_of_an_old_coordinator_are_accepted,
    late_end_is_accepted,
    commit_of_a_timed_out_transaction_is_fatal,
]
# Those that the world (tests/sim/world) does not find within its seeds, or not at all: its coordinators do not move.
RARE: list[Planter] = [
    verified_before_it_is_written,
    timed_out_producer_is_not_fenced,
    deposed_coordinator_answers,
    append_of_an_old_epoch_is_accepted,
    markers_of_an_old_coordinator_are_accepted,
    late_end_is_accepted,
    commit_of_a_timed_out_transaction_is_fatal,
]
