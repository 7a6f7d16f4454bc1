"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.coordinator.classic.group import GroupState
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.coordinator.classic.records import group_tombstone
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.offset_record import encode_offset_key
from broker_cy.coordinator.other_groups import GroupType
from broker_cy.coordinator.step import Now, Record, Step, Token
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

# From this version of DescribeGroups on, a group that does not exist is an error instead of being reported as dead.
VERSION_GROUP_ID_NOT_FOUND = 6


def describe(machine: GroupMachine, group_id: str, version: int) -> messages.DescribeGroupsResponse.DescribedGroup:
    group = machine.groups.get(group_id)
    if group is None:
        reason = f"Group {group_id} not found."
        if machine.other_groups.get(group_id) is not None:
            reason = f"Group {group_id} is not a classic group."
        if version < VERSION_GROUP_ID_NOT_FOUND:
            return messages.DescribeGroupsResponse.DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        return messages.DescribeGroupsResponse.DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=reason,
        )
    # Only a stable group has a protocol that all of its members use.
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return messages.DescribeGroupsResponse.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described(member, protocol) for member in group.members.values()],
    )


def _described(member: ClassicMember, protocol: str | None) -> messages.DescribeGroupsResponse.DescribedGroupMember:
    return messages.DescribeGroupsResponse.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )


def list_groups(
    machine: GroupMachine, states: Iterable[str], types: Iterable[str]
) -> list[messages.ListGroupsResponse.ListedGroup]:
    """The groups of every type that match both filters. An empty filter matches all; names are compared
    case-insensitively.
    """
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {group_type.lower() for group_type in types}
    listed = [
        messages.ListGroupsResponse.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=GroupType.CLASSIC.value,
        )
        for group in machine.groups.values()
    ]
    listed += [
        messages.ListGroupsResponse.ListedGroup(
            group_id=other.group_id,
            protocol_type=other.protocol_type,
            group_state=other.state(),
            group_type=other.group_type.value,
        )
        for other in machine.other_groups.by_id.values()
    ]
    return [
        group
        for group in listed
        if (not wanted_states or group.group_state.lower() in wanted_states)
        and (not wanted_types or group.group_type in wanted_types)
    ]


def delete_groups(machine: GroupMachine, step: Step, group_ids: Iterable[str], token: Token, now: Now) -> None:
    """Delete groups without members, with their offsets. Each group gets its own error code.

    The records of a group with many offsets fill more than one batch. The tombstone of the group itself comes last, so
    that a client can repeat a deletion that a crash interrupted.
    """
    step.atomic = False
    codes: dict[str, ErrorCode] = {}
    records: list[Record] = []
    for group_id in dict.fromkeys(group_ids):
        codes[group_id] = code = _deletable(machine, group_id)
        if code is ErrorCode.NONE:
            records += offset_tombstones(machine, group_id)
            records += group_tombstones(machine, group_id)
    machine.append(step, records)
    step.reply_when_written(token, _response(codes), _not_deleted, codes)


def _not_deleted(codes: dict[str, ErrorCode], code: ErrorCode) -> messages.DeleteGroupsResponse:
    """The response when the records cannot be written: groups that had an error keep it."""
    return _response({group_id: code if own is ErrorCode.NONE else own for group_id, own in codes.items()})


def _response(codes: dict[str, ErrorCode]) -> messages.DeleteGroupsResponse:
    return messages.DeleteGroupsResponse(
        results=[
            messages.DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes.items()
        ]
    )


def _deletable(machine: GroupMachine, group_id: str) -> ErrorCode:
    other = machine.other_groups.get(group_id)
    if other is not None:
        if other.has_members:
            return ErrorCode.NON_EMPTY_GROUP
        # A share group has state in another internal topic, which would stay behind.
        return ErrorCode.UNSUPPORTED_VERSION if other.group_type is GroupType.SHARE else ErrorCode.NONE
    group = machine.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def offset_tombstones(machine: GroupMachine, group_id: str) -> list[Record]:
    """Return the tombstones of every offset of a group, also of those in open transactions."""
    partitions = {(topic, index): None for topic, found in machine.offsets.topics(group_id).items() for index in found}
    partitions.update(dict.fromkeys(machine.offsets.pending_partitions(group_id)))
    return [Record(encode_offset_key(group_id, topic, index), None) for topic, index in partitions]


def group_tombstones(machine: GroupMachine, group_id: str) -> list[Record]:
    """Return the tombstones of a group itself."""
    other = machine.other_groups.get(group_id)
    return [group_tombstone(group_id)] if other is None else other.tombstones()
