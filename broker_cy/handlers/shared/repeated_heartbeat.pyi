from typing import Any

from broker_cy.broker.context import RequestContext
from broker_cy.coordinator.modern.steady_member import SteadyMember
from broker_cy.coordinator_services.group_runtime import GroupRuntime

class RepeatedHeartbeat:
    """The heartbeat of a member that may come again, byte for byte, from the same client."""

    def __init__(self, ctx: RequestContext, runtime: GroupRuntime, member: SteadyMember[Any]) -> None: ...
    def still_stands(self) -> bool:
        """Whether the same request has the same answer again; if so, the session of the member is prolonged."""
