"""The records of classic groups and the kinds of keys in `__consumer_offsets`."""

from __future__ import annotations

import struct
from enum import IntEnum

from broker_cy.coordinator.group import ClassicGroup, GroupState
from broker_cy.coordinator.member import ClassicMember
from broker_cy.coordinator.step import Record
from broker_cy.core.cursor import Cursor
from broker_cy.core.errors import WireError
from broker_cy.wire import codec, messages

# The version that Kafka 4.3 writes; version 4 can be read.
GROUP_METADATA_VERSION = 3
GROUP_METADATA_VERSION_MAX = 4


class KeyType(IntEnum):
    """The number at the start of a key. All others belong to groups of other types, or to a Kafka that is newer than
    4.3.
    """

    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2


def key_type(key: bytes) -> int:
    """The type of a record's key. Raises WireError if it is shorter than a type."""
    if len(key) < 2:
        raise WireError(f"a key of {len(key)} bytes")
    return int.from_bytes(key[:2], "big", signed=True)


def group_key(group_id: str) -> bytes:
    """The key of a classic group's record."""
    return struct.pack(">h", KeyType.GROUP_METADATA) + codec.encode(messages.GroupMetadataKey(group=group_id), 0)


def group_of_key(key: bytes) -> str:
    """The group of a key of any known type: each key starts with it. Raises WireError if it is malformed."""
    cursor = Cursor(key)
    cursor.read_i16()
    return _text(cursor)


def _text(cursor: Cursor) -> str:
    try:
        return cursor.read_bytes(cursor.read_i16()).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"a string that is not UTF-8: {error}") from error


def group_record(group: ClassicGroup, assignment: dict[str, bytes]) -> Record:
    """The record of a group with its members and what each of them is assigned, b"" for those not in `assignment`."""
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
    """The record of a group without members, whatever state it is in."""
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


def load_group(group_id: str, value: bytes, wall_ms: int) -> ClassicGroup:
    """The group in a record's value: STABLE with members, EMPTY without. Raises WireError if it is malformed."""
    data, version = codec.decode_versioned(messages.GroupMetadataValue, value)
    if version > GROUP_METADATA_VERSION_MAX:
        raise WireError(f"group metadata of version {version}, 0 to {GROUP_METADATA_VERSION_MAX} are known")
    group = ClassicGroup(group_id, wall_ms)
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
    return group


def _timestamp(group: ClassicGroup) -> int:
    return -1 if group.state_timestamp_ms is None else group.state_timestamp_ms
