"""The offset at which a share group begins a partition that it has no state for: share.auto.offset.reset (KIP-932)."""

from __future__ import annotations

import re
from typing import Final

# Timestamps of ListOffsets that name an end of the log.
LATEST: Final = -1
EARLIEST: Final = -2

_DURATION = re.compile(
    r"\+?P(?:\+?(\d+)D)?(?:T(?:\+?(\d+)H)?(?:\+?(\d+)M)?(?:\+?(\d+)(?:\.(\d{0,9}))?S)?)?", re.IGNORECASE | re.ASCII
)
_DAY_MS, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000


def timestamp(policy: str, now_ms: int) -> int:
    """Return the timestamp whose first record the group begins with, or LATEST, or EARLIEST.

    LATEST is the high watermark, for every isolation level. `policy` is a valid value of the setting.
    """
    if policy == "latest":
        return LATEST
    if policy == "earliest":
        return EARLIEST
    return max(0, now_ms - duration_ms(policy.removeprefix("by_duration:")))


def duration_ms(text: str) -> int:
    """Return the whole milliseconds of an ISO 8601 duration, as Java's Duration writes it. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid duration {text!r}; expected PnDTnHnMn.nS")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    fraction = (match[5] or "").ljust(3, "0")[:3]
    return days * _DAY_MS + hours * _HOUR_MS + minutes * _MINUTE_MS + seconds * _SECOND_MS + int(fraction)
