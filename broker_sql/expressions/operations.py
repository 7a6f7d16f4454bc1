"""Operations of generated code that need more than an operator of Python. Operands are not NULL, if not said."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

_SIGN_FLIP: Final = bytes(each ^ 0x80 for each in range(256))


def no_operand() -> None:
    """Raise ArithmeticError: in a lambda, ksqlDB's operators fail on NULL."""
    raise ArithmeticError("an operator in a lambda got NULL; COALESCE gives another value")


def divide_doubles(left: float, right: float) -> float:
    """Divide by zero as Java does: an infinity, or NaN."""
    if right:
        return left / right
    if left != left or not left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def remainder_of_doubles(left: float, right: float) -> float:
    """Return what is left, with the sign of `left`; NaN after division by zero or of an infinity."""
    if not right or right != right or math.isinf(left) or left != left:
        return math.nan
    return math.fmod(left, right)


def multiply_decimals(left: decimal.Decimal, right: decimal.Decimal, context: decimal.Context) -> decimal.Decimal:
    result = context.multiply(left, right)
    return result if result else result.copy_abs()  # Java's BigDecimal has no negative zero


def divide_decimals(
    left: decimal.Decimal, right: decimal.Decimal, unit: decimal.Decimal, context: decimal.Context
) -> decimal.Decimal:
    """Divide and round half up to the digits of `unit`. Raises ArithmeticError."""
    if not right:
        raise ArithmeticError("/ by zero")
    result = context.divide(left, right).quantize(unit, decimal.ROUND_HALF_UP, context)
    return result if result else result.copy_abs()


def remainder_of_decimals(
    left: decimal.Decimal, right: decimal.Decimal, unit: decimal.Decimal, context: decimal.Context
) -> decimal.Decimal:
    """Return what is left, with the sign of `left`. Raises ArithmeticError."""
    if not right:
        raise ArithmeticError("/ by zero")
    result = context.remainder(left, right).quantize(unit, decimal.ROUND_HALF_UP, context)
    return result if result else result.copy_abs()


def negate_decimal(value: decimal.Decimal) -> decimal.Decimal:
    return value.copy_negate() if value else value


def text_key(value: str) -> bytes:
    """Return a key with the order of Java's strings: that of UTF-16, where supplementary characters come earlier."""
    return value.encode("utf-16-be", "surrogatepass")


def bytes_key(value: bytes) -> bytes:
    """Return a key with the order of Java's ByteBuffer, whose bytes have a sign."""
    return value.translate(_SIGN_FLIP)


def item(array: Sequence[Any], index: int) -> Any:
    """Return the element at an index from 1, or from -1 at the end; None if there is none."""
    size = len(array)
    if 0 < index <= size:
        return array[index - 1]
    return array[index] if -size <= index < 0 else None


def like(value: str, pattern: str, escape: str | None) -> bool:
    return like_pattern(pattern, escape).fullmatch(value) is not None


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Return the regular expression of a pattern of LIKE: `%` any text, `_` one character."""
    parts: list[str] = []
    characters = iter(pattern)
    for each in characters:
        if each == escape:
            parts.append(re.escape(next(characters, each)))
        else:
            parts.append(".*" if each == "%" else "." if each == "_" else re.escape(each))
    return re.compile("".join(parts), re.DOTALL)
