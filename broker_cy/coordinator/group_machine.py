"""The state machine of the group coordinator, one for each partition of `__consumer_offsets`, without socket, file or
clock: its state, how records change it, and its life cycle. Operations are functions of the modules beside this one,
which `GroupMachine.run` runs.

The caller appends the records of each `Step` in order, and calls `written` or `failed` when their outcome is known. It
calls `expire` no later than `next_wake_ms`.

Durable state is the content of the partition's records: `offsets`, `group_values`, `other_groups`. Only replay changes
it, both for records read from the log and for those that an operation has just created. Everything else (`groups` with
their members' waiting requests, `timers`) is live state.
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
from broker_cy.coordinator.other_groups import GROUP_TYPES, OtherGroups
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.step import Before, Now, Record, Step
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta, MetadataImage


class GroupMachine(StateMachine[TimerKey, Step]):
    """Invariant: `groups` and `other_groups` are disjoint; each id in `group_values` is in `groups` once loaded."""

    new_step = Step

    def __init__(self, settings: GroupSettings) -> None:
        super().__init__()
        self.settings = settings
        self.offsets = OffsetStore()
        self.group_values: dict[str, bytes] = {}
        """The value of each classic group's record."""
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

    # ---- loading ----

    def load_record(self, offset: int, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Replay a record from the log. `producer_id` is that of its batch if the batch is transactional, else -1.

        Raises WireError if key or value is malformed or of a version this broker does not know.
        """
        self.next_offset = offset + 1
        kind = _RECORD_TYPES.get(records.key_type(key))
        if kind is None:
            self.unknown_records += 1
        else:
            kind.load(self, offset, producer_id, key, value)

    def load_marker(self, offset: int, producer_id: int, committed: bool) -> None:
        """Replay the marker that ends a transaction."""
        self.next_offset = offset + 1
        self.offsets.replay_marker(producer_id, committed)

    def loaded(self, now: Now) -> Step:
        """All records of the log are replayed: members get a session each, and groups over the limit are rebalanced."""
        step = Step()
        self.groups = {}
        for group_id, value in self.group_values.items():
            self.add_group(load_group(group_id, value, now.wall_ms))
        for group_id in [*self.offsets.by_group, *self.offsets.groups_with_pending()]:
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
        """Make records part of the step and replay them. With a producer id they belong to its transaction."""
        for record in new:
            kind = _RECORD_TYPES[records.key_type(record.key)]
            step.records.append(record)
            step.before.append(kind.replay(self, producer_id, *record))
            self.next_offset += 1

    def ensure_simple_group(self, group_id: str, wall_ms: int) -> bool:
        """Create a simple group for committed offsets unless a group of that id exists; returns whether it was
        created.
        """
        if group_id in self.groups or self.other_groups.get(group_id) is not None:
            return False
        self.add_group(ClassicGroup(group_id, wall_ms))
        return True

    def same_group(self, group_id: str, number: int) -> ClassicGroup | None:
        """Return the group of this id if it is still the one with this number, and no later one of the same id."""
        group = self.groups.get(group_id)
        return group if group is not None and group.number == number else None


# ---- state that a record replaced ----


class OffsetBefore(NamedTuple):
    """A committed offset; `created` is the number of the simple group that its record created, 0 for none."""

    group_id: str
    offsets: OffsetsBefore
    created: int = 0

    def restore(self, machine: GroupMachine) -> None:
        machine.offsets.restore(self.offsets)
        group = machine.same_group(self.group_id, self.created)
        if group is not None and group.state is GroupState.EMPTY:
            del machine.groups[self.group_id]


class MarkerBefore(NamedTuple):
    """The open offsets of a transaction that a marker ended."""

    offsets: OffsetsBefore

    def restore(self, machine: GroupMachine) -> None:
        machine.offsets.restore(self.offsets)


class GroupBefore(NamedTuple):
    """The record of a classic group. `group` is the one that a tombstone removed."""

    group_id: str
    value: bytes | None
    group: ClassicGroup | None = None

    def restore(self, machine: GroupMachine) -> None:
        if self.value is None:
            machine.group_values.pop(self.group_id, None)
        else:
            machine.group_values[self.group_id] = self.value
        group = self.group
        if group is not None and machine.groups.setdefault(self.group_id, group) is group:
            # The sessions of members may have ended while the deletion was being written.
            group.pending_members &= {
                member_id
                for member_id in group.pending_members
                if machine.timers.get(TimerKey(TimerKind.SESSION, self.group_id, member_id)) is not None
            }


class OtherBefore(NamedTuple):
    """A record of a group of another type."""

    key: bytes
    value: bytes | None

    def restore(self, machine: GroupMachine) -> None:
        machine.other_groups.replay(self.key, self.value)


# ---- the types of records ----


def _load_offset(machine: GroupMachine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> None:
    group_id, topic, partition = decode_offset_key(key)
    if value is None:
        machine.offsets.replay_tombstone(group_id, topic, partition)
    elif producer_id == NO_PRODUCER_ID:
        machine.offsets.load_commit(group_id, topic, partition, decode_offset_value(value, offset))
    else:
        committed = decode_offset_value(value, offset)
        machine.offsets.load_pending(producer_id, group_id, topic, partition, committed)


def _replay_offset(machine: GroupMachine, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id, topic, partition = decode_offset_key(key)
    if value is None:
        return OffsetBefore(group_id, machine.offsets.replay_tombstone(group_id, topic, partition))
    committed = decode_offset_value(value, machine.next_offset)
    created = 0
    if machine.ensure_simple_group(group_id, committed.commit_timestamp_ms):
        created = machine.groups[group_id].number
    if producer_id == NO_PRODUCER_ID:
        before = machine.offsets.replay_commit(group_id, topic, partition, committed)
    else:
        before = machine.offsets.replay_pending(producer_id, group_id, topic, partition, committed)
    return OffsetBefore(group_id, before, created)


def _load_group(machine: GroupMachine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> None:
    group_id = records.group_of_key(key)
    if value is None:
        machine.group_values.pop(group_id, None)
    else:
        machine.group_values[group_id] = value
        machine.other_groups.by_id.pop(group_id, None)


def _replay_group(machine: GroupMachine, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id = records.group_of_key(key)
    before = machine.group_values.get(group_id)
    if value is not None:
        machine.group_values[group_id] = value
        return GroupBefore(group_id, before)
    machine.group_values.pop(group_id, None)
    return GroupBefore(group_id, before, machine.groups.pop(group_id, None))


def _load_other(machine: GroupMachine, offset: int, producer_id: int, key: bytes, value: bytes | None) -> None:
    group_id, _ = machine.other_groups.replay(key, value)
    if value is not None:
        machine.group_values.pop(group_id, None)


def _replay_other(machine: GroupMachine, producer_id: int, key: bytes, value: bytes | None) -> Before:
    _, before = machine.other_groups.replay(key, value)
    return OtherBefore(key, before)


class _RecordType(NamedTuple):
    """How a record read from the log, at an offset, and one that was made here change the state."""

    load: Callable[[GroupMachine, int, int, bytes, bytes | None], None]
    replay: Callable[[GroupMachine, int, bytes, bytes | None], Before]


_OFFSET = _RecordType(_load_offset, _replay_offset)
_RECORD_TYPES: dict[int, _RecordType] = {
    # Plain numbers: this is looked up for each record of a log.
    int(KeyType.LEGACY_OFFSET_COMMIT): _OFFSET,
    int(KeyType.OFFSET_COMMIT): _OFFSET,
    int(KeyType.GROUP_METADATA): _RecordType(_load_group, _replay_group),
    **dict.fromkeys(map(int, GROUP_TYPES), _RecordType(_load_other, _replay_other)),
}
