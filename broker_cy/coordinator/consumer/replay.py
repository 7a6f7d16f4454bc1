"""How the records of consumer groups change their state, one record at a time.

A log may be compacted while it is read: a tombstone may name a group or a member that no earlier record shows, and two
members may hold a partition for a while. The newest record is right, and nothing here fails because of such a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.consumer import records
from broker_cy.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import LEAVE_EPOCH, NOTHING_ASSIGNED, ConsumerMember
from broker_cy.coordinator.group import Group, GroupAdded, GroupTable
from broker_cy.coordinator.modern.group import UNKNOWN_TIME_MS
from broker_cy.coordinator.modern.replay import TARGET_DELETED_EPOCH, first, read_key
from broker_cy.coordinator.records import KeyType
from broker_cy.core.step import UNCHANGED, Before
from broker_cy.wire import codec, messages


class MemberBefore(NamedTuple):
    """A member; None if there was none."""

    group_id: str
    member_id: str
    member: ConsumerMember | None

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, ConsumerGroup):
            group.put_member(self.member_id, self.member)
        return group

    def restore(self, machine: GroupTable) -> None:
        group = machine.groups[self.group_id]
        if isinstance(group, ConsumerGroup):
            _put_member(machine, group, self.member_id, self.member)


class TargetBefore(NamedTuple):
    """The target assignment of a member; None if it had none."""

    group_id: str
    member_id: str
    target: Assignment | None

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, ConsumerGroup):
            _put_target(group, self.member_id, self.target)
        return group

    def restore(self, machine: GroupTable) -> None:
        self.undo(machine.groups[self.group_id])


class ScalarsBefore(NamedTuple):
    """The epochs of a group, and what belongs to them."""

    group_id: str
    epoch: int
    metadata_hash: int
    assignment_epoch: int
    assigned_at_ms: int
    has_partition_metadata: bool

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, ConsumerGroup):
            group.epoch, group.metadata_hash = self.epoch, self.metadata_hash
            group.assignment_epoch, group.assigned_at_ms = self.assignment_epoch, self.assigned_at_ms
            group.has_partition_metadata = self.has_partition_metadata
        return group

    def restore(self, machine: GroupTable) -> None:
        self.undo(machine.groups[self.group_id])


class RegexBefore(NamedTuple):
    """The topics of a regular expression; None if it was not resolved."""

    group_id: str
    regex: str
    resolved: ResolvedRegex | None

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, ConsumerGroup):
            group.put_regex(self.regex, self.resolved)
        return group

    def restore(self, machine: GroupTable) -> None:
        group = machine.groups[self.group_id]
        if isinstance(group, ConsumerGroup):
            _put_regex(machine, group, self.regex, self.resolved)


class ConsumerRemoved(NamedTuple):
    """The group that a tombstone removed."""

    group_id: str
    group: ConsumerGroup

    def undo(self, group: Group | None) -> Group | None:
        return self.group.copied()

    def restore(self, machine: GroupTable) -> None:
        machine.put_back(self.group)


# ---- changes with the index of subscribed topics ----


def _put_member(machine: GroupTable, group: ConsumerGroup, member_id: str, new: ConsumerMember | None) -> None:
    old = group.members.get(member_id)
    group.put_member(member_id, new)
    before, after = (frozenset() if each is None else each.topics for each in (old, new))
    if before != after:
        _index(machine, group, before ^ after)


def _put_regex(machine: GroupTable, group: ConsumerGroup, regex: str, new: ResolvedRegex | None) -> None:
    old = group.resolved.get(regex)
    group.put_regex(regex, new)
    before, after = (frozenset() if each is None else each.topics for each in (old, new))
    _index(machine, group, before ^ after)


def _put_target(group: ConsumerGroup, member_id: str, new: Assignment | None) -> None:
    if new is None:
        group.target.pop(member_id, None)
    else:
        group.target[member_id] = new


def _index(machine: GroupTable, group: ConsumerGroup, topics: Iterable[str]) -> None:
    for topic in topics:
        if group.is_subscribed(topic):
            machine.subscribers.subscribe(group.group_id, topic)
        else:
            machine.subscribers.unsubscribe(group.group_id, topic)


def _scalars(group: ConsumerGroup) -> ScalarsBefore:
    return ScalarsBefore(
        group.group_id,
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.assigned_at_ms,
        group.has_partition_metadata,
    )


# ---- the types of records ----


def _group(machine: GroupTable, group_id: str, value: bytes | None) -> tuple[ConsumerGroup | None, GroupAdded | None]:
    """The group, which a value creates; then the second part is what it replaced. None for a tombstone without one."""
    group = machine.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, None
    if value is None:
        return None, None
    return machine.add_group(HookedConsumerGroup(group_id)), GroupAdded(group_id, group)


def _change_epoch(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group_id = read_key(messages.ConsumerGroupMetadataKey, key).group_id
    group, added = _group(machine, group_id, value)
    if group is None:
        return UNCHANGED
    if value is None:
        del machine.groups[group_id]
        return ConsumerRemoved(group_id, group)
    before = _scalars(group)
    data, _ = codec.decode_versioned(messages.ConsumerGroupMetadataValue, value)
    group.epoch, group.metadata_hash = data.epoch, data.metadata_hash
    return first(added, before)


def _change_partition_metadata(
    machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None
) -> Before:
    group, added = _group(machine, read_key(messages.ConsumerGroupPartitionMetadataKey, key).group_id, value)
    if group is None:
        return UNCHANGED
    before = _scalars(group)
    group.has_partition_metadata = value is not None
    return first(added, before)


def _change_target_epoch(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    group, added = _group(machine, read_key(messages.ConsumerGroupTargetAssignmentMetadataKey, key).group_id, value)
    if group is None:
        return UNCHANGED
    before = _scalars(group)
    if value is None:
        group.assignment_epoch, group.assigned_at_ms = TARGET_DELETED_EPOCH, UNKNOWN_TIME_MS
    else:
        data, _ = codec.decode_versioned(messages.ConsumerGroupTargetAssignmentMetadataValue, value)
        group.assignment_epoch, group.assigned_at_ms = data.assignment_epoch, data.assignment_timestamp
    return first(added, before)


def _change_target(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    names = read_key(messages.ConsumerGroupTargetAssignmentMemberKey, key)
    group, added = _group(machine, names.group_id, value)
    if group is None:
        return UNCHANGED
    before = TargetBefore(names.group_id, names.member_id, group.target.get(names.member_id))
    _put_target(group, names.member_id, None if value is None else records.target_of(value))
    return first(added, before)


def _change_member(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    names = read_key(messages.ConsumerGroupMemberMetadataKey, key)
    group, added = _group(machine, names.group_id, value)
    if group is None:
        return UNCHANGED
    old = group.members.get(names.member_id)
    new = None
    if value is not None:
        new = records.with_metadata(old or ConsumerMember(names.member_id), value)
    _put_member(machine, group, names.member_id, new)
    return first(added, MemberBefore(names.group_id, names.member_id, old))


def _change_current(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    names = read_key(messages.ConsumerGroupCurrentMemberAssignmentKey, key)
    group, added = _group(machine, names.group_id, value)
    old = None if group is None else group.members.get(names.member_id)
    if group is None or (old is None and value is None):
        return UNCHANGED
    if value is not None:
        new = records.with_current(old or ConsumerMember(names.member_id), value)
    else:
        assert old is not None
        # The tombstone of the member itself follows.
        new = old._replace(
            epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NOTHING_ASSIGNED, revoking=NOTHING_ASSIGNED
        )
    _put_member(machine, group, names.member_id, new)
    return first(added, MemberBefore(names.group_id, names.member_id, old))


def _change_regex(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    names = read_key(messages.ConsumerGroupRegularExpressionKey, key)
    group, added = _group(machine, names.group_id, value)
    if group is None:
        return UNCHANGED
    regex = names.regular_expression
    before = RegexBefore(names.group_id, regex, group.resolved.get(regex))
    new = None
    if value is not None:
        data, _ = codec.decode_versioned(messages.ConsumerGroupRegularExpressionValue, value)
        new = ResolvedRegex(frozenset(data.topics), data.version, data.timestamp)
    _put_regex(machine, group, regex, new)
    return first(added, before)


CHANGES: dict[KeyType, Callable[[Any, int, int, bytes, bytes | None], Before]] = {
    KeyType.CONSUMER_GROUP_METADATA: _change_epoch,
    KeyType.CONSUMER_GROUP_PARTITION_METADATA: _change_partition_metadata,
    KeyType.CONSUMER_GROUP_MEMBER_METADATA: _change_member,
    KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _change_target_epoch,
    KeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _change_target,
    KeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _change_current,
    KeyType.CONSUMER_GROUP_REGULAR_EXPRESSION: _change_regex,
}
