"""Defects of the share coordinator, which its simulation must find. Each is planted by replacing one function."""

from __future__ import annotations

from typing import Any

from broker_cy.coordinator.base import Deletions
from broker_cy.coordinator.share_state import batches, operations, share_state_table, upkeep
from broker_cy.coordinator.share_state.share_state_machine import ShareStateMachine
from broker_cy.coordinator.share_state.share_state_table import ShareStateTable
from broker_cy.coordinator.share_state.state import NO_COUNT, NO_START_OFFSET, Entry, ShareState
from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.coordinator_services.coordinator_runtime import CoordinatorRuntime
from broker_cy.core.errors import ErrorCode
from tests.sim.defects import Patch, Planter
from tests.sim.group_defects import Kept


def write_raises_the_leader_epoch(patch: Patch) -> None:
    """A write with a newer leader epoch fences the leader that has read the state (KAFKA-19456)."""
    right = operations.write

    def write(machine: Any, step: Any, key: Any, change: ShareState, token: Any, now: Any) -> None:
        right(machine, step, key, change, token, now)
        if step.records:
            entry = machine.entries[key]
            machine.entries[key] = entry._replace(leader_fence=max(entry.leader_fence, change.leader_epoch))

    patch.setattr(operations, "write", write)


def write_raises_the_state_epoch(patch: Patch) -> None:
    """A write with a newer state epoch fences the writes of the current one (KAFKA-19456)."""
    right = operations.write

    def write(machine: Any, step: Any, key: Any, change: ShareState, token: Any, now: Any) -> None:
        right(machine, step, key, change, token, now)
        if step.records:
            entry = machine.entries[key]
            machine.entries[key] = entry._replace(state_fence=max(entry.state_fence, change.state_epoch))

    patch.setattr(operations, "write", write)


def leader_epoch_of_a_read_is_not_written(patch: Patch) -> None:
    """A read raises the leader epoch in memory only: the next coordinator accepts two leaders (KAFKA-17796)."""
    right = operations.read

    def read(machine: Any, step: Any, key: Any, leader_epoch: int, token: Any, now: Any) -> None:
        entry = machine.entries.get(key)
        if entry is not None and leader_epoch > entry.leader_fence:
            machine.entries[key] = entry._replace(leader_fence=leader_epoch)
        right(machine, step, key, leader_epoch, token, now)

    patch.setattr(operations, "read", read)


def unchecked_leader_epoch_is_fenced(patch: Patch) -> None:
    """A write with the leader epoch -1, which is not to be checked, is refused (KAFKA-20694)."""

    def check(entry: Entry, leader_epoch: int) -> None:
        if leader_epoch < entry.leader_fence:
            raise operations._error(ErrorCode.FENCED_LEADER_EPOCH)

    patch.setattr(operations, "_check_leader_epoch", check)


def one_update_too_many(patch: Patch) -> None:
    """The snapshot is written one update later than configured (Kafka's pull request 21426)."""
    right = operations._change

    def change(machine: Any, step: Any, key: Any, entry: Entry, *rest: Any) -> None:
        is_due = entry.updates == machine.settings.updates_per_snapshot
        right(machine, step, key, entry._replace(updates=entry.updates - 1) if is_due else entry, *rest)

    patch.setattr(operations, "_change", change)


def lag_is_unknown_after_an_alteration(patch: Patch) -> None:
    """The number of finished records is unknown although the start offset was set (KAFKA-20034)."""
    right = ShareStateTable.write_snapshot

    def write_snapshot(self: ShareStateTable, step: Any, key: Any, state: ShareState) -> None:
        if state.leader_epoch == 0 and not state.batches and state.create_ms == state.write_ms:
            state = state._replace(delivery_complete_count=NO_COUNT)
        right(self, step, key, state)

    patch.setattr(ShareStateTable, "write_snapshot", write_snapshot)


def old_leader_may_write(patch: Patch) -> None:
    """The leader epoch of a write is not compared."""
    patch.setattr(operations, "_check_leader_epoch", lambda entry, leader_epoch: None)


def last_write_wins(patch: Patch) -> None:
    """A late write of an older delivery attempt replaces the newer one."""
    right = batches.combine

    def combine(so_far: Any, new: Any, start_offset: int = NO_START_OFFSET) -> Any:
        offsets = {}
        for batch in (*so_far, *sorted(new)):
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if offset >= start_offset:
                    offsets[offset] = batch._replace(first_offset=offset, last_offset=offset)
        return right((), offsets.values())

    patch.setattr(share_state_table, "combine", combine)


def unset_start_offset_is_taken(patch: Patch) -> None:
    """A write without a start offset removes it."""
    right = share_state_table.merged

    def merged(state: ShareState, change: ShareState) -> ShareState:
        return right(state, change)._replace(start_offset=change.start_offset)

    patch.setattr(share_state_table, "merged", merged)


def snapshot_loses_the_batches(patch: Patch) -> None:
    """The snapshot after many updates has only the batches of its own write."""
    right = operations._change

    def change(machine: Any, step: Any, key: Any, entry: Entry, *rest: Any) -> None:
        if entry.updates >= machine.settings.updates_per_snapshot:
            entry = entry._replace(state=entry.state._replace(batches=()))
        right(machine, step, key, entry, *rest)

    patch.setattr(operations, "_change", change)


def cold_snapshot_loses_the_batches(patch: Patch) -> None:
    """The snapshot of an idle share partition has no batches."""
    right = ShareStateTable.write_snapshot

    def write_snapshot(self: ShareStateTable, step: Any, key: Any, state: ShareState) -> None:
        right(self, step, key, state._replace(batches=()) if state.create_ms != state.write_ms else state)

    patch.setattr(ShareStateTable, "write_snapshot", write_snapshot)


def log_is_cut_above_an_idle_share_partition(patch: Patch) -> None:
    """The log is cut below the newest snapshot of any share partition."""

    def redundant_offset(machine: Any, step: Any, token: Any, now: Any) -> None:
        offset = max((entry.snapshot_offset for entry in machine.entries.values()), default=machine.deleted_at)
        step.reply_when_written(token, offset if offset > 0 else None, upkeep._unknown)

    patch.setattr(upkeep, "redundant_offset", redundant_offset)


def updates_make_records_redundant(patch: Patch) -> None:
    """The log is cut below the newest update of a share partition, which does not have the whole state."""
    right = ShareStateTable.replay_update

    def replay_update(self: ShareStateTable, offset: int, key: Any, change: Any) -> Any:
        before = right(self, offset, key, change)
        self.entries[key] = self.entries[key]._replace(snapshot_offset=offset)
        return before

    patch.setattr(ShareStateTable, "replay_update", replay_update)


def topics_deleted_without_a_coordinator_are_forgotten(patch: Patch) -> None:
    """A coordinator that takes over keeps the state of topics that were deleted before."""
    patch.setattr(ShareStateMachine, "loaded", lambda self, now: CoordinatorStep())


def failed_deletions_are_forgotten(patch: Patch) -> None:
    """The state of a deleted topic is kept if its deletion could not be written."""

    def deletions_failed(self: ShareStateTable, taken: Any, now: Any) -> None:
        self.deletions_due_ms = now.mono_ms

    patch.setattr(ShareStateTable, "deletions_failed", deletions_failed)


def deletions_do_not_wait(patch: Patch) -> None:
    """Records that no request waits for are made while earlier ones are being written."""
    patch.setattr(ShareStateTable, "deletes", lambda self, step, taken=(): step.then(Deletions(tuple(taken))))


def failed_records_are_not_undone(patch: Patch) -> None:
    """Changes that could not be written stay in memory."""
    right = ShareStateMachine.failed

    def failed(self: ShareStateMachine, steps: Any, code: Any, now: Any) -> CoordinatorStep:
        for step in steps:
            step.before = [Kept() for _ in step.before]
        return right(self, steps, code, now)

    patch.setattr(ShareStateMachine, "failed", failed)


def response_is_sent_before_the_write(patch: Patch) -> None:
    """Responses that depend on a record are sent before it is on disk."""
    patch.setattr(
        CoordinatorStep, "reply_when_written", lambda self, token, response, *more: self.reply(token, response)
    )


def deposed_coordinator_answers(patch: Patch) -> None:
    """A coordinator that is no longer the leader answers as if its records were written."""
    right = ShareStateMachine.failed

    def failed(self: ShareStateMachine, steps: Any, code: ErrorCode, now: Any) -> CoordinatorStep:
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR):
            return self.written(steps, now)
        return right(self, steps, code, now)

    patch.setattr(ShareStateMachine, "failed", failed)


def append_of_an_old_epoch_is_accepted(patch: Patch) -> None:
    """A coordinator writes to its partition although that is in another leader epoch."""
    patch.setattr(CoordinatorRuntime, "_check_epoch", lambda self: None)


DEFECTS: list[Planter] = [
    write_raises_the_leader_epoch,
    write_raises_the_state_epoch,
    leader_epoch_of_a_read_is_not_written,
    unchecked_leader_epoch_is_fenced,
    one_update_too_many,
    lag_is_unknown_after_an_alteration,
    old_leader_may_write,
    last_write_wins,
    unset_start_offset_is_taken,
    snapshot_loses_the_batches,
    cold_snapshot_loses_the_batches,
    log_is_cut_above_an_idle_share_partition,
    updates_make_records_redundant,
    topics_deleted_without_a_coordinator_are_forgotten,
    failed_deletions_are_forgotten,
    deletions_do_not_wait,
    failed_records_are_not_undone,
    response_is_sent_before_the_write,
    deposed_coordinator_answers,
    append_of_an_old_epoch_is_accepted,
]
