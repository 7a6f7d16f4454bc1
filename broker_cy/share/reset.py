"""The offset at which a share group begins a partition that it has no state for: share.auto.offset.reset (KIP-932)."""

from __future__ import annotations

from typing import Final

from broker_cy.core.java_duration import duration_ms

# Timestamps of ListOffsets that name an end of the log.
LATEST: Final = -1
EARLIEST: Final = -2


def timestamp(policy: str, now_ms: int) -> int:
    """Return the timestamp whose first record the group begins with, or LATEST, or EARLIEST.

    LATEST is the high watermark, for every isolation level. `policy` is a valid value of the setting.
    """
    if policy == "latest":
        return LATEST
    if policy == "earliest":
        return EARLIEST
    return max(0, now_ms - duration_ms(policy.removeprefix("by_duration:")))
