"""CAST, implicit casts and coercion of values, as ksqlDB has them.

    caster(source, target)      a function of a value that is not NULL; None if the value stays as it is
    implicit(source, target)    whether a value may become the other type without CAST
    coerce(value, source, target)   the value of an INSERT or of a JSON row as a column's type

A cast that fails raises ValueError or ArithmeticError with a text that names the value and what is allowed.
"""

from __future__ import annotations

import base64
import binascii
import decimal
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from broker_cy.core.java_numbers import double_text
from broker_sql import java_format, types
from broker_sql.errors import AnalysisError
from broker_sql.java_format import DAY_MS
from broker_sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
)

Cast = Callable[[Any], Any]

# The digits of an integer type as a DECIMAL.
INTEGER_AS_DECIMAL: Final = Decimal(10, 0)
BIGINT_AS_DECIMAL: Final = Decimal(19, 0)

_WIDTHS: Final[dict[SqlType, int]] = {INTEGER: 0, BIGINT: 1, DOUBLE: 3}  # of numbers; DECIMAL is 2


def is_number(kind: SqlType | None) -> bool:
    return kind in _WIDTHS or isinstance(kind, Decimal)


def as_decimal(kind: SqlType) -> Decimal:
    """Return the DECIMAL that holds every value of INTEGER, BIGINT or a DECIMAL."""
    if isinstance(kind, Decimal):
        return kind
    return INTEGER_AS_DECIMAL if kind == INTEGER else BIGINT_AS_DECIMAL


def wider(one: SqlType, other: SqlType) -> SqlType:
    """Return the number type that holds the values of both."""
    if one == other:
        return one
    if DOUBLE in (one, other):
        return DOUBLE
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        left, right = as_decimal(one), as_decimal(other)
        scale = max(left.scale, right.scale)
        return Decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    return BIGINT


def implicit(source: SqlType, target: SqlType) -> bool:
    """Whether a value of `source` becomes `target` without CAST: numbers to wider ones, also in collections."""
    if source == target:
        return True
    match source, target:
        case Decimal(), Decimal():
            return wider(source, target) == target
        case Array(element), Array(other):
            return implicit(element, other)
        case Map(key, value), Map(other_key, other_value):
            return implicit(key, other_key) and implicit(value, other_value)
        case Struct(), Struct():
            return all(
                implicit(kind, found) for name, kind in source.fields if (found := target.field(name)) is not None
            )
    if is_number(source) and is_number(target):
        return _WIDTHS.get(source, 2) < _WIDTHS.get(target, 2)
    return False


def cast(value: Any, source: SqlType, target: SqlType) -> Any:
    """Return a value as another type.

    Raises AnalysisError for types that have no cast, and ValueError or ArithmeticError for the value."""
    if value is None:
        return None
    function = caster(source, target)
    return value if function is None else function(value)


@lru_cache(maxsize=4096)
def caster(source: SqlType, target: SqlType) -> Cast | None:
    """Return the function that casts a value which is not NULL; None if it stays the same. Raises AnalysisError."""
    if source == target:
        return None
    match source, target:
        case _, Decimal(precision, scale) if source in _TO_DECIMAL or isinstance(source, Decimal):
            return _decimal_caster(source, precision, scale)
        case Decimal(), types.Primitive() if target in _FROM_DECIMAL:
            return _FROM_DECIMAL[target]
        case Array(element), Array(other):
            return _array_caster(element, other)
        case Map(key, value), Map(other_key, other_value):
            return _map_caster((key, other_key), (value, other_value))
        case Struct(), Struct():
            return _struct_caster(source, target)
        case ((Array() | Map() | Struct()), types.STRING):
            return lambda value: java_format.value_text(value, source)
    found = _PRIMITIVE.get((source, target))
    if found is None:
        raise AnalysisError(f"Cast of {source} to {target} is not supported{_allowed(source)}")
    return found


def castable(source: SqlType, target: SqlType) -> bool:
    try:
        caster(source, target)
    except AnalysisError:
        return False
    return True


def _allowed(source: SqlType) -> str:
    """Return the types that a type can be cast to, for an error."""
    if is_number(source):
        return "; allowed: INTEGER, BIGINT, DOUBLE, DECIMAL, STRING"
    names = [str(target) for each, target in _PRIMITIVE if each == source]
    if source == STRING:
        names.append("DECIMAL")
    if isinstance(source, Array | Map | Struct):
        names = [type(source).__name__.upper(), "STRING"]
    return f"; allowed: {', '.join(names)}" if names else ""


def quantized(value: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal:
    """Return a decimal with `scale` digits after the point, rounded half up.

    Raises ArithmeticError if it is too large."""
    rounded = value.quantize(decimal.Decimal((0, (1,), -scale)), decimal.ROUND_HALF_UP, java_format.EXACT)
    if not rounded:
        return rounded.copy_abs()
    if rounded.adjusted() >= precision - scale:
        raise ArithmeticError(
            f"{java_format.decimal_text(value)} does not fit DECIMAL({precision}, {scale}), which is below "
            f"10^{precision - scale}"
        )
    return rounded


def _decimal_caster(source: SqlType, precision: int, scale: int) -> Cast:
    parse: Cast = _TO_DECIMAL.get(source, _same)
    if parse is _same:
        return lambda value: quantized(value, precision, scale)
    return lambda value: quantized(parse(value), precision, scale)


def _same(value: Any) -> Any:
    return value


def _from_double(value: float) -> decimal.Decimal:
    """Return the decimal of a double's text (`BigDecimal.valueOf`)."""
    if value != value or value in (float("inf"), float("-inf")):
        raise ArithmeticError(f"{double_text(value)} is no DECIMAL: only finite numbers are allowed")
    return decimal.Decimal(repr(value))


def _integer_of_decimal(value: decimal.Decimal) -> int:
    return java_format.wrap_integer(int(value))


def _bigint_of_decimal(value: decimal.Decimal) -> int:
    return java_format.wrap_bigint(int(value))


def parse_bytes(text: str) -> bytes:
    """Parse Base64, the text of BYTES in literals."""
    try:
        padded = text + "=" * (-len(text) % 4)
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{text!r} is no BYTES: Base64 is allowed") from None


def timestamp_to_date(value: int) -> int:
    return value // DAY_MS


def timestamp_to_time(value: int) -> int:
    return value % DAY_MS


def date_to_timestamp(value: int) -> int:
    return value * DAY_MS


_TO_DECIMAL: Final[dict[SqlType, Cast]] = {
    INTEGER: decimal.Decimal,
    BIGINT: decimal.Decimal,
    DOUBLE: _from_double,
    STRING: java_format.parse_decimal,
}
_FROM_DECIMAL: Final[dict[SqlType, Cast]] = {
    INTEGER: _integer_of_decimal,
    BIGINT: _bigint_of_decimal,
    DOUBLE: float,
    STRING: java_format.decimal_text,
}
_PRIMITIVE: Final[dict[tuple[SqlType, SqlType], Cast | None]] = {
    (BOOLEAN, STRING): java_format.boolean_text,
    (INTEGER, BIGINT): int,
    (INTEGER, DOUBLE): float,
    (INTEGER, STRING): str,
    (BIGINT, INTEGER): java_format.wrap_integer,
    (BIGINT, DOUBLE): float,
    (BIGINT, STRING): str,
    (DOUBLE, INTEGER): java_format.double_to_integer,
    (DOUBLE, BIGINT): java_format.double_to_bigint,
    (DOUBLE, STRING): double_text,
    (STRING, BOOLEAN): java_format.parse_boolean,
    (STRING, INTEGER): java_format.parse_integer,
    (STRING, BIGINT): java_format.parse_bigint,
    (STRING, DOUBLE): java_format.parse_double,
    (STRING, TIME): java_format.parse_time,
    (STRING, DATE): java_format.parse_date,
    (STRING, TIMESTAMP): java_format.parse_timestamp,
    (STRING, BYTES): parse_bytes,
    (TIME, STRING): java_format.time_text,
    (DATE, STRING): java_format.date_text,
    (DATE, TIMESTAMP): date_to_timestamp,
    (TIMESTAMP, STRING): java_format.timestamp_text,
    (TIMESTAMP, DATE): timestamp_to_date,
    (TIMESTAMP, TIME): timestamp_to_time,
}


def _nullable(function: Cast | None) -> Cast:
    if function is None:
        return _same
    return lambda value: None if value is None else function(value)


def _array_caster(element: SqlType, other: SqlType) -> Cast | None:
    inner = caster(element, other)
    if inner is None:
        return None
    return lambda value: [None if each is None else inner(each) for each in value]


def _map_caster(keys: tuple[SqlType, SqlType], values: tuple[SqlType, SqlType]) -> Cast | None:
    key, value = caster(*keys), caster(*values)
    if key is None and value is None:
        return None
    of_key, of_value = _nullable(key), _nullable(value)
    return lambda entries: {of_key(k): of_value(v) for k, v in entries.items()}


def _struct_caster(source: Struct, target: Struct) -> Cast:
    """Copy the fields that both have; a field that only the target has is NULL."""
    fields = [
        (name, None if (found := source.field(name)) is None else _nullable(caster(found, kind)))
        for name, kind in target.fields
    ]
    return lambda value: {name: None if of is None else of(value.get(name)) for name, of in fields}


def coerce(value: Any, source: SqlType | None, target: SqlType) -> Any:
    """Return a literal value as a column's type: implicit casts without loss, texts of times, and Base64.

    `source` is None for NULL. Raises AnalysisError."""
    if value is None or source is None or source == target:
        return value
    expected = f"Expected type {target}, got {source} ({java_format.value_text(value, source)})"
    match source, target:
        case types.STRING, (types.TIME | types.DATE | types.TIMESTAMP | types.BYTES):
            try:
                return cast(value, source, target)
            except ValueError as error:
                raise AnalysisError(f"{expected}: {error}") from None
        case Array(element), Array(other):
            return [coerce(each, element, other) for each in value]
        case Map(key, inner), Map(other_key, other_inner):
            return {coerce(k, key, other_key): coerce(v, inner, other_inner) for k, v in value.items()}
        case Struct(), Struct():
            return {name: coerce(value.get(name), source.field(name), kind) for name, kind in target.fields}
    if not (is_number(source) and is_number(target) and _WIDTHS.get(source, 2) <= _WIDTHS.get(target, 2)):
        raise AnalysisError(expected)
    try:
        result = cast(value, source, target)
    except ArithmeticError as error:
        raise AnalysisError(f"{expected}: {error}") from None
    if isinstance(target, Decimal) and result != value:
        raise AnalysisError(f"{expected}: {target.scale} digits after the point are allowed")
    return result
