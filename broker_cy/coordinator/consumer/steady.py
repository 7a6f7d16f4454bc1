"""The heartbeat of a consumer group's member that has nothing to report and nothing to learn. See `modern.steady`."""

from __future__ import annotations

from typing import Final

from broker_cy.coordinator.consumer import regex
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import NO_REBALANCE_TIMEOUT_MS
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.modern.steady import kept, steady_member
from broker_cy.coordinator.modern.steady_member import SteadyMember
from broker_cy.core.step import Now
from broker_cy.wire import messages

Request = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse

# Attributes of an enumeration are slow to look up.
_STABLE: Final = MemberState.STABLE


def steady_heartbeat(
    machine: GroupTable, request: Request, client_id: str, client_host: str, now: Now
) -> SteadyMember[Response] | None:
    """Prolong the session of a member whose request and group have nothing new; returns the member, which has the
    answer. None if they may have: the operation has to handle the request. `client_host` has no slash.
    """
    group = machine.groups.get(request.group_id)
    # The class of all consumer groups here; the test of its abstract base takes 1,500 instructions more.
    if (
        not isinstance(group, HookedConsumerGroup)
        or request.topic_partitions is not None
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT_MS
        or request.server_assignor is not None
        or request.rack_id is not None
    ):
        return None
    known = steady_member(machine, group, request, client_id, client_host, _keep)
    if known is None:
        return None
    instance_id = request.instance_id
    if instance_id is not None and instance_id != known.instance_id:
        return None
    return known if known.prolong(machine, *now) else None


def _keep(machine: GroupTable, group: HookedConsumerGroup, member_id: str) -> SteadyMember[Response] | None:
    member = group.members.get(member_id)
    if member is None or member.state is not _STABLE or member.classic is not None:
        return None
    config = machine.consumer_config(group.group_id)
    answer = Response(
        member_id=member_id, member_epoch=member.epoch, heartbeat_interval_ms=config.heartbeat_interval_ms
    )
    # Once the group has its first expression, nothing that was kept is used any more.
    is_due = regex.is_search_due if group.regex_members else None
    return kept(
        machine, group, member, config.session_timeout_ms, answer, instance_id=member.instance_id, is_due=is_due
    )
