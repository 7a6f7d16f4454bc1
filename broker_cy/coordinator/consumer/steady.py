"""The heartbeat of a member that has nothing to report and nothing to learn: almost all of them.

It changes no durable state, so it needs no operation. The same heartbeat as an operation has the same answer.
"""

from __future__ import annotations

from broker_cy.coordinator.consumer import deadlines, regex
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.member import NO_REBALANCE_TIMEOUT_MS, ConsumerMember
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.coordinator.step import ClientFacts
from broker_cy.core.step import Now
from broker_cy.wire import messages

Request = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse

# Attributes of an enumeration are slow to look up.
_STABLE = MemberState.STABLE


def steady_heartbeat(machine: GroupTable, request: Request, client: ClientFacts, now: Now) -> Response | None:
    """Prolong the session of a member whose request and group have nothing new. None if they may have: the operation
    has to handle the request.
    """
    group = machine.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        return None
    member = group.members.get(request.member_id)
    if (
        member is None
        or not _says_nothing(request, member, client)
        or member.epoch != request.member_epoch
        or member.epoch != group.assignment_epoch
        or member.epoch != group.epoch
        or member.state is not _STABLE
        or member.classic is not None
        or group.is_refresh_due(now.mono_ms)
        or (group.regex_members and regex.is_search_due(machine, group, now))
    ):
        return None
    config = machine.consumer_config(group.group_id)
    machine.timers.set(deadlines.session_key(group, member), now.mono_ms + config.session_timeout_ms)
    return Response(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
    )


def _says_nothing(request: Request, member: ConsumerMember, client: ClientFacts) -> bool:
    """Whether the request has no field that may change the member."""
    return (
        request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == NO_REBALANCE_TIMEOUT_MS
        and request.server_assignor is None
        and request.rack_id is None
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and client.client_id == member.client_id
        and client.host == member.client_host
    )
