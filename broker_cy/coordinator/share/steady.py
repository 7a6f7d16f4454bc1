"""The heartbeat of a share group's member that has nothing to report and nothing to learn. See `modern.steady`."""

from __future__ import annotations

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.steady import kept, steady_member
from broker_cy.coordinator.modern.steady_member import SteadyMember
from broker_cy.coordinator.share.hooks import HookedShareGroup
from broker_cy.core.step import Now
from broker_cy.wire import messages

Request = messages.ShareGroupHeartbeatRequest
Response = messages.ShareGroupHeartbeatResponse


def steady_heartbeat(
    machine: GroupTable, request: Request, client_id: str, client_host: str, now: Now
) -> SteadyMember[Response] | None:
    """Prolong the session of a member whose request and group have nothing new; returns the member, which has the
    answer. None if they may have: the operation has to handle the request. `client_host` has no slash.
    """
    group = machine.groups.get(request.group_id)
    # The class of all share groups here; the test of its abstract base is slow.
    if (
        not isinstance(group, HookedShareGroup)
        or request.subscribed_topic_names is not None
        or request.rack_id is not None
    ):
        return None
    known = steady_member(machine, group, request, client_id, client_host, _keep)
    return known if known is not None and known.prolong(machine, *now) else None


def _keep(machine: GroupTable, group: HookedShareGroup, member_id: str) -> SteadyMember[Response] | None:
    """None also if the heartbeat might begin an epoch for share partitions, or request their state."""
    member = group.members.get(member_id)
    if member is None or not member.is_reconciled_to(group.assignment_epoch):
        return None
    if group.has_unassigned is not False or group.has_stateless is not False:
        return None
    config = machine.share_config(group.group_id)
    answer = Response(
        member_id=member_id, member_epoch=member.epoch, heartbeat_interval_ms=config.heartbeat_interval_ms
    )
    return kept(machine, group, member, config.session_timeout_ms, answer)
