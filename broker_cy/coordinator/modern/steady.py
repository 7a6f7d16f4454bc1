"""The heartbeat of a member that has nothing to report and nothing to learn: almost all of them.

It changes no durable state, so it needs no operation. The same heartbeat as an operation has the same answer. The
group keeps a `SteadyMember` of each such member: later heartbeats only compare it with the request and send its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.group import EpochGroup, EpochMember
from broker_cy.coordinator.modern.steady_member import SteadyMember
from broker_cy.coordinator.timers import TimerKey, TimerKind
from broker_cy.core.step import Now

# The response to a heartbeat.
R = TypeVar("R")
G = TypeVar("G", bound=EpochGroup[Any, Any])

# Attributes of an enumeration are slow to look up.
_SESSION: Final = TimerKind.SESSION


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
    now: Now,
    keep: Callable[[GroupTable, G, str], SteadyMember[R] | None],
) -> SteadyMember[R] | None:
    """The sender of the request, if neither its client nor its group has anything new; None if they may have. The other
    fields of the request are for the caller. `client_host` has no slash. `keep` is a function of a module: it makes
    the `SteadyMember` of a member id, or None for a member that is not steady.
    """
    member_id = request.member_id
    known: SteadyMember[R] | None = group.steady.get(member_id)
    if known is None or known.generation != machine.image.generation or known.settings is not machine.settings:
        known = keep(machine, group, member_id)
        if known is None:
            return None
        group.steady[member_id] = known
    epoch = known.epoch
    if (
        request.member_epoch != epoch
        or group.assignment_epoch != epoch
        or group.epoch != epoch
        or client_id != known.client_id
        or client_host != known.client_host
        or group.is_refresh_due(now.mono_ms)
    ):
        return None
    return known


def kept(
    machine: GroupTable,
    group_id: str,
    member: EpochMember,
    session_timeout_ms: int,
    answer: R,
    instance_id: str | None = None,
) -> SteadyMember[R]:
    """What is kept of a member."""
    return SteadyMember(
        epoch=member.epoch,
        instance_id=instance_id,
        client_id=member.client_id,
        client_host=member.client_host.removeprefix("/"),
        session_key=TimerKey(_SESSION, group_id, member.member_id),
        session_timeout_ms=session_timeout_ms,
        answer=answer,
        generation=machine.image.generation,
        settings=machine.settings,
    )


def prolong(machine: GroupTable, known: SteadyMember[R], now: Now) -> R:
    """Restart the session of the member; returns its answer, which is shared: it must not be changed."""
    machine.timers.set(known.session_key, now.mono_ms + known.session_timeout_ms)
    return known.answer
