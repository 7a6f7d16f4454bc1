"""Rules for types of operators: results of arithmetic, and what may be compared."""

from __future__ import annotations

from typing import Final

from broker_sql.expressions import casts
from broker_sql.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
)

_TIMES: Final = frozenset({DATE, TIME, TIMESTAMP})
_DIVISION_SCALE: Final = 6  # a quotient of decimals has at least as many digits after the point


def arithmetic(op: str, left: SqlType, right: SqlType) -> SqlType | None:
    """Return the type of `left op right`; None if there is none. Two texts have `+`."""
    if left == right == STRING:
        return STRING if op == "+" else None
    if not (casts.is_number(left) and casts.is_number(right)):
        return None
    if DOUBLE in (left, right) or not (isinstance(left, Decimal) or isinstance(right, Decimal)):
        return casts.wider(left, right)
    return _decimal(op, casts.as_decimal(left), casts.as_decimal(right))


def _decimal(op: str, left: Decimal, right: Decimal) -> Decimal:
    """The digits that every result has room in, as in SQL Server."""
    scale = max(left.scale, right.scale)
    before = (left.precision - left.scale, right.precision - right.scale)
    if op in "+-":
        return Decimal(max(before) + scale + 1, scale)
    if op == "*":
        return Decimal(left.precision + right.precision + 1, left.scale + right.scale)
    if op == "/":
        scale = max(_DIVISION_SCALE, left.scale + right.precision + 1)
        return Decimal(before[0] + right.scale + scale, scale)
    return Decimal(max(min(before) + scale, 1), scale)


def comparable(op: str, left: SqlType, right: SqlType) -> bool:
    """Whether `left op right` is allowed; `op` is one of == != < <= > >=."""
    equality = op in ("==", "!=")
    if casts.is_number(left) and casts.is_number(right):
        return True
    match left, right:
        case (Array(), Array()) | (Map(), Map()) | (Struct(), Struct()):
            return equality
    if left == right:
        return equality if left == BOOLEAN else left in (STRING, BYTES) or left in _TIMES
    if STRING in (left, right):
        return left in _TIMES or right in _TIMES
    return {left, right} == {DATE, TIMESTAMP}


def compared_as(left: SqlType, right: SqlType) -> tuple[SqlType, SqlType]:
    """Return the types that both sides of a comparison are cast to."""
    if DOUBLE in (left, right):
        return DOUBLE, DOUBLE
    if left == right or casts.is_number(left):
        return left, right
    if {left, right} == {DATE, TIMESTAMP}:
        return TIMESTAMP, TIMESTAMP
    if left == STRING and right in _TIMES:
        return right, right
    if right == STRING and left in _TIMES:
        return left, left
    return left, right
