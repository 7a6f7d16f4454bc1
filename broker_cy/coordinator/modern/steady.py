"""The heartbeat of a member that has nothing to report and nothing to learn: almost all of them.

It changes no durable state, so it needs no operation. The same heartbeat as an operation has the same answer. The
group keeps a `SteadyMember` of each such member: later heartbeats only compare it with the request and send its answer.
A heartbeat that repeats the bytes of the one before is not even decoded (`handlers.shared.repeated_heartbeat`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.group import EpochGroup, EpochMember
from broker_cy.coordinator.modern.steady_member import SteadyMember
from broker_cy.core.step import Now

# The response to a heartbeat.
R = TypeVar("R")
G = TypeVar("G", bound=EpochGroup[Any, Any])


class Heartbeat(Protocol):
    """The parts that the requests of all types of groups have."""

    member_id: str
    member_epoch: int


def steady_member(
    machine: GroupTable,
    group: G,
    request: Heartbeat,
    client_id: str,
    client_host: str,
    keep: Callable[[GroupTable, G, str], SteadyMember[R] | None],
) -> SteadyMember[R] | None:
    """The sender of the request, if its client has nothing new; None if it may have. `prolong` of it tells whether the
    group has. The other fields of the request are for the caller. `client_host` has no slash. `keep` is a function of a
    module: it makes the `SteadyMember` of a member id, or None for a member that is not steady.
    """
    member_id = request.member_id
    known: SteadyMember[R] | None = group.steady.get(member_id)
    if known is None or not known.is_of(machine):
        known = keep(machine, group, member_id)
        if known is None:
            return None
        group.steady[member_id] = known
    if request.member_epoch != known.epoch or client_id != known.client_id or client_host != known.client_host:
        return None
    return known


def kept(
    machine: GroupTable,
    group: G,
    member: EpochMember,
    session_timeout_ms: int,
    answer: R,
    *,
    instance_id: str | None = None,
    is_due: Callable[[GroupTable, G, Now], bool] | None = None,
) -> SteadyMember[R]:
    """Return the kept state of a member. `is_due` tells if a heartbeat begins something else; None: it does not."""
    return SteadyMember(
        machine,
        group,
        member.member_id,
        member.epoch,
        instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        session_timeout_ms,
        answer,
        is_due,
    )
