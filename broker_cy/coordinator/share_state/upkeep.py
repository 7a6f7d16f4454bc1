"""Records that no request waits for, and the offset below which records are redundant.

A snapshot makes the older records of its key redundant. The log can only be cut below the oldest snapshot that is still
needed. So a share partition that changes seldom gets another snapshot from time to time: it would hold up the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from broker_cy.coordinator.share_state.share_state_table import ShareStateTable
from broker_cy.coordinator.share_state.state import Entry, SharePartitionKey
from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token

# Share partitions of deleted topics that one step deletes: about 10 microseconds each, with encoding and appending.
DELETIONS_PER_STEP: Final = 500
# Snapshots that one step writes, and state batches in them: about 10 microseconds and 1 microsecond each. The last
# snapshot may have more batches.
SNAPSHOTS_PER_STEP: Final = 200
BATCHES_PER_STEP: Final = 2_000
# Entries that one step looks at: less than a microsecond each.
LOOKS_PER_STEP: Final = 5_000


def topics_deleted(machine: ShareStateTable, step: CoordinatorStep, topic_ids: Iterable[UUID]) -> None:
    """Delete the share partitions of these topics: some now unless other deletions are being written, the others by
    `go_on`.
    """
    ids = frozenset(topic_ids)
    machine.gone.extend(key for key in machine.entries if key.topic_id in ids)
    if machine.gone and machine.deletions_due_ms is not None:
        _delete_some(machine, step)


def snapshot_cold(machine: ShareStateTable, step: CoordinatorStep, now: Now) -> None:
    """Begin a sweep for old snapshots, as Kafka does every `share.coordinator.cold.partition.snapshot.interval.ms`. If
    nothing was written since the last sweeps, no record of a new snapshot would let the log be cut. An unfinished sweep
    continues.
    """
    if not machine.cold and any(entry.state.create_ms == entry.state.write_ms for entry in machine.entries.values()):
        machine.cold.extend(machine.entries)
    if machine.cold and machine.may_delete(now):
        go_on(machine, step, now)


def go_on(machine: ShareStateTable, step: CoordinatorStep, now: Now) -> None:
    """Write some more: the deletions of deleted topics first, then snapshots."""
    if machine.gone:
        _delete_some(machine, step)
    else:
        _snapshot_some(machine, step, now)


def _delete_some(machine: ShareStateTable, step: CoordinatorStep) -> None:
    step.atomic = False
    taken: list[SharePartitionKey] = []
    while machine.gone and len(step.records) < DELETIONS_PER_STEP:
        key = machine.gone.popleft()
        if key in machine.entries:
            taken.append(key)
            machine.write_tombstone(step, key)
    if step.records:
        machine.deletes(step, taken)


def _snapshot_some(machine: ShareStateTable, step: CoordinatorStep, now: Now) -> None:
    step.atomic = False
    batches = looks = 0
    while (
        machine.cold
        and len(step.records) < SNAPSHOTS_PER_STEP
        and batches < BATCHES_PER_STEP
        and looks < LOOKS_PER_STEP
    ):
        key = machine.cold.popleft()
        looks += 1
        entry = machine.entries.get(key)
        if entry is None or not _is_cold(machine, entry, now):
            continue
        batches += len(entry.state.batches)
        again = entry.state._replace(snapshot_epoch=entry.state.snapshot_epoch + 1, write_ms=now.wall_ms)
        machine.write_snapshot(step, key, again)
    if step.records:
        machine.deletes(step)


def _is_cold(machine: ShareStateTable, entry: Entry, now: Now) -> bool:
    return now.wall_ms - entry.state.write_ms >= machine.settings.cold_snapshot_interval_ms


def redundant_offset(machine: ShareStateTable, step: CoordinatorStep, token: Token, now: Now) -> None:
    """Answers the offset below which all records of the log are redundant, or None: once they are committed, because
    records that make others redundant may fail to be written.
    """
    offset = min((entry.snapshot_offset for entry in machine.entries.values()), default=machine.deleted_at)
    step.reply_when_written(token, offset if offset > 0 else None, _unknown)


def _unknown(code: ErrorCode) -> None:
    """The records before it were not written: nothing is known to be redundant."""
