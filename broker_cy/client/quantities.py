"""Durations, sizes and times as users type them: one rule for the options, forms and files of all programs.

    duration   500ms, 30s, 5m or 5min, 2h, 1d, 1w; parts may follow each other: 1h30m
    size       500000 (bytes), 50MB = 50,000,000, 50MiB = 52,428,800; 50M is short for 50MiB, as in GNU's tools
    time       2026-01-31, 2026-01-31T12:00[:00.123][Z|+02:00], -15m (ago), now, or ms since 1970

A number may have a fraction and underscores between its digits, and a blank may precede its unit. Upper and lower case
differ. A time without a zone is local: in the zone of the machine on which the program runs (TZ), or in the zone that a
page of the dashboard shows, whose browser adds it (dashboard/assets/zone.js). docs/cli.md has the rule for users.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Final

BYTES: Final = {
    "B": 1,
    "KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "K": 1 << 10, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
}  # fmt: skip
_SECONDS: Final = {
    "us": Fraction(1, 10**6), "ms": Fraction(1, 10**3), "s": Fraction(1), "m": Fraction(60), "min": Fraction(60),
    "h": Fraction(3_600), "d": Fraction(86_400), "w": Fraction(604_800),
}  # fmt: skip

BYTES_HELP: Final = "such as 500000, 50MB (10^6), 50MiB or 50M (2^20)"
DURATION_HELP: Final = "such as 500ms, 30s, 15m or 15min, 2h, 1d or 1w"
TIME_HELP: Final = "2026-01-31, 2026-01-31T12:00[:00.123][Z|+02:00], -15m (ago), now, or ms since 1970"

# Longer texts are no quantities: this bounds the work and the size of the numbers.
_TEXT_MAX: Final = 100
NUMBER: Final = r"[0-9](?:_?[0-9])*(?:\.[0-9]+)?"
_PART: Final = re.compile(rf"({NUMBER})[ ]?(us|ms|min|m|s|h|d|w)\s*")
_UNIT: Final = re.compile(rf"({NUMBER})[ ]?([A-Za-z]*)")
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(?P<zone>Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_INT64_MAX: Final = (1 << 63) - 1


def number(text: str) -> Fraction:
    """Return the value of a text that matches NUMBER, exactly."""
    return Fraction(text.replace("_", ""))


def parse_seconds(text: str) -> Fraction:
    """Parse a duration such as `250us`, `2h` or `1h30m` to seconds, exactly. Raises ValueError."""
    stripped = text.strip()
    found = Fraction(0)
    at = 0
    while len(stripped) <= _TEXT_MAX and (part := _PART.match(stripped, at)) is not None:
        found += number(part[1]) * _SECONDS[part[2]]
        at = part.end()
    if not stripped or at != len(stripped):
        raise ValueError(_refusal(text, "a duration", DURATION_HELP, _SECONDS))
    return found


def _refusal(text: str, what: str, example: str, units: Mapping[str, object]) -> str:
    """Return why a text is no quantity: its unit, if it is a number with an unknown one."""
    known = f"(allowed: {', '.join(units)})"
    single = _UNIT.fullmatch(text.strip()) if len(text) <= _TEXT_MAX else None
    if single is not None and single[2] and single[2] not in units:
        return f"{text!r} has the unit {single[2]!r} {known}; {what} is expected, {example}"
    return f"{text[:_TEXT_MAX]!r} is not {what}, {example} {known}"


def parse_duration(text: str) -> int:
    """Parse a duration to whole milliseconds. Raises ValueError."""
    ms = parse_seconds(text) * 1000
    if ms.denominator != 1 or ms > _INT64_MAX:
        raise ValueError(f"{text!r} is not a whole number of milliseconds up to 2^63 - 1")
    return int(ms)


def parse_size(text: str) -> int:
    """Parse a size to bytes, rounded down. Raises ValueError."""
    match = _UNIT.fullmatch(text.strip()) if len(text) <= _TEXT_MAX else None
    factor = None if match is None else BYTES.get(match[2] or "B")
    if match is None or factor is None or (found := int(number(match[1]) * factor)) > _INT64_MAX:
        raise ValueError(_refusal(text, "a size", BYTES_HELP, BYTES))
    return found


def is_zoneless(text: str) -> bool:
    """Return whether a text is a time whose meaning depends on the user's time zone."""
    match = _TIME.fullmatch(text)
    return match is not None and match["zone"] is None


def parse_time(text: str, now_ms: Callable[[], int]) -> int:
    """Parse a time to milliseconds since 1970; `now_ms` returns the current one. Raises ValueError."""
    if text == "now":
        return now_ms()
    if text.startswith("-"):
        return max(0, now_ms() - parse_duration(text[1:]))
    if re.fullmatch(r"[0-9]{1,19}", text) and int(text) <= _INT64_MAX:
        # Not a date: Kafka's tools read digits as ms since 1970.
        return int(text)
    try:
        if _TIME.fullmatch(text) is None:
            raise ValueError
        found = (datetime.fromisoformat(text).astimezone() - _EPOCH) // _MS
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text[:_TEXT_MAX]!r} is not a time: {TIME_HELP}") from None
    if found < 0:
        # Kafka has other meanings for negative timestamps.
        raise ValueError(f"{text!r} is before 1970, where no record can be")
    return found
