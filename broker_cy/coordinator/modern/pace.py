"""How soon a member sends its next heartbeat while it waits for the assignment of a newer epoch (see
`consumer.pace`).
"""

from __future__ import annotations

from typing import Any, Final

from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.core.step import Now

PROMPT_MIN_MS: Final = 500
# The part of the age of the rebalance.
AGE_DIVISOR: Final = 8
# At most so many prompt heartbeats of one group in a second. At 5 s, a group of 10,000 members has as many anyway.
PROMPT_PER_S_MAX: Final = 2_000


def prompt_ms(group: EpochGroup[Any, Any], now: Now) -> int | None:
    """The interval during the rebalance in progress, which grows with its age and with the size of the group; None
    without one.
    """
    began = group.journal.began
    if began is None:
        return None
    spread_ms = len(group.members) * 1_000 // PROMPT_PER_S_MAX
    return max(PROMPT_MIN_MS, (now.mono_ms - began.mono_ms) // AGE_DIVISOR, spread_ms)
