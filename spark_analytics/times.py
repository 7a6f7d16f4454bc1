"""Times as people type them: `-1d`, `-90m`, `2026-11-23`, `2026-11-23T08:30`, `2026-11-23T08:30:00+01:00`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"-(\d{1,9})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
ALLOWED = "-90m, -6h, -1d, -2w, 2026-11-23, 2026-11-23T08:30, 2026-11-23T08:30:00+01:00"


def parse(text: str, now: datetime) -> datetime:
    """Return the time; without a zone it is UTC. Raises ValueError, which names the value and what is allowed."""
    try:
        if (ago := _AGO.fullmatch(text)) is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time (allowed: {ALLOWED})") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
