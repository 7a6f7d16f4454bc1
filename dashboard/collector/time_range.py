"""The range of time of a chart: up to now, or between two times."""

from __future__ import annotations

import re
from dataclasses import dataclass

from broker_cy.client.errors import ClientError, Failure

RANGES = {"10m": 600_000, "1h": 3_600_000, "6h": 21_600_000, "1d": 86_400_000, "7d": 604_800_000}
LIVE = "10m"
# Points of one line: a chart has about this many pixels.
# The shortest range is shown with a point for each second, also where it begins and ends within one.
POINTS_MAX = 602
_FROM_TO = re.compile(r"([0-9]{10,14})-([0-9]{10,14})")
_LONGEST_MS = 400 * 86_400_000


@dataclass(frozen=True, slots=True)
class Range:
    """`length_ms` up to now, or from `from_ms` to `to_ms`."""

    length_ms: int
    from_ms: int | None = None
    to_ms: int | None = None

    def bounds(self, now: int) -> tuple[int, int]:
        if self.from_ms is not None and self.to_ms is not None:
            return self.from_ms, self.to_ms
        return now - self.length_ms, now


def parse_range(text: str) -> Range:
    """Parse `10m`, `1h`, `6h`, `1d`, `7d` or `FROM-TO` in ms since 1970; empty is LIVE. Raises ClientError."""
    if not text:
        return Range(RANGES[LIVE])
    if text in RANGES:
        return Range(RANGES[text])
    match = _FROM_TO.fullmatch(text)
    if match is None:
        raise ClientError(
            Failure.INVALID, f"range {text!r}: {', '.join(RANGES)} or FROM-TO in ms since 1970 is expected"
        )
    from_ms, to_ms = int(match[1]), int(match[2])
    if not 0 < to_ms - from_ms <= _LONGEST_MS:
        raise ClientError(Failure.INVALID, f"range {text!r}: the end must be after the beginning, by at most 400 days")
    return Range(to_ms - from_ms, from_ms, to_ms)
