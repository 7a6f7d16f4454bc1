"""The heartbeat of a streams group's member that has nothing to report and nothing to learn. See `modern.steady`."""

from __future__ import annotations

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.steady import kept, steady_member
from broker_cy.coordinator.modern.steady_member import SteadyMember
from broker_cy.coordinator.streams import deadlines
from broker_cy.coordinator.streams.hooks import HookedStreamsGroup
from broker_cy.coordinator.streams.member import NO_REBALANCE_TIMEOUT_MS
from broker_cy.coordinator.streams.target import assignment_configs
from broker_cy.core.step import Now
from broker_cy.wire import messages

Request = messages.StreamsGroupHeartbeatRequest
Response = messages.StreamsGroupHeartbeatResponse


def steady_heartbeat(
    machine: GroupTable, request: Request, client_id: str, client_host: str, now: Now
) -> SteadyMember[Response] | None:
    """Prolong the session of a member whose request and group have nothing new; returns the member, which has the
    answer. None if they may have: the operation has to handle the request. `client_host` has no slash.
    """
    group = machine.groups.get(request.group_id)
    # The class of all streams groups here; the test of its abstract base is slow.
    if (
        not isinstance(group, HookedStreamsGroup)
        or request.endpoint_information_epoch != group.endpoint_epoch
        or request.rebalance_timeout_ms != NO_REBALANCE_TIMEOUT_MS
        or request.instance_id is not None
        or request.rack_id is not None
        or request.topology is not None
        or request.active_tasks is not None
        or request.standby_tasks is not None
        or request.warmup_tasks is not None
        or request.process_id is not None
        or request.user_endpoint is not None
        or request.client_tags is not None
        or request.task_offsets is not None
        or request.task_end_offsets is not None
        or request.shutdown_application
    ):
        return None
    known = steady_member(machine, group, request, client_id, client_host, _keep)
    return known if known is not None and known.prolong(machine, *now) else None


def _keep(machine: GroupTable, group: HookedStreamsGroup, member_id: str) -> SteadyMember[Response] | None:
    """None also if the answer has a status, or the heartbeat might begin an epoch for the topology or a setting."""
    member, topology, configured = group.members.get(member_id), group.topology, group.configured
    if member is None or not member.is_reconciled_to(group.assignment_epoch):
        return None
    if (
        topology is None
        or configured is None
        or configured.topology is not topology
        or configured.problem is not None
        or group.validated_epoch != topology.epoch
        or member.topology_epoch < topology.epoch
        or group.shutdown_by is not None
        or deadlines.is_delayed(machine, group.group_id)
        or group.assignment_configs != assignment_configs(machine, group.group_id)
    ):
        return None
    config = machine.streams_config(group.group_id)
    answer = Response(
        member_id=member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        endpoint_information_epoch=group.endpoint_epoch,
        status=[],
    )
    return kept(machine, group, member, config.session_timeout_ms, answer)
