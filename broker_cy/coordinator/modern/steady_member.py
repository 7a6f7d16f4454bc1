"""What the heartbeats of one member need while nothing changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.timers import TimerKey

# The response to a heartbeat.
R = TypeVar("R")


@dataclass(slots=True)
class SteadyMember(Generic[R]):
    """It follows from the member, and from the settings of the group at the `generation` of the metadata.

    Not a NamedTuple: the attributes of one are slower to look up.
    """

    epoch: int
    instance_id: str | None
    client_id: str
    client_host: str
    """Without the slash."""
    session_key: TimerKey
    session_timeout_ms: int
    answer: R
    generation: int
    settings: GroupSettings
