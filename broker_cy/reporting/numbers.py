"""Numbers, sizes, durations and times as people read them, in every program of this project.

unknown    "-"
counts     powers of 1,000: k, M, G
bytes      powers of 1,024: KiB, MiB, GiB; also bytes a second
shares     37% of a whole; three significant digits if the last ones matter

A figure whose unit is fixed, such as MB/s of a measurement, is shown by `fixed`; there MB is 10^6 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "-"

_UNITS = ("", "k", "M", "G", "T", "P", "E")
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(number: int | None) -> str:
    """12,345,678; exact at any size."""
    return UNKNOWN if number is None else f"{number:,}"


def fixed(number: float | None, digits: int = 0) -> str:
    """1,234.50, with these decimals."""
    return UNKNOWN if number is None else f"{number:,.{digits}f}"


def precise(number: float | None) -> str:
    """12.3, with three significant digits; without decimals from 1,000 on."""
    if number is None:
        return UNKNOWN
    return f"{number:,.{max(0, 2 - math.floor(math.log10(number)))}f}" if number > 0 else "0"


def short(number: float | None) -> str:
    """1.2k, 3.4M: for rates and axes, whose last digits do not matter."""
    if number is None:
        return UNKNOWN
    sign, value = ("-", -number) if number < 0 else ("", number)
    unit = 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    if unit == 0 and value == int(value):
        return f"{sign}{int(value)}"
    return f"{sign}{value:.0f}{_UNITS[unit]}" if value >= 99.5 else f"{sign}{value:.1f}{_UNITS[unit]}"


def size(number: float | None) -> str:
    """Bytes in powers of 1,024: 1.5 MiB."""
    if number is None:
        return UNKNOWN
    unit, length = unit_of_bytes(number)
    value = number / length
    return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 99.5 else f"{value:.1f} {unit}"


def size_rate(number: float | None) -> str:
    """Bytes a second: 1.5 MiB/s."""
    return UNKNOWN if number is None else f"{size(number)}/s"


def unit_of_bytes(most: float) -> tuple[str, int]:
    """Return the unit in which a number of bytes has at most four digits before the point, and its length."""
    at = 0
    while abs(most) / 1024**at >= 1023.5 and at < len(_BYTES) - 1:
        at += 1
    return _BYTES[at], 1024**at


def duration(ms: float | None) -> str:
    """Two units at most: 350 ms, 4.2 s, 3 m 12 s, 2 h 5 m, 3 d 4 h."""
    if ms is None:
        return UNKNOWN
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = int(ms / 1000)
    for size_s, unit, less_s, lesser in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= size_s:
            rest = seconds % size_s // less_s
            return f"{seconds // size_s} {unit} {rest} {lesser}" if rest else f"{seconds // size_s} {unit}"
    raise AssertionError(seconds)


def micros(us: float | None) -> str:
    """A latency: 850 µs, 1.25 ms, 2.10 s."""
    if us is None:
        return UNKNOWN
    if us < 1_000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.2f} ms" if us < 1_000_000 else f"{us / 1_000_000:.2f} s"


def age(seconds: float) -> str:
    """The age of something shown: now, 7 s, 3 m 5 s."""
    return "now" if seconds < 1 else duration(int(seconds) * 1000).replace(".0 s", " s")


def when(ms: int | None, *, utc: bool = False, date: bool = True) -> str:
    """A time in ms since 1970, to the millisecond; local, or with a Z in UTC.

    A time outside of datetime's range is shown as a number.
    """
    if ms is None or ms < 0:
        return UNKNOWN
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC) if utc else datetime.fromtimestamp(ms / 1000)
    except (OverflowError, OSError, ValueError):
        return str(ms)
    layout = "%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S"
    return f"{moment.strftime(layout)}.{ms % 1000:03d}{'Z' if utc else ''}"


def minute(ms: int) -> str:
    """A time in UTC, to the minute: 2026-01-31 12:00."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def share(part: float | None) -> str:
    """8.33%, of a part of 1; never 0% for one that is above 0."""
    if part is None:
        return UNKNOWN
    return f"{part * 100:.3g}%" if part >= 0.0001 else "below 0.01%" if part > 0 else "0%"


def percent(part: float, whole: float) -> str:
    """37%; unknown of nothing."""
    return UNKNOWN if whole <= 0 else f"{100 * part / whole:.0f}%"


def plural(number: int, one: str, many: str = "") -> str:
    """1 topic, 2 topics."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def offsets_text(ranges: Sequence[tuple[int, int]], most: int = 5) -> str:
    """offset 4; offsets 40 to 41, 44; the first `most` ranges."""
    shown = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges[:most])
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"offset{'' if is_one else 's'} {shown}{', ...' if len(ranges) > most else ''}"
