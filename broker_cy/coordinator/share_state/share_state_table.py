"""The state of the share coordinator, one for each partition of `__share_group_state`, without socket, file or clock,
and how records change it. Operations are functions of the modules beside this one, which `ShareStateTable.run` runs.
The life cycle is in `share_state_machine`.

Only `replay_snapshot` and `replay_update` change the durable state, both for records read from the log and for those
that an operation has just created.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from broker_cy.coordinator.base import StateMachine
from broker_cy.coordinator.share_state import records
from broker_cy.coordinator.share_state.batches import combine
from broker_cy.coordinator.share_state.settings import ShareStateSettings
from broker_cy.coordinator.share_state.state import NO_EPOCH, NO_START_OFFSET, Entry, SharePartitionKey, ShareState
from broker_cy.coordinator.step import CoordinatorStep, Record
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import UNCHANGED, Before, Now

# After a failed deletion: the cause, a full disk or a small in-sync set, often lasts.
DELETIONS_RETRY_MS = 1_000


class ShareStateTable(StateMachine[SharePartitionKey, CoordinatorStep]):
    """The share partitions by their keys. Bounded by share groups x partitions of the topics that they read."""

    new_step = CoordinatorStep

    def __init__(self, settings: ShareStateSettings) -> None:
        super().__init__()
        self.settings = settings
        self.entries: dict[SharePartitionKey, Entry] = {}
        self.deleted_at = -1
        """The offset of the newest tombstone, -1 without one: everything below is redundant if no entry is left."""
        self.gone: deque[SharePartitionKey] = deque()
        """Share partitions in deleted topics, which are to be deleted. Bounded by the entries."""
        self.cold: deque[SharePartitionKey] = deque()
        """Share partitions that the current sweep for old snapshots has not looked at. Bounded by the entries."""

    def has_topic_partition(self, key: SharePartitionKey) -> bool:
        topic = self.image.topics.by_id(key.topic_id)
        return topic is not None and key.partition < len(topic.partitions)

    # ---- records ----

    def apply(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
        self.next_offset = offset + 1
        kind = records.key_type(key)
        if kind is None or (value is not None and not records.is_known_version(value)):
            # As in Kafka, the state before it stays.
            self.unknown_records += 1
            return UNCHANGED
        place = records.share_partition(key)
        if kind is records.KeyType.SHARE_SNAPSHOT:
            return self.replay_snapshot(offset, place, None if value is None else records.decode_snapshot(value))
        if value is None:
            # No version of Kafka writes one.
            self.unknown_records += 1
            return UNCHANGED
        return self.replay_update(offset, place, records.decode_update(value))

    def apply_marker(self, offset: int, producer_id: int, committed: bool) -> Before:
        """There are no transactions in this log."""
        self.next_offset = offset + 1
        return UNCHANGED

    def replay_snapshot(self, offset: int, key: SharePartitionKey, state: ShareState | None) -> Before:
        """Change the state by a snapshot, or by a tombstone (None)."""
        known = self.entries.get(key)
        before = EntryBefore(key, known, self.deleted_at)
        if state is None:
            self.entries.pop(key, None)
            self.deleted_at = offset
            return before
        leader_fence, state_fence, updates = state.leader_epoch, state.state_epoch, 0
        if known is not None:
            leader_fence = max(leader_fence, known.leader_fence)
            state_fence = max(state_fence, known.state_fence)
            if known.updates < self.settings.updates_per_snapshot:
                # Written for another reason than their number.
                updates = known.updates
        self.entries[key] = Entry(state, leader_fence, state_fence, updates, offset)
        return before

    def replay_update(self, offset: int, key: SharePartitionKey, change: ShareState) -> Before:
        """Change the state by an update. Without a snapshot, which a truncated log may have lost, it is the state."""
        known = self.entries.get(key)
        before = EntryBefore(key, known, self.deleted_at)
        if known is None:
            self.entries[key] = Entry(change, change.leader_epoch, NO_EPOCH, 1, offset)
        else:
            self.entries[key] = known._replace(
                state=merged(known.state, change),
                leader_fence=max(known.leader_fence, change.leader_epoch),
                updates=known.updates + 1,
            )
        return before

    # ---- records of an operation ----

    def write_snapshot(self, step: CoordinatorStep, key: SharePartitionKey, state: ShareState) -> None:
        """Make a snapshot part of the step and apply it."""
        self._append(step, records.snapshot(key, state), self.replay_snapshot(self.next_offset, key, state))

    def write_update(self, step: CoordinatorStep, key: SharePartitionKey, change: ShareState) -> None:
        """The same for an update."""
        self._append(step, records.update(key, change), self.replay_update(self.next_offset, key, change))

    def write_tombstone(self, step: CoordinatorStep, key: SharePartitionKey) -> None:
        """The same for the end of a share partition."""
        self._append(step, records.tombstone(key), self.replay_snapshot(self.next_offset, key, None))

    def _append(self, step: CoordinatorStep, record: Record, before: Before) -> None:
        step.records.append(record)
        step.before.append(before)
        self.next_offset += 1

    # ---- deletions ----

    def has_deletions(self) -> bool:
        return bool(self.gone or self.cold)

    def deletions_failed(self, taken: Sequence[Any], now: Now) -> None:
        """The next sweep finds old snapshots again; share partitions in deleted topics are known only here."""
        self.gone.extendleft(reversed(taken))
        self.deletions_due_ms = now.mono_ms + DELETIONS_RETRY_MS


def merged(state: ShareState, change: ShareState) -> ShareState:
    """The state after an update; -1 in it keeps the start offset or the leader epoch."""
    start_offset = state.start_offset if change.start_offset == NO_START_OFFSET else change.start_offset
    return state._replace(
        start_offset=start_offset,
        leader_epoch=state.leader_epoch if change.leader_epoch == NO_EPOCH else change.leader_epoch,
        delivery_complete_count=change.delivery_complete_count,
        batches=combine(state.batches, change.batches, start_offset),
    )


class EntryBefore(NamedTuple):
    """The entry that a record replaced; None if there was none."""

    key: SharePartitionKey
    entry: Entry | None
    deleted_at: int

    def restore(self, machine: ShareStateTable) -> None:
        machine.deleted_at = self.deleted_at
        if self.entry is None:
            machine.entries.pop(self.key, None)
        else:
            machine.entries[self.key] = self.entry
