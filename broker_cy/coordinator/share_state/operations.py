"""The requests of share partitions and of the group coordinator: each is about one share partition.

An answer may show what earlier requests have changed, so it waits until their records are committed, also an error.
Only a read raises the leader epoch, and only an initialization the state epoch: the leader of a partition reads before
it writes, so a write of an older leader is refused from then on.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker_cy.coordinator.share_state.answers import (
    Outcome,
    StateRead,
    SummaryRead,
    message_of,
    refused_deletion,
    refused_initialization,
    refused_read,
    refused_summary,
    refused_write,
)
from broker_cy.coordinator.share_state.batches import combine
from broker_cy.coordinator.share_state.share_state_table import ShareStateTable
from broker_cy.coordinator.share_state.state import (
    NO_COUNT,
    NO_EPOCH,
    NO_START_OFFSET,
    Entry,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, Token


def initialize(
    machine: ShareStateTable,
    step: CoordinatorStep,
    key: SharePartitionKey,
    state_epoch: int,
    start_offset: int,
    token: Token,
    now: Now,
) -> None:
    """Replace the state by a new one; answers `Outcome`. No record behind a known start offset is complete, so that the
    lag is known.
    """
    try:
        _check_index(key)
        entry = machine.entries.get(key)
        if entry is not None:
            _check_state_epoch(entry, state_epoch)
        _check_topic(machine, key)
    except KafkaError as error:
        step.reply_when_written(token, Outcome(error.code, error.message), refused_initialization)
        return
    state = ShareState(
        snapshot_epoch=0 if entry is None else entry.state.snapshot_epoch + 1,
        state_epoch=state_epoch,
        leader_epoch=0,
        start_offset=start_offset,
        delivery_complete_count=NO_COUNT if start_offset == NO_START_OFFSET else 0,
        create_ms=now.wall_ms,
        write_ms=now.wall_ms,
    )
    machine.write_snapshot(step, key, state)
    step.reply_when_written(token, Outcome(), refused_initialization)


def write(
    machine: ShareStateTable,
    step: CoordinatorStep,
    key: SharePartitionKey,
    change: ShareState,
    token: Token,
    now: Now,
) -> None:
    """Change the start offset and batches of an initialized share partition; answers `Outcome`. The epochs of `change`
    are those of the sender.
    """
    try:
        _check_index(key)
        entry = _initialized(machine, key, "Write")
        _check_leader_epoch(entry, change.leader_epoch)
        _check_state_epoch(entry, change.state_epoch)
        _check_topic(machine, key)
        _check_batches(change.batches)
    except KafkaError as error:
        step.reply_when_written(token, Outcome(error.code, error.message), refused_write)
        return
    _change(machine, step, key, entry, change._replace(leader_epoch=entry.state.leader_epoch), now)
    step.reply_when_written(token, Outcome(), refused_write)


def read(
    machine: ShareStateTable, step: CoordinatorStep, key: SharePartitionKey, leader_epoch: int, token: Token, now: Now
) -> None:
    """Read the state; answers `StateRead`. A new leader epoch is written before the answer, so that no later
    coordinator accepts a write of the previous leader.
    """
    try:
        _check_index(key)
        entry = _initialized(machine, key, "Read")
        _check_leader_epoch(entry, leader_epoch)
        _check_topic(machine, key)
    except KafkaError as error:
        step.reply_when_written(token, StateRead(error.code, error.message), refused_read)
        return
    state = entry.state
    if leader_epoch not in (NO_EPOCH, entry.leader_fence):
        _change(machine, step, key, entry, state._replace(leader_epoch=leader_epoch, batches=()), now)
    answer = StateRead(state_epoch=state.state_epoch, start_offset=state.start_offset, batches=state.batches)
    step.reply_when_written(token, answer, refused_read)


def read_summary(
    machine: ShareStateTable, step: CoordinatorStep, key: SharePartitionKey, token: Token, now: Now
) -> None:
    """Read the state without its batches, for administrators; answers `SummaryRead`."""
    try:
        _check_index(key)
        _check_topic(machine, key)
    except KafkaError as error:
        step.reply_when_written(token, SummaryRead(error.code, error.message), refused_summary)
        return
    entry = machine.entries.get(key)
    if entry is None:
        answer = SummaryRead(start_offset=NO_START_OFFSET)
    else:
        state = entry.state
        answer = SummaryRead(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )
    step.reply_when_written(token, answer, refused_summary)


def delete(machine: ShareStateTable, step: CoordinatorStep, key: SharePartitionKey, token: Token, now: Now) -> None:
    """Delete the state, also an unknown one; answers `Outcome`."""
    try:
        _check_index(key)
        _check_topic(machine, key)
    except KafkaError as error:
        step.reply_when_written(token, Outcome(error.code, error.message), refused_deletion)
        return
    if key in machine.entries:
        machine.write_tombstone(step, key)
    step.reply_when_written(token, Outcome(), refused_deletion)


def _change(
    machine: ShareStateTable,
    step: CoordinatorStep,
    key: SharePartitionKey,
    entry: Entry,
    change: ShareState,
    now: Now,
) -> None:
    """Write an update, or a snapshot if there were enough updates. The batches of a request may overlap."""
    state = entry.state
    if entry.updates < machine.settings.updates_per_snapshot:
        batches = combine((), change.batches, change.start_offset)
        machine.write_update(step, key, change._replace(snapshot_epoch=state.snapshot_epoch, batches=batches))
        return
    start_offset = state.start_offset if change.start_offset == NO_START_OFFSET else change.start_offset
    machine.write_snapshot(
        step,
        key,
        ShareState(
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=change.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=change.delivery_complete_count,
            batches=combine(state.batches, change.batches, start_offset),
            create_ms=now.wall_ms,
            write_ms=now.wall_ms,
        ),
    )


# ---- checks, which raise KafkaError; each operation has Kafka's order ----


def _check_index(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _initialized(machine: ShareStateTable, key: SharePartitionKey, operation: str) -> Entry:
    entry = machine.entries.get(key)
    if entry is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{operation} operation on uninitialized share partition not allowed."
        )
    return entry


def _check_leader_epoch(entry: Entry, leader_epoch: int) -> None:
    if leader_epoch != NO_EPOCH and leader_epoch < entry.leader_fence:
        raise _error(ErrorCode.FENCED_LEADER_EPOCH)


def _check_state_epoch(entry: Entry, state_epoch: int) -> None:
    if state_epoch != NO_EPOCH and state_epoch < entry.state_fence:
        raise _error(ErrorCode.FENCED_STATE_EPOCH)


def _check_topic(machine: ShareStateTable, key: SharePartitionKey) -> None:
    if not machine.has_topic_partition(key):
        raise _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _check_batches(batches: Sequence[StateBatch]) -> None:
    """Kafka takes an empty batch, and may then never finish to merge it."""
    for batch in batches:
        if batch.first_offset > batch.last_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a state batch begins at offset {batch.first_offset}, and ends before it, at {batch.last_offset}",
            )


def _error(code: ErrorCode) -> KafkaError:
    return KafkaError(code, message_of(code))
