"""Whether a value that was written equals the one that a case expects, as ksqlDB's harness compares them."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any, Final

_TOLERANCE: Final = 0.000_001


def matches(actual: Any, expected: Any) -> bool:
    """`expected` is JSON's, with Decimal for numbers with a point or an exponent."""
    if expected is None:
        return actual is None
    if isinstance(expected, bool):
        return actual is expected
    if isinstance(expected, dict):
        return _objects(actual, expected)
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(matches, actual, expected))
    if isinstance(expected, str):
        return _texts(actual, expected)
    return _numbers(actual, expected)


def _objects(actual: Any, expected: dict[str, Any]) -> bool:
    if not isinstance(actual, dict) or len(actual) != len(expected):
        return False
    for name, each in expected.items():
        found = actual.get(name)
        if not matches(actual.get(name.upper()) if found is None else found, each):
            return False
    return True


def _texts(actual: Any, expected: str) -> bool:
    if isinstance(actual, bytes):
        return base64.b64encode(actual).decode() == expected
    if isinstance(actual, Decimal):
        return Decimal(expected).as_tuple() == actual.as_tuple()
    return isinstance(actual, str) and actual == expected


def _numbers(actual: Any, expected: int | Decimal) -> bool:
    if isinstance(actual, bool):
        return False
    if isinstance(actual, int):
        return int(expected) == actual
    if isinstance(actual, float):
        return abs(float(expected) - actual) < _TOLERANCE
    if not isinstance(actual, Decimal):
        return False
    if isinstance(expected, int):
        exponent = actual.as_tuple().exponent
        return isinstance(exponent, int) and exponent >= 0 and actual == expected
    exponent = expected.as_tuple().exponent
    if isinstance(exponent, int) and exponent > 0:  # a large DOUBLE: Java 19 and later write fewer digits of the same
        return float(actual) == float(expected)
    # Digits and scale are those of the case: 1.0 is not 1.00.
    return (actual.as_tuple() if actual else abs(actual).as_tuple()) == expected.as_tuple()
