"""The heartbeat of a member that has nothing to report and nothing to learn: almost all of them.

It changes no durable state, so it needs no operation. The same heartbeat as an operation has the same answer. The
group keeps a `SteadyMember` of each such member: later heartbeats only compare it with the request and send its answer.
"""

from __future__ import annotations

from typing import Final

from broker_cy.coordinator.consumer import deadlines, regex
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import NO_REBALANCE_TIMEOUT_MS
from broker_cy.coordinator.consumer.steady_member import SteadyMember
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.member import MemberState
from broker_cy.core.step import Now
from broker_cy.wire import messages

Request = messages.ConsumerGroupHeartbeatRequest
Response = messages.ConsumerGroupHeartbeatResponse

# Attributes of an enumeration are slow to look up.
_STABLE: Final = MemberState.STABLE


def steady_heartbeat(
    machine: GroupTable, request: Request, client_id: str, client_host: str, now: Now
) -> Response | None:
    """Prolong the session of a member whose request and group have nothing new. None if they may have: the operation
    has to handle the request. The answer is shared: it must not be changed. `client_host` has no slash.
    """
    group = machine.groups.get(request.group_id)
    # The class of all consumer groups here; the test of its abstract base takes 1,500 instructions more.
    if not isinstance(group, HookedConsumerGroup):
        return None
    known = group.steady.get(request.member_id)
    if known is None or known.generation != machine.image.generation or known.settings is not machine.settings:
        known = _steady_member(machine, group, request.member_id)
        if known is None:
            return None
    epoch = known.epoch
    instance_id = request.instance_id
    mono_ms = now.mono_ms
    if (
        request.member_epoch != epoch
        or group.assignment_epoch != epoch
        or group.epoch != epoch
        or request.topic_partitions is not None
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or request.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT_MS
        or request.server_assignor is not None
        or request.rack_id is not None
        or (instance_id is not None and instance_id != known.instance_id)
        or client_id != known.client_id
        or client_host != known.client_host
        or group.is_refresh_due(mono_ms)
        or (group.regex_members and regex.is_search_due(machine, group, now))
    ):
        return None
    machine.timers.set(known.session_key, mono_ms + known.session_timeout_ms)
    return known.answer


def _steady_member(machine: GroupTable, group: HookedConsumerGroup, member_id: str) -> SteadyMember | None:
    """Keep what the heartbeats of a member need; None if it is not steady."""
    member = group.members.get(member_id)
    if member is None or member.state is not _STABLE or member.classic is not None:
        return None
    config = machine.consumer_config(group.group_id)
    found = group.steady[member_id] = SteadyMember(
        epoch=member.epoch,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        session_key=deadlines.session_key(group, member),
        session_timeout_ms=config.session_timeout_ms,
        answer=Response(
            member_id=member_id, member_epoch=member.epoch, heartbeat_interval_ms=config.heartbeat_interval_ms
        ),
        generation=machine.image.generation,
        settings=machine.settings,
    )
    return found
