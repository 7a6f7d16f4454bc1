"""Groups of the type that this broker does not serve yet: streams (KIP-1071).

Their records stay in the log and are never rewritten. Only the fields that ListGroups needs are read. Such a group is
not a classic group: clients cannot join it. Its committed offsets can be fetched, and they do not expire.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from broker_cy.coordinator.group import CommitCheck, Group, GroupTable, GroupType, names_member
from broker_cy.coordinator.offset_record import CommittedOffset
from broker_cy.coordinator.records import key_type
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.coordinator.timers import TimerKey
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now
from broker_cy.wire import messages


class OtherKeyType(IntEnum):
    """Types of keys that belong to such groups."""

    STREAMS_GROUP_METADATA = 17
    STREAMS_GROUP_MEMBER_METADATA = 19
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = 20
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = 21
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = 22
    STREAMS_GROUP_TOPOLOGY = 23


GROUP_TYPES: dict[int, GroupType] = {key: GroupType[key.name.split("_")[0]] for key in OtherKeyType}

# A group has the members that have a record of one of these.
_MEMBER_KEYS = frozenset(
    {
        OtherKeyType.STREAMS_GROUP_MEMBER_METADATA,
    }
)


class OtherGroup(Group):
    """The live records of one group, by key; never empty. It has no live members on this broker."""

    __slots__ = ("_group_type", "records")

    def __init__(self, group_id: str, group_type: GroupType) -> None:
        super().__init__(group_id)
        self._group_type = group_type
        self.records: dict[bytes, bytes] = {}

    def copied(self) -> OtherGroup:
        group = OtherGroup(self.group_id, self._group_type)
        group.records = dict(self.records)
        return group

    @property
    def group_type(self) -> GroupType:
        return self._group_type

    @property
    def has_members(self) -> bool:
        return any(key_type(key) in _MEMBER_KEYS for key in self.records)

    @property
    def listed_protocol_type(self) -> str:
        """As in Kafka, the name of the group's type."""
        return self.group_type.value

    @property
    def is_unused(self) -> bool:
        return False

    def check_commit(
        self, machine: GroupTable, request: messages.OffsetCommitRequest, version: int, now: Now
    ) -> CommitCheck | None:
        self._check_epoch(request.generation_id_or_member_epoch)
        return None

    def check_transactional_commit(self, request: messages.TxnOffsetCommitRequest) -> CommitCheck | None:
        if names_member(request):
            self._check_epoch(request.generation_id)
        return None

    def _check_epoch(self, member_epoch: int) -> None:
        """An administrator may commit in an empty group."""
        if member_epoch >= 0 or self.has_members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def shows_offsets(self, request: messages.OffsetFetchRequest.OffsetFetchRequestGroup) -> bool:
        """As in any group. These types check the member (from version 9 on)."""
        if request.member_id is not None or request.member_epoch >= 0:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return True

    def check_offset_deletion(self) -> None:
        """Offsets of topics without subscription may be deleted at any time."""

    def check_deletion(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.has_members else ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        """The subscriptions of its members are not decoded: while it has members, all of its topics count as read."""
        return self.has_members

    def retention_begin(self) -> Callable[[CommittedOffset], int] | None:
        """Its offsets are not touched as long as this broker does not keep the group up to date."""
        return None

    def loaded(self, machine: GroupTable, step: GroupStep, now: Now) -> None:
        """It has no live state."""

    def on_timer(self, machine: GroupTable, step: GroupStep, key: TimerKey, now: Now) -> None:
        """It sets no deadlines."""

    def discard(self, machine: GroupTable, step: GroupStep, code: ErrorCode) -> None:
        machine.remove_group(self)

    @property
    def state_name(self) -> str:
        """The state Kafka would derive from these records alone."""
        if not self.has_members:
            return "Empty"
        # The topology is matched with the topics when a member is heard of, which none can be.
        return "NotReady"

    def tombstones(self) -> list[Record]:
        return [Record(key, None) for key in sorted(self.records, key=key_type, reverse=True)]
