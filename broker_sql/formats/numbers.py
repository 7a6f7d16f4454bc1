"""Numbers and texts of fields, as ksqlDB's serdes read them. All raise ValueError, which names the value."""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal
from typing import Final

from broker_sql import types
from broker_sql.java_format import DAY_MS, EXACT, parse_bigint, parse_double, parse_integer

_NOT_FINITE: Final = {sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("NaN", "Infinity")}

parsed_int = parse_integer
parsed_long = parse_bigint


def parsed_double(text: str) -> float:
    """As `Double.parseDouble`: blanks around the number, NaN and Infinity are allowed."""
    found = _NOT_FINITE.get(text.strip())
    return parse_double(text) if found is None else found


def parsed_bytes(text: str) -> bytes:
    """Bytes of base64; blanks in the text are skipped."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{text[:40]!r} is no base64") from None


def parsed_time(text: str) -> int:
    return checked_time(parsed_long(text))


def checked_time(time_ms: int) -> int:
    """Return the milliseconds of a day."""
    if not 0 <= time_ms <= DAY_MS:
        raise ValueError(f"{time_ms} is no TIME: 0 to {DAY_MS} ms are expected")
    return time_ms


def fitted(value: Decimal, kind: types.Decimal) -> Decimal:
    """Return a decimal with the scale of its type. Digits behind the scale must be zeros (`DecimalUtil.ensureFit`)."""
    if not value:
        return Decimal((0, (0,), -kind.scale))
    # Before anything is computed: 1E999999999 has few digits here, and a billion with another scale.
    if not value.is_finite() or value.adjusted() >= kind.precision - kind.scale:
        raise ValueError(f"{value} does not fit in {kind}")
    found = EXACT.quantize(value, Decimal((0, (1,), -kind.scale)))
    if found != value:
        raise ValueError(f"{value} does not fit in {kind}: it has more than {kind.scale} digits after the point")
    return found
