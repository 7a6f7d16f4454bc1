"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable

from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.member import ClassicMember
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.expiry import offset_tombstones
from broker_cy.coordinator.group import Group, GroupType, not_found
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.coordinator.written import WrittenGroups
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Token
from broker_cy.wire import messages

# From this version of DescribeGroups on, a group that does not exist is an error instead of being reported as dead.
VERSION_GROUP_ID_NOT_FOUND = 6


def describe(groups: WrittenGroups, group_id: str, version: int) -> messages.DescribeGroupsResponse.DescribedGroup:
    group = groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        # As in Kafka, each of the other types is described by an API of its own.
        if version < VERSION_GROUP_ID_NOT_FOUND:
            return messages.DescribeGroupsResponse.DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        error = not_found(group, group_id, GroupType.CLASSIC)
        return messages.DescribeGroupsResponse.DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=error.code,
            error_message=error.message,
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
    groups: Iterable[Group], states: Iterable[str], types: Iterable[str]
) -> list[messages.ListGroupsResponse.ListedGroup]:
    """Those of the groups that match both filters. An empty filter matches all; names are compared
    case-insensitively. NotReady is also not_ready, the only name of this state that Kafka 4.3 filters by.
    """
    wanted_states = {state.strip().lower().replace("_", "") for state in states}
    wanted_types = {group_type.lower() for group_type in types}
    listed = [
        messages.ListGroupsResponse.ListedGroup(
            group_id=group.group_id,
            protocol_type=group.listed_protocol_type,
            group_state=group.state_name,
            group_type=group.group_type.value,
        )
        for group in groups
    ]
    return [
        group
        for group in listed
        if (not wanted_states or group.group_state.lower() in wanted_states)
        and (not wanted_types or group.group_type in wanted_types)
    ]


def delete_groups(machine: GroupMachine, step: GroupStep, group_ids: Iterable[str], token: Token, now: Now) -> None:
    """Delete groups without members, with their offsets. Each group gets its own error code.

    The records of a group with many offsets fill more than one batch. The tombstone of the group itself comes last, so
    that a client can repeat a deletion that a crash interrupted.
    """
    step.atomic = False
    codes: dict[str, ErrorCode] = {}
    records: list[Record] = []
    for group_id in dict.fromkeys(group_ids):
        group = machine.groups.get(group_id)
        codes[group_id] = code = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_deletion()
        if group is not None and code is ErrorCode.NONE:
            records += offset_tombstones(machine, group_id)
            records += group.tombstones()
    machine.append(step, records)
    step.reply_when_written(token, _response(codes), _not_deleted, tuple(codes))


def _not_deleted(group_ids: Iterable[str], code: ErrorCode) -> messages.DeleteGroupsResponse:
    """The response when records cannot be written. As in Kafka, all groups get the error: one that was not found may
    exist again, if its earlier deletion failed.
    """
    return _response(dict.fromkeys(group_ids, code))


def _response(codes: dict[str, ErrorCode]) -> messages.DeleteGroupsResponse:
    return messages.DeleteGroupsResponse(
        results=[
            messages.DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes.items()
        ]
    )
