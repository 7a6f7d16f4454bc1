"""Numbers as Java prints them.

`Double.toString` since Java 19 has the shortest digits that read back as the same number, as Python's repr.
"""

from __future__ import annotations

import math
from typing import Final

# Without an exponent between these, as `Double.toString` documents.
_PLAIN_MIN: Final = 1e-3
_PLAIN_MAX: Final = 1e7


def double_text(value: float) -> str:
    """Return the text of a double: `1.0`, `1.0E10`, `NaN`, `-Infinity`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    shortest = repr(value)
    # Java takes the nearest number of two digits, also where one digit would be enough: 4.9E-324.
    nearest = f"{value:.1e}"
    if len(shortest.lstrip("-").partition("e")[0]) == 1 and float(nearest) == value:
        shortest = nearest
    mantissa, _, exponent = f"{shortest}e".partition("e")
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = digits.partition(".")
    power = int(exponent.removesuffix("e") or 0) + len(whole) - 1
    digits = whole + fraction
    stripped = digits.lstrip("0")
    power -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0") or "0"
    if _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{stripped}"
        whole = stripped[: power + 1].ljust(power + 1, "0")
        return f"{sign}{whole}.{stripped[power + 1 :] or '0'}"
    return f"{sign}{stripped[0]}.{stripped[1:] or '0'}E{power}"
