"""Numbers in options as a normalized text has them: Java's NumberUtils reads them, and its DecimalFormat writes at most
three digits behind the point.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Final

_INTEGER: Final = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]+)|(?:(0[0-7]*)|([1-9][0-9]*))[lL]?)").fullmatch
_DECIMAL: Final = re.compile(r"(-?[0-9]*\.?[0-9]*(?:[eE]-?[0-9]+)?)([fFdD]?)").fullmatch
_IS_OCTAL: Final = re.compile(r"-?0[0-9]+[lL]?").fullmatch
"""Java rejects such texts with a digit 8 or 9."""
_THREE_DIGITS: Final = Decimal("0.001")
_DIGITS_MAX: Final = 400
"""The longest number that is read; others stay as they are. A double has at most 309 digits before its point."""
_EXACT: Final = Context(prec=2 * _DIGITS_MAX)


def formatted(text: str) -> str:
    """Return a number in its normalized form; another text, such as `-inf`, as it is."""
    if len(text) > _DIGITS_MAX:
        return text
    if match := _INTEGER(text):
        sign, hexadecimal, octal, decimal = match.groups()
        value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
        return f"{sign if value else ''}{value}"
    match = _DECIMAL(text)
    if not match or _IS_OCTAL(text) or not any(each.isdigit() for each in match[1].lower().partition("e")[0]):
        return text
    try:
        exact = _read(match[1], match[2])
        if exact is None:
            return text
        rounded = exact if _has_three_digits(exact) else exact.quantize(_THREE_DIGITS, ROUND_HALF_EVEN, _EXACT)
    except (InvalidOperation, OverflowError):
        return text
    plain = f"{rounded:f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _has_three_digits(value: Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -3


def _read(text: str, suffix: str) -> Decimal | None:
    """Return the value that Java's Float, Double or BigDecimal has: the first that keeps the number, or that of the
    suffix. None for one without bounds.
    """
    double = float(text)
    decimal = Decimal(text)
    if abs(decimal.adjusted()) > _DIGITS_MAX:
        return None
    single = _as_single(double)
    if single is not None and (suffix in ("f", "F") or (not suffix and _single_text(single) == repr(double))):
        return _of_double(single)
    if math.isinf(double) or (double == 0 and decimal != 0):
        return decimal
    if suffix or Decimal(repr(double)) == decimal:
        return _of_double(double)
    return decimal


def _of_double(value: float) -> Decimal:
    """Return the shortest digits of a double, or all of them if they are to be rounded."""
    shortest = Decimal(repr(value))
    return shortest if _has_three_digits(shortest) else Decimal(value)


def _as_single(value: float) -> float | None:
    """Return the nearest number of 32 bits, None if it would be 0 or without bounds."""
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return None
    return None if math.isinf(single) or (single == 0 and value != 0) else single


def _single_text(value: float) -> str:
    """Return the shortest text of a number of 32 bits."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _as_single(float(text)) == value:
            return repr(float(text))
    return repr(value)
