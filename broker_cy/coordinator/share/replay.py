"""How the records of share groups change their state, one record at a time: see `modern.replay`."""

from __future__ import annotations

from typing import Final

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.group import NO_PARTITIONS
from broker_cy.coordinator.modern.member import LEAVE_EPOCH
from broker_cy.coordinator.modern.replay import Change, ModernReplay, first, read_key
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.share import records
from broker_cy.coordinator.share.group import ShareGroup, SharePartitionsBefore
from broker_cy.coordinator.share.hooks import HookedShareGroup
from broker_cy.coordinator.share.member import ShareMember
from broker_cy.coordinator.share.state_partitions import NO_SHARE_PARTITIONS
from broker_cy.core.step import UNCHANGED, Before
from broker_cy.wire import messages


def _left(member: ShareMember) -> ShareMember:
    return member._replace(epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NO_PARTITIONS)


_REPLAY: Final = ModernReplay(
    hooked=HookedShareGroup,
    records=records.RECORDS,
    target_of=records.target_of,
    new_member=ShareMember,
    with_metadata=records.with_metadata,
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


CHANGES: Final[dict[KeyType, Change]] = {
    **_REPLAY.changes(),
    KeyType.SHARE_GROUP_STATE_PARTITION_METADATA: _change_share_partitions,
}
