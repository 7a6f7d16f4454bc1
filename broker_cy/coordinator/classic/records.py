"""The records of classic groups."""

from __future__ import annotations

import struct

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.records import KeyType
from broker_cy.coordinator.step import Record
from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages

# The version that Kafka 4.3 writes; version 4 can be read.
GROUP_METADATA_VERSION = 3
GROUP_METADATA_VERSION_MAX = 4


def group_key(group_id: str) -> bytes:
    """The key of a classic group's record."""
    return struct.pack(">h", KeyType.GROUP_METADATA) + codec.encode(messages.GroupMetadataKey(group=group_id), 0)


def group_record(group: ClassicGroup, assignment: dict[str, bytes]) -> Record:
    """The record of a group with its members and their assignments, b"" for those not in `assignment`."""
    value = messages.GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=_timestamp(group),
        members=[
            messages.GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name or ""),
                assignment=assignment.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return Record(group_key(group.group_id), codec.encode_versioned(value, GROUP_METADATA_VERSION))


def new_group_record(group: ClassicGroup) -> Record:
    """The record of a group without members, in any state."""
    value = messages.GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=_timestamp(group),
        members=[],
    )
    return Record(group_key(group.group_id), codec.encode_versioned(value, GROUP_METADATA_VERSION))


def group_tombstone(group_id: str) -> Record:
    return Record(group_key(group_id), None)


def load_group(group: ClassicGroup, value: bytes) -> None:
    """Set the live state of a new group from its record: STABLE with members, EMPTY without. Raises WireError if the
    value is malformed.
    """
    data, version = codec.decode_versioned(messages.GroupMetadataValue, value)
    if version > GROUP_METADATA_VERSION_MAX:
        raise WireError(f"group metadata of version {version}, 0 to {GROUP_METADATA_VERSION_MAX} are known")
    group.generation = data.generation
    group.protocol_type = data.protocol_type or None
    group.protocol_name = data.protocol
    group.state_timestamp_ms = None if data.current_state_timestamp == -1 else data.current_state_timestamp
    group.leader_id = data.leader
    for item in data.members:
        member = ClassicMember(
            item.member_id,
            item.group_instance_id,
            item.client_id,
            item.client_host,
            # Version 0 has no rebalance timeout; the session timeout stood for both.
            item.session_timeout if item.rebalance_timeout == -1 else item.rebalance_timeout,
            item.session_timeout,
            data.protocol_type,
            ((data.protocol or "", bytes(item.subscription)),),
            bytes(item.assignment),
        )
        group.add(member, None)
    if group.members:
        group.state = GroupState.STABLE
    if group.leader_id not in group.members:
        group.leader_id = next(iter(group.members), None)
    group.refresh_subscription()


def _timestamp(group: ClassicGroup) -> int:
    return -1 if group.state_timestamp_ms is None else group.state_timestamp_ms
