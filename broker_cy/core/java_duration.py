"""Durations in settings, as java.time.Duration reads them: PnDTnHnMn.nS (ISO 8601), such as P1D or PT1H30M."""

from __future__ import annotations

import re
from typing import Final

_FORM: Final = re.compile(
    r"([-+]?)P(?=.)(?:([-+]?\d+)D)?"
    r"(?:T(?=.)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?)(\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
# Java counts the seconds in 64 bits. Longer texts have more than that.
_SECONDS_MAX: Final = (1 << 63) - 1
_TEXT_MAX: Final = 200
_NANOS: Final = 10**9


def duration_ms(text: str) -> int:
    """Return the whole milliseconds of a duration that is not negative. Raises ValueError for any other text."""
    match = _FORM.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if match is not None:
        days, hours, minutes = (int(part or 0) for part in match.group(2, 3, 4))
        seconds, nanos = int(match[6] or 0), int((match[7] or "").ljust(9, "0"))
        part = (-1 if match[5] == "-" else 1) * (seconds * _NANOS + nanos)
        total = (-1 if match[1] == "-" else 1) * ((days * 86_400 + hours * 3_600 + minutes * 60) * _NANOS + part)
        if 0 <= total // _NANOS <= _SECONDS_MAX:
            return total // 1_000_000
    raise ValueError(f"invalid duration {text[:_TEXT_MAX]!r}; expected PnDTnHnMn.nS")
