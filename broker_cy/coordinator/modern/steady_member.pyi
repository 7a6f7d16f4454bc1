from collections.abc import Callable
from typing import Any, Generic, TypeVar

from broker_cy.coordinator.group import Group, GroupTable
from broker_cy.core.step import Now

# The response to a heartbeat.
R = TypeVar("R")

class SteadyMember(Generic[R]):
    """The state that the heartbeats of one member need while nothing changes. The answer is shared: it must not be
    changed. `client_host` has no slash. `is_due` tells whether a heartbeat begins something else; None: it does not.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    client_id: str
    client_host: str
    answer: R

    def __init__(
        self,
        machine: GroupTable,
        group: Group,
        member_id: str,
        epoch: int,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        answer: R,
        is_due: Callable[[GroupTable, Any, Now], bool] | None,
    ) -> None: ...
    def is_of(self, machine: GroupTable) -> bool:
        """Whether the metadata and the settings are still those that it was made of."""

    def prolong(self, machine: GroupTable, wall_ms: int, mono_ms: int) -> bool:
        """Restart the session of the member, if neither it nor its group has anything new; returns whether that is
        so.
        """
