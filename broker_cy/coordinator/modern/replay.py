"""How records change the groups of the newer types, one record at a time: the parts that several types have.

A log may be compacted while it is read: a tombstone may name a group or a member that no earlier record shows, and two
members may hold a partition for a while. The newest record is right, and nothing here fails because of such a log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from broker_cy.coordinator.group import Group, GroupAdded, GroupTable
from broker_cy.coordinator.modern.group import (
    NO_ASSIGNMENT_EPOCH,
    UNKNOWN_TIME_MS,
    EpochGroup,
    EpochMember,
    ModernGroup,
)
from broker_cy.coordinator.modern.records import KEY_TYPES, GroupRecords
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.step import UNCHANGED, Before
from broker_cy.wire import codec

K = TypeVar("K", bound=codec.Message)
E = TypeVar("E", bound=EpochMember)
# The target assignment of one member.
T = TypeVar("T")

# Applies the record at an offset, which may belong to the transaction of a producer: table, offset, producer id, key,
# value.
Change = Callable[[Any, int, int, bytes, bytes | None], Before]


# ---- state that a record replaced ----


class MemberBefore(NamedTuple):
    """A member; None if there was none."""

    group_id: str
    member_id: str
    member: Any | None

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, EpochGroup):
            group.put_member(self.member_id, self.member)
        return group

    def restore(self, machine: GroupTable) -> None:
        group = machine.groups[self.group_id]
        if isinstance(group, EpochGroup):
            put_member(machine, group, self.member_id, self.member)


class TargetBefore(NamedTuple):
    """The target assignment of a member; None if it had none."""

    group_id: str
    member_id: str
    target: Any | None

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, EpochGroup):
            group.put_target(self.member_id, self.target)
        return group

    def restore(self, machine: GroupTable) -> None:
        self.undo(machine.groups[self.group_id])


class EpochsBefore(NamedTuple):
    """The epochs of a group, and what belongs to them."""

    group_id: str
    epoch: int
    metadata_hash: int
    assignment_epoch: int
    assigned_at_ms: int
    shown: Mapping[str, Any] | None

    @classmethod
    def of(cls, group: EpochGroup[Any, Any]) -> EpochsBefore:
        return cls(
            group.group_id,
            group.epoch,
            group.metadata_hash,
            group.assignment_epoch,
            group.assigned_at_ms,
            group.shown,
        )

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, EpochGroup):
            group.epoch, group.metadata_hash = self.epoch, self.metadata_hash
            group.assignment_epoch, group.assigned_at_ms = self.assignment_epoch, self.assigned_at_ms
            group.shown = self.shown
        return group

    def restore(self, machine: GroupTable) -> None:
        self.undo(machine.groups[self.group_id])


class GroupRemoved(NamedTuple):
    """The group that a tombstone removed."""

    group_id: str
    group: EpochGroup[Any, Any]

    def undo(self, group: Group | None) -> Group | None:
        return self.group.copied()

    def restore(self, machine: GroupTable) -> None:
        machine.put_back(self.group)
        for topic in self.group.named_topics():
            machine.subscribers.subscribe(self.group_id, topic)
        machine.subscribers.put_wide(self.group_id, is_wide=self.group.is_wide)
        self.group.put_back()


class FirstRecord(NamedTuple):
    """A record that created its group."""

    added: GroupAdded
    before: Before

    @property
    def group_id(self) -> str:
        return self.added.group_id

    def undo(self, group: Group | None) -> Group | None:
        return self.added.undo(group)

    def restore(self, machine: GroupTable) -> None:
        self.before.restore(machine)
        self.added.restore(machine)


def first(added: GroupAdded | None, before: Before) -> Before:
    """The state before a record that may have created its group."""
    return before if added is None else FirstRecord(added, before)


# ---- changes with the index of subscribed topics ----


def append_removal(
    machine: GroupTable, step: GroupStep, group: EpochGroup[Any, Any], tombstones: Sequence[Record]
) -> None:
    """Append all tombstones of a group, which are not read again: it goes as a whole, and may have 10,000 topics."""
    step.records += tombstones
    step.before += [*[UNCHANGED] * (len(tombstones) - 1), removed(machine, group)]
    machine.next_offset += len(tombstones)


def removed(machine: GroupTable, group: EpochGroup[Any, Any]) -> GroupRemoved:
    """Remove a group."""
    del machine.groups[group.group_id]
    for topic in group.named_topics():
        machine.subscribers.unsubscribe(group.group_id, topic)
    machine.subscribers.put_wide(group.group_id, is_wide=False)
    return GroupRemoved(group.group_id, group)


def put_member(machine: GroupTable, group: EpochGroup[E, Any], member_id: str, new: E | None) -> None:
    """Add, replace or (None) remove a member."""
    if not isinstance(group, ModernGroup):
        group.put_member(member_id, new)
        return
    both: tuple[Any, Any] = (group.members.get(member_id), new)
    before, after = (frozenset() if each is None else each.topics for each in both)
    # Sets are compared name by name.
    if before is after or before == after:
        group.put_member(member_id, new)
        return
    indexed = set(group.named_topics())
    group.put_member(member_id, new)
    index_topics(machine, group, indexed)


def append_current(
    machine: GroupTable, step: GroupStep, group: EpochGroup[E, Any], member: E, make: Callable[[str, E], Record]
) -> None:
    """Append the record of the assignment that a member of the group has now, and which `make` makes of it. It is not
    read again: the member may have 1,000 topics.
    """
    before = MemberBefore(group.group_id, member.member_id, group.members[member.member_id])
    step.records.append(make(group.group_id, member))
    step.before.append(before)
    machine.next_offset += 1
    put_member(machine, group, member.member_id, member)


def append_target(
    machine: GroupTable, step: GroupStep, group: EpochGroup[Any, T], member_id: str, target: T, record: Record
) -> None:
    """Append the record of a target, which is not read again."""
    before = TargetBefore(group.group_id, member_id, group.target.get(member_id))
    step.records.append(record)
    step.before.append(before)
    machine.next_offset += 1
    group.put_target(member_id, target)


def append_member(machine: GroupTable, step: GroupStep, group: EpochGroup[E, Any], member: E, record: Record) -> None:
    """Append the record of a member's metadata, which is not read again: it may name 10,000 topics. The first record of
    a group adds it to the table.
    """
    group_id, member_id = group.group_id, member.member_id
    added: GroupAdded | None = None
    if (known := machine.groups.get(group_id)) is not group:
        added = GroupAdded(group_id, known)
        machine.add_group(group)
    step.records.append(record)
    step.before.append(first(added, MemberBefore(group_id, member_id, group.members.get(member_id))))
    machine.next_offset += 1
    put_member(machine, group, member_id, member)


def index_topics(machine: GroupTable, group: EpochGroup[Any, Any], before: set[str]) -> None:
    """The group names other topics than those that the index has of it."""
    after = group.named_topics()
    for topic in before.difference(after):
        machine.subscribers.unsubscribe(group.group_id, topic)
    for topic in set(after) - before:
        machine.subscribers.subscribe(group.group_id, topic)
    machine.subscribers.put_wide(group.group_id, is_wide=group.is_wide)


# ---- the types of records ----


def read_key(cls: type[K], key: bytes) -> K:
    """The key of a record, without its type. Raises WireError if it is malformed."""
    return codec.decode(cls, 0, key[2:])


@dataclass(frozen=True, slots=True)
class ModernReplay(Generic[E, T]):
    """The changes by the records of consumer, share or streams groups, given their classes of messages. `hooked` is the
    class of these groups in a table. `with_metadata` and `with_current` read the value of a record; `left` is a member
    after the tombstone of its assignment.
    """

    hooked: type[EpochGroup[E, T]]
    records: GroupRecords
    target_of: Callable[[bytes], T]
    new_member: Callable[[str], E]
    with_metadata: Callable[[E, bytes], E]
    with_current: Callable[[E, bytes], E]
    left: Callable[[E], E]

    def changes(self) -> dict[KeyType, Change]:
        """The changes by the type of their keys."""
        records = self.records
        return {
            KEY_TYPES[records.epoch_key]: self.change_epoch,
            KEY_TYPES[records.target_epoch_key]: self.change_target_epoch,
            KEY_TYPES[records.target_key]: self.change_target,
            KEY_TYPES[records.member_key]: self.change_member,
            KEY_TYPES[records.current_key]: self.change_current,
        }

    def group(
        self, machine: GroupTable, group_id: str, value: bytes | None
    ) -> tuple[EpochGroup[E, T] | None, GroupAdded | None]:
        """The group, which a value creates; then the second part is what it replaced. None for a tombstone without a
        group.
        """
        group = machine.groups.get(group_id)
        if isinstance(group, self.hooked):
            return group, None
        if value is None:
            return None, None
        return machine.add_group(self.hooked(group_id)), GroupAdded(group_id, group)

    def change_epoch(
        self, machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None
    ) -> Before:
        group_id: str = read_key(self.records.epoch_key, key).group_id
        group, added = self.group(machine, group_id, value)
        if group is None:
            return UNCHANGED
        if value is None:
            return removed(machine, group)
        before = EpochsBefore.of(group)
        data, _ = codec.decode_versioned(self.records.epoch_value, value)
        group.epoch, group.metadata_hash = data.epoch, data.metadata_hash
        return first(added, before)

    def change_target_epoch(
        self, machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None
    ) -> Before:
        group, added = self.group(machine, read_key(self.records.target_epoch_key, key).group_id, value)
        if group is None:
            return UNCHANGED
        before = EpochsBefore.of(group)
        group.shown = None
        if value is None:
            # As in a new group, which this one is if its own tombstone was compacted away: another group has its id.
            group.assignment_epoch, group.assigned_at_ms = NO_ASSIGNMENT_EPOCH, UNKNOWN_TIME_MS
        else:
            data, _ = codec.decode_versioned(self.records.target_epoch_value, value)
            group.assignment_epoch, group.assigned_at_ms = data.assignment_epoch, data.assignment_timestamp
        return first(added, before)

    def change_target(
        self, machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None
    ) -> Before:
        names = read_key(self.records.target_key, key)
        group, added = self.group(machine, names.group_id, value)
        if group is None:
            return UNCHANGED
        before = TargetBefore(names.group_id, names.member_id, group.target.get(names.member_id))
        group.put_target(names.member_id, None if value is None else self.target_of(value))
        return first(added, before)

    def change_member(
        self, machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None
    ) -> Before:
        names = read_key(self.records.member_key, key)
        group, added = self.group(machine, names.group_id, value)
        if group is None:
            return UNCHANGED
        old = group.members.get(names.member_id)
        new = None
        if value is not None:
            new = self.with_metadata(old or self.new_member(names.member_id), value)
        put_member(machine, group, names.member_id, new)
        return first(added, MemberBefore(names.group_id, names.member_id, old))

    def change_current(
        self, machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None
    ) -> Before:
        names = read_key(self.records.current_key, key)
        group, added = self.group(machine, names.group_id, value)
        old = None if group is None else group.members.get(names.member_id)
        if group is None or (old is None and value is None):
            return UNCHANGED
        if value is not None:
            new = self.with_current(old or self.new_member(names.member_id), value)
        else:
            assert old is not None
            # The tombstone of the member itself follows.
            new = self.left(old)
        put_member(machine, group, names.member_id, new)
        return first(added, MemberBefore(names.group_id, names.member_id, old))
