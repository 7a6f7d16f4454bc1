"""The state machine of the group coordinator, one for each partition of `__consumer_offsets`, without socket, file or
clock: its state, how records change it, and its life cycle. Operations are functions of the modules beside this one,
which `GroupMachine.run` runs.

The caller appends the records of each `Step` in order, and calls `written` or `failed` when their outcome is known. It
calls `expire` no later than `next_wake_ms`.

Durable state is the content of the partition's records: `offsets`, the `record` of each of `groups`, `other_groups`.
Only `apply` and `apply_marker` change it, both for records read from the log and for those that an operation has just
created. Everything else (the members of `groups` and their waiting requests, `timers`) is live state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker_cy.coordinator import expiry, records
from broker_cy.coordinator.base import StateMachine
from broker_cy.coordinator.classic import rebalance
from broker_cy.coordinator.classic.group import ClassicGroup, GroupState
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.records import load_group
from broker_cy.coordinator.offset_record import decode_offset_key, decode_offset_value
from broker_cy.coordinator.offsets import NO_PRODUCER_ID, OffsetsBefore, OffsetStore
from broker_cy.coordinator.other_groups import GROUP_TYPES, OtherGroup, OtherGroups
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.step import UNCHANGED, Before, Now, Record, Step
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta, MetadataImage


class GroupMachine(StateMachine[TimerKey, Step]):
    """Invariant: `groups` and `other_groups` are disjoint. While a log is loaded, a group has no members yet."""

    new_step = Step

    def __init__(self, settings: GroupSettings) -> None:
        super().__init__()
        self.settings = settings
        self.offsets = OffsetStore()
        self.other_groups = OtherGroups()
        self.groups: dict[str, ClassicGroup] = {}
        self._groups_made = 0
        self.deleted: deque[expiry.GoneTopic] = deque()
        """The topics that were deleted, for each group with offsets in them. Bounded by groups x topics."""
        self.unswept: deque[str] = deque()
        """Groups whose offsets the current sweep has not looked at. Bounded by the number of groups."""
        self.deletions_due_ms: int | None = 0
        """When the next step of deletions may be made (monotonic); None while one is being written."""

    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        """Add a group; its id is not in use."""
        self._groups_made += 1
        group.number = self._groups_made
        self.groups[group.group_id] = group
        return group

    # ---- records ----

    def apply(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
        """Change the state by a record, read from the log or just created, and return the state before it.
        `producer_id` is that of its batch if the batch is transactional, else -1.

        Raises WireError if key or value is malformed or of a version this broker does not know.
        """
        self.next_offset = offset + 1
        change = _CHANGES.get(key[:2])
        if change is None:
            records.key_type(key)  # raises WireError for a key without a type
            self.unknown_records += 1
            return UNCHANGED
        return change(self, offset, producer_id, key, value)

    def apply_marker(self, offset: int, producer_id: int, committed: bool) -> OffsetsBefore:
        """The same for the marker that ends a transaction."""
        self.next_offset = offset + 1
        return self.offsets.replay_marker(producer_id, committed)

    def loaded(self, now: Now) -> Step:
        """All records of the log are applied: members get a session each, and groups over the limit are rebalanced."""
        step = Step()
        self.offsets.commits = 0
        for group in list(self.groups.values()):
            if group.record is not None:
                load_group(group, group.record)
            elif not self.offsets.has_any(group.group_id):
                del self.groups[group.group_id]
        for group_id in [*self.offsets.by_group, *self.offsets.groups_with_pending()]:
            # A tombstone of the group may stand in the log before those of its offsets.
            self.ensure_simple_group(group_id, now.wall_ms)
        for group in self.groups.values():
            for member in group.members.values():
                rebalance.set_session(self, group, member, now)
            if len(group.members) > self.settings.group_max_size:
                rebalance.prepare(self, step, group, now, trigger_of("group_too_large"))
        return step

    # ---- time ----

    def next_wake_ms(self) -> int | None:
        times = (super().next_wake_ms(), expiry.due_ms(self))
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def expire(self, now: Now) -> Step:
        """Apply every deadline that has passed; delete more of the offsets that are expired or in deleted topics."""
        step = Step()
        for key in self.timers.due(now.mono_ms):
            group = self.groups.get(key.group_id)
            if group is None:
                continue
            if key.kind is TimerKind.SESSION:
                rebalance.on_session_timer(self, step, group, key.member_id, now)
            elif key.kind is TimerKind.JOIN:
                rebalance.on_join_timer(self, step, group, now)
            else:
                rebalance.on_sync_timer(self, step, group, now)
        if expiry.is_due(self, now) and not step.records:
            # Records of a rebalance are not mixed with those that may be written in parts.
            expiry.delete_some(self, step, now)
        return step

    # ---- changes from outside ----

    def metadata_changed(self, delta: ImageDelta, image: MetadataImage) -> Step:
        """Offsets that were committed in deleted topics are deleted."""
        step = super().metadata_changed(delta, image)
        if gone := delta.gone():
            expiry.topics_deleted(self, step, [(topic.name, topic.topic_id) for topic in gone])
        return step

    def failed(self, steps: Sequence[Step], code: ErrorCode, now: Now) -> Step:
        out = super().failed(steps, code, now)
        expiry.undone(self)
        return out

    def unload(self) -> Step:
        """This broker no longer coordinates the partition: answer every waiting request with NOT_COORDINATOR."""
        step = Step()
        for group in list(self.groups.values()):
            rebalance.discard_group(self, step, group, ErrorCode.NOT_COORDINATOR)
        return step

    # ---- records of an operation ----

    def append(self, step: Step, new: Sequence[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """Make records part of the step and apply them. With a producer id they belong to its transaction."""
        for record in new:
            step.records.append(record)
            step.before.append(self.apply(self.next_offset, producer_id, *record))

    def ensure_simple_group(self, group_id: str, wall_ms: int) -> bool:
        """Create a simple group for committed offsets unless a group of that id exists; returns whether it was
        created.
        """
        if group_id in self.groups or self.other_groups.get(group_id) is not None:
            return False
        self.add_group(ClassicGroup(group_id, wall_ms))
        return True

    def remove_simple_group(self, group_id: str, number: int) -> None:
        """Undo the creation of a simple group, unless members have joined it since."""
        group = self.same_group(group_id, number)
        if group is not None and group.state is GroupState.EMPTY:
            del self.groups[group_id]

    def same_group(self, group_id: str, number: int) -> ClassicGroup | None:
        """Return the group of this id if it is still the one with this number, and no later one of the same id."""
        group = self.groups.get(group_id)
        return group if group is not None and group.number == number else None


# ---- state that a record replaced ----


class GroupBefore(NamedTuple):
    """The record of a classic group; None if it had none. `other` is the group of another type that it replaced."""

    group_id: str
    record: bytes | None
    other: OtherGroup | None = None
    created: bool = False

    def restore(self, machine: GroupMachine) -> None:
        group = machine.groups.get(self.group_id)
        if self.created:
            machine.groups.pop(self.group_id, None)
        elif group is not None:
            group.record = self.record
        if self.other is not None:
            machine.other_groups.by_id[self.group_id] = self.other


class GroupRemoved(NamedTuple):
    """The classic group that a tombstone removed."""

    group: ClassicGroup

    def restore(self, machine: GroupMachine) -> None:
        group, group_id = self.group, self.group.group_id
        current = machine.groups.setdefault(group_id, group)
        if current is not group:
            # A later group of the same id, whose own record is undone.
            current.record = group.record
            return
        # The sessions of members may have ended while the deletion was being written.
        group.pending_members &= {
            member_id
            for member_id in group.pending_members
            if machine.timers.get(TimerKey(TimerKind.SESSION, group_id, member_id)) is not None
        }


class OtherBefore(NamedTuple):
    """A record of a group of another type. `group` is the classic group that it replaced."""

    key: bytes
    value: bytes | None
    group: ClassicGroup | None

    def restore(self, machine: GroupMachine) -> None:
        machine.other_groups.replay(self.key, self.value)
        if self.group is not None:
            machine.groups[self.group.group_id] = self.group


# ---- the types of records ----


def _change_offset(machine: GroupMachine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id, topic, partition = decode_offset_key(key)
    if value is None:
        return machine.offsets.replay_tombstone(group_id, topic, partition)
    committed = decode_offset_value(value, offset)
    if producer_id == NO_PRODUCER_ID:
        before = machine.offsets.replay_commit(group_id, topic, partition, committed)
    else:
        before = machine.offsets.replay_pending(producer_id, group_id, topic, partition, committed)
    if group_id not in machine.groups and machine.ensure_simple_group(group_id, committed.commit_timestamp_ms):
        return before._replace(created=(group_id, machine.groups[group_id].number))
    return before


def _change_group(machine: GroupMachine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id = records.group_of_key(key)
    group = machine.groups.get(group_id)
    if value is None:
        if group is None:
            return UNCHANGED
        del machine.groups[group_id]
        return GroupRemoved(group)
    before = None
    if is_new := group is None:
        group = machine.add_group(ClassicGroup(group_id, None))
    else:
        before = group.record
    group.record = value
    return GroupBefore(group_id, before, machine.other_groups.by_id.pop(group_id, None), is_new)


def _change_other(machine: GroupMachine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id, before = machine.other_groups.replay(key, value)
    return OtherBefore(key, before, None if value is None else machine.groups.pop(group_id, None))


# By the first two bytes of a key, which are its type: this is looked up for each record of a log.
_CHANGES: dict[bytes, Callable[[GroupMachine, int, int, bytes, bytes | None], Before]] = {
    kind.to_bytes(2, "big"): change
    for kinds, change in (
        ((KeyType.LEGACY_OFFSET_COMMIT, KeyType.OFFSET_COMMIT), _change_offset),
        ((KeyType.GROUP_METADATA,), _change_group),
        (GROUP_TYPES, _change_other),
    )
    for kind in kinds
}
