"""What the heartbeats of one member need while nothing changes."""

from __future__ import annotations

from dataclasses import dataclass

from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.timers import TimerKey
from broker_cy.wire import messages


@dataclass(slots=True)
class SteadyMember:
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
    answer: messages.ConsumerGroupHeartbeatResponse
    generation: int
    settings: GroupSettings
