"""How the records of share groups change their state, one record at a time: see `modern.replay`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from broker_cy.coordinator.group import Group, GroupTable
from broker_cy.coordinator.modern.group import NO_PARTITIONS
from broker_cy.coordinator.modern.member import LEAVE_EPOCH
from broker_cy.coordinator.modern.replay import ModernReplay, first, read_key
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.share import records
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.hooks import HookedShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_partitions import NO_SHARE_PARTITIONS, SharePartitions
from broker_cy.core.step import UNCHANGED, Before
from broker_cy.wire import messages


class SharePartitionsBefore(NamedTuple):
    """The share partitions of a group."""

    group_id: str
    share_partitions: SharePartitions

    def undo(self, group: Group | None) -> Group | None:
        if isinstance(group, ShareGroup):
            group.put_share_partitions(self.share_partitions)
        return group

    def restore(self, machine: GroupTable) -> None:
        self.undo(machine.groups[self.group_id])


def _left(member: ShareMember) -> ShareMember:
    return member._replace(epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NO_PARTITIONS)


_REPLAY: Final = ModernReplay(
    hooked=HookedShareGroup,
    epoch_key=messages.ShareGroupMetadataKey,
    epoch_value=messages.ShareGroupMetadataValue,
    target_epoch_key=messages.ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=messages.ShareGroupTargetAssignmentMetadataValue,
    target_key=messages.ShareGroupTargetAssignmentMemberKey,
    target_of=records.target_of,
    member_key=messages.ShareGroupMemberMetadataKey,
    new_member=ShareMember,
    with_metadata=records.with_metadata,
    current_key=messages.ShareGroupCurrentMemberAssignmentKey,
    with_current=records.with_current,
    left=_left,
)


def _change_share_partitions(
    machine: GroupTable, offset: int, producer_id: int, key: bytes, value: bytes | None
) -> Before:
    group_id = read_key(messages.ShareGroupStatePartitionMetadataKey, key).group_id
    group, added = _REPLAY.group(machine, group_id, value)
    if not isinstance(group, ShareGroup):
        return UNCHANGED
    before = SharePartitionsBefore(group_id, group.share_partitions)
    group.put_share_partitions(NO_SHARE_PARTITIONS if value is None else records.share_partitions_of(value))
    return first(added, before)


CHANGES: dict[KeyType, Callable[[Any, int, int, bytes, bytes | None], Before]] = {
    KeyType.SHARE_GROUP_MEMBER_METADATA: _REPLAY.change_member,
    KeyType.SHARE_GROUP_METADATA: _REPLAY.change_epoch,
    KeyType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: _REPLAY.change_target_epoch,
    KeyType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: _REPLAY.change_target,
    KeyType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: _REPLAY.change_current,
    KeyType.SHARE_GROUP_STATE_PARTITION_METADATA: _change_share_partitions,
}
