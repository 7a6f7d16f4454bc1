"""The answer to the heartbeat of a member with nothing new, without an operation, a future and a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from broker_cy.broker.context import RequestContext
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.modern.steady_member import SteadyMember
from broker_cy.core.step import Now
from broker_cy.handlers.shared.repeated_heartbeat import RepeatedHeartbeat


class OfGroup(Protocol):
    """A request of a member of a group."""

    group_id: str


# The request and its response.
Q = TypeVar("Q", bound=OfGroup)
R = TypeVar("R")


def steady_answer(
    ctx: RequestContext,
    request: Q,
    steady_heartbeat: Callable[[GroupMachine, Q, str, str, Now], SteadyMember[R] | None],
) -> R | None:
    """The answer of `steady_heartbeat`, a function of the group's type; None if an operation has to handle the request:
    also while the coordinator is being loaded, and while records that the answer depends on may be unwritten.
    """
    runtime = ctx.broker.groups.active_runtime(request.group_id)
    if runtime is None or runtime.is_writing:
        return None
    member = steady_heartbeat(runtime.machine, request, ctx.client_id or "", ctx.client_host, runtime.now())
    if member is None:
        return None
    ctx.still_stands = RepeatedHeartbeat(ctx, runtime, member).still_stands
    return member.answer
