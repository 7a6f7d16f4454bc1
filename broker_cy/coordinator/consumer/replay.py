"""How the records of consumer groups change their state, one record at a time: see `modern.replay`."""

from __future__ import annotations

from typing import Final

from broker_cy.coordinator.consumer import records
from broker_cy.coordinator.consumer.group import ConsumerGroup, ResolvedRegex
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import NOTHING_ASSIGNED, ConsumerMember
from broker_cy.coordinator.group import Group, GroupTable
from broker_cy.coordinator.modern.member import LEAVE_EPOCH
from broker_cy.coordinator.modern.replay import Change, ModernReplay, first, read_key
from broker_cy.coordinator.records import KeyType
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import UNCHANGED, Before
from broker_cy.wire import codec, messages

# ---- state that a record replaced ----


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


class PartitionMetadataBefore(NamedTuple):
    """Whether there was a record of Kafka before 4.1."""

    group_id: str
    existed: bool

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, ConsumerGroup):
            group.has_partition_metadata = self.existed
        return group

    def restore(self, machine: GroupTable) -> None:
        self.undo(machine.groups[self.group_id])


def _put_regex(machine: GroupTable, group: ConsumerGroup, regex: str, new: ResolvedRegex | None) -> None:
    group.put_regex(regex, new)
    machine.subscribers.put_wide(group.group_id, is_wide=group.is_wide)


# ---- the types of records ----


def _left(member: ConsumerMember) -> ConsumerMember:
    return member._replace(
        epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NOTHING_ASSIGNED, revoking=NOTHING_ASSIGNED
    )


_REPLAY: Final = ModernReplay(
    hooked=HookedConsumerGroup,
    records=records.RECORDS,
    target_of=records.target_of,
    new_member=ConsumerMember,
    with_metadata=records.with_metadata,
    with_current=records.with_current,
    left=_left,
)


def _change_partition_metadata(
    machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None
) -> Before:
    group_id = read_key(messages.ConsumerGroupPartitionMetadataKey, key).group_id
    group, added = _REPLAY.group(machine, group_id, value)
    if not isinstance(group, ConsumerGroup):
        return UNCHANGED
    before = PartitionMetadataBefore(group_id, group.has_partition_metadata)
    group.has_partition_metadata = value is not None
    return first(added, before)


def _change_regex(machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None) -> Before:
    names = read_key(messages.ConsumerGroupRegularExpressionKey, key)
    group, added = _REPLAY.group(machine, names.group_id, value)
    if not isinstance(group, ConsumerGroup):
        return UNCHANGED
    regex = names.regular_expression
    before = RegexBefore(names.group_id, regex, group.resolved.get(regex))
    new = None
    if value is not None:
        data, _ = codec.decode_versioned(messages.ConsumerGroupRegularExpressionValue, value)
        new = ResolvedRegex(frozenset(data.topics), data.version, data.timestamp)
    _put_regex(machine, group, regex, new)
    return first(added, before)


CHANGES: Final[dict[KeyType, Change]] = {
    **_REPLAY.changes(),
    KeyType.CONSUMER_GROUP_PARTITION_METADATA: _change_partition_metadata,
    KeyType.CONSUMER_GROUP_REGULAR_EXPRESSION: _change_regex,
}
