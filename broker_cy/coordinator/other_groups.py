"""Groups of types this broker does not serve yet: consumer (KIP-848), share (KIP-932) and streams (KIP-1071).

Their records stay in the log and are never rewritten. Only the fields that ListGroups needs are read. Such a group is
not a classic group: clients cannot join it. Its committed offsets can be fetched, and they do not expire.
"""

from __future__ import annotations

from enum import Enum, IntEnum

from broker_cy.coordinator.records import group_of_key, key_type
from broker_cy.coordinator.step import Record
from broker_cy.wire import codec, messages


class GroupType(Enum):
    """Kafka's group types. The values are their names in responses."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class OtherKeyType(IntEnum):
    """Types of keys that belong to groups that are not classic."""

    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    SHARE_GROUP_MEMBER_METADATA = 10
    SHARE_GROUP_METADATA = 11
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = 12
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = 13
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = 14
    SHARE_GROUP_STATE_PARTITION_METADATA = 15
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16
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
        OtherKeyType.CONSUMER_GROUP_MEMBER_METADATA,
        OtherKeyType.SHARE_GROUP_MEMBER_METADATA,
        OtherKeyType.STREAMS_GROUP_MEMBER_METADATA,
    }
)
# `state` in ConsumerGroupCurrentMemberAssignmentValue of a member whose assignment is complete.
_MEMBER_STABLE = 0


class OtherGroup:
    """The live records of one group, by key; never empty."""

    __slots__ = ("group_id", "group_type", "records")

    def __init__(self, group_id: str, group_type: GroupType) -> None:
        self.group_id = group_id
        self.group_type = group_type
        self.records: dict[bytes, bytes] = {}

    @property
    def has_members(self) -> bool:
        return any(key_type(key) in _MEMBER_KEYS for key in self.records)

    @property
    def protocol_type(self) -> str:
        """The protocol type in ListGroups. As in Kafka, it is the name of the group's type."""
        return self.group_type.value

    def state(self) -> str:
        """The state Kafka would derive from these records alone."""
        if not self.has_members:
            return "Empty"
        if self.group_type is GroupType.SHARE:
            return "Stable"
        if self.group_type is GroupType.STREAMS:
            # The topology is matched with the topics when a member is heard of, which none can be.
            return "NotReady"
        return self._consumer_state()

    def _consumer_state(self) -> str:
        epoch = assignment_epoch = 0
        members: list[tuple[int, int]] = []
        for key, value in self.records.items():
            kind = key_type(key)
            if kind == OtherKeyType.CONSUMER_GROUP_METADATA:
                epoch = codec.decode_versioned(messages.ConsumerGroupMetadataValue, value)[0].epoch
            elif kind == OtherKeyType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
                target = codec.decode_versioned(messages.ConsumerGroupTargetAssignmentMetadataValue, value)[0]
                assignment_epoch = target.assignment_epoch
            elif kind == OtherKeyType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
                member = codec.decode_versioned(messages.ConsumerGroupCurrentMemberAssignmentValue, value)[0]
                members.append((member.member_epoch, member.state))
        if epoch > assignment_epoch:
            return "Assigning"
        if any(member_epoch != assignment_epoch or state != _MEMBER_STABLE for member_epoch, state in members):
            return "Reconciling"
        return "Stable"

    def tombstones(self) -> list[Record]:
        """Return the tombstones of the group: dependent records first, its own record last."""
        return [Record(key, None) for key in sorted(self.records, key=key_type, reverse=True)]


class OtherGroups:
    """The groups of one state machine that are not classic, by id."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[str, OtherGroup] = {}

    def get(self, group_id: str) -> OtherGroup | None:
        return self.by_id.get(group_id)

    def replay(self, key: bytes, value: bytes | None) -> tuple[str, bytes | None]:
        """Apply a record whose key type is in GROUP_TYPES; returns its group and its previous value."""
        group_id = group_of_key(key)
        group = self.by_id.get(group_id)
        before = group.records.get(key) if group is not None else None
        if value is not None:
            if group is None:
                group = self.by_id[group_id] = OtherGroup(group_id, GROUP_TYPES[key_type(key)])
            group.records[key] = value
        elif group is not None and before is not None:
            del group.records[key]
            if not group.records:
                del self.by_id[group_id]
        return group_id, before
