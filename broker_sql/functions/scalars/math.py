"""Functions of numbers.

DOUBLE follows Java's Math: no exception, but NaN and infinities. DECIMAL is exact. Integers wrap as Java's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_UP, Context
from decimal import Decimal as Number
from typing import Any, Final

from broker_sql.functions.calls import ArgumentType
from broker_sql.functions.definitions import Category, Function, Resolved, same_type
from broker_sql.types import MAX_PRECISION, Decimal, SqlType

MATH = Category("MATHEMATICAL")
_NAN, _INF = math.nan, math.inf
# Exact for all values of DECIMAL columns.
EXACT: Final = Context(prec=2 * MAX_PRECISION)
_INT_MAX, _LONG_MAX, _LONG_MIN = (1 << 31) - 1, (1 << 63) - 1, -(1 << 63)


def to_long(value: float) -> int:
    """Return Java's (long) of a double: towards 0, within the range, 0 for NaN."""
    if value != value:
        return 0
    return _LONG_MAX if value >= _LONG_MAX else _LONG_MIN if value <= _LONG_MIN else int(value)


def _doubles(name: str, description: str, function: Callable[[float], float], **arguments: str) -> None:
    """Define a function from a number to a DOUBLE."""

    def call(value: float | None) -> float | None:
        return None if value is None else function(value)

    found = MATH.scalar(name, description, **(arguments or {"value": "the number"}))
    found("(value INT) DOUBLE", "(value BIGINT) DOUBLE", "(value DOUBLE) DOUBLE")(call)


def _guarded(function: Callable[[float], float]) -> Callable[[float], float]:
    """Return NaN for arguments outside of the domain of the function, and Infinity for results that are too great."""

    def guarded(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            return _NAN
        except OverflowError:
            return _INF

    return guarded


def _log(value: float) -> float:
    if value > 0:
        return math.log(value)
    return -_INF if value == 0 else _NAN


def _cot(value: float) -> float:
    tangent = math.tan(value) if math.isfinite(value) else _NAN
    return math.copysign(_INF, tangent) if tangent == 0 else 1 / tangent


def _cbrt(value: float) -> float:
    """Return the cube root: one step of Newton's method corrects the last bit of the C library's."""
    root = math.cbrt(value)
    return root - (root * root * root - value) / (3 * root * root) if root and abs(root) < 1e100 else root


def _sinh(value: float) -> float:
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(_INF, value)


_ANGLE = {"value": "the angle in radians"}
_doubles("acos", "The arc cosine, in radians; NaN outside of -1 to 1.", _guarded(math.acos))
_doubles("asin", "The arc sine, in radians; NaN outside of -1 to 1.", _guarded(math.asin))
_doubles("atan", "The arc tangent, in radians.", math.atan)
_doubles("cbrt", "The cube root.", _cbrt)
_doubles("cos", "The cosine.", _guarded(math.cos), **_ANGLE)
_doubles("cosh", "The hyperbolic cosine.", _guarded(math.cosh), **_ANGLE)
_doubles("cot", "The cotangent; an infinity at 0.", _cot, **_ANGLE)
_doubles("degrees", "The angle in degrees.", math.degrees, **_ANGLE)
_doubles("exp", "The power of e.", _guarded(math.exp), value="the exponent")
_doubles("ln", "The natural logarithm; -Infinity for 0, NaN below it.", _log)
_doubles("radians", "The angle in radians.", math.radians, value="the angle in degrees")
_doubles("sin", "The sine.", _guarded(math.sin), **_ANGLE)
_doubles("sinh", "The hyperbolic sine.", _sinh, **_ANGLE)
_doubles("sqrt", "The square root; NaN for a number below 0.", _guarded(math.sqrt))
_doubles("tan", "The tangent.", _guarded(math.tan), **_ANGLE)
_doubles("tanh", "The hyperbolic tangent.", math.tanh, **_ANGLE)

_atan2 = MATH.scalar("atan2", "The angle of the point (x, y), in radians.", y="the ordinate", x="the abscissa")
_log_of = MATH.scalar(
    "log",
    "The natural logarithm, or the logarithm to a base; -Infinity for 0; NaN for a number below 0, a base of 1 and a "
    "base that is not above 0.",
    base="the base",
    value="the number",
)
_power = MATH.scalar(
    "power", "The power; Infinity if it is too great for DOUBLE.", base="the base", exponent="the exponent"
)
_pi = MATH.scalar("pi", "The number pi.")
_random = MATH.scalar("random", "A random number, at least 0 and less than 1.")
_abs = MATH.scalar("abs", "The absolute value.", value="the number")
_ceil = MATH.scalar("ceil", "The least whole number that is not less.", value="the number")
_floor = MATH.scalar("floor", "The greatest whole number that is not greater.", value="the number")
_sign = MATH.scalar("sign", "-1 for a number below 0, 0 for 0, and 1 above it.", value="the number")
_round = MATH.scalar(
    "round",
    "The nearest number with so many digits after the point; of two, the greater one. Without digits, a whole number.",
    value="the number",
    digits="the digits after the point; below 0, digits before it",
)
_trunc = MATH.scalar(
    "trunc",
    "The number without further digits. Without digits, a whole number.",
    value="the number",
    digits="the digits after the point; below 0, digits before it",
)


@_atan2("(y INT, x INT) DOUBLE", "(y BIGINT, x BIGINT) DOUBLE", "(y DOUBLE, x DOUBLE) DOUBLE", strict=True)
def _(y: float, x: float) -> float:
    return math.atan2(y, x)


@_log_of("(value INT) DOUBLE", "(value BIGINT) DOUBLE", "(value DOUBLE) DOUBLE", strict=True)
def _(value: float) -> float:
    return _log(value)


@_log_of(
    "(base INT, value INT) DOUBLE",
    "(base BIGINT, value BIGINT) DOUBLE",
    "(base DOUBLE, value DOUBLE) DOUBLE",
    strict=True,
)
def _(base: float, value: float) -> float:
    if base <= 0 or base == 1 or base != base:
        return _NAN
    return -_INF if value == 0 else _log(value) / math.log(base)


@_power(
    "(base INT, exponent INT) DOUBLE",
    "(base BIGINT, exponent BIGINT) DOUBLE",
    "(base DOUBLE, exponent DOUBLE) DOUBLE",
    strict=True,
)
def _(base: float, exponent: float) -> float:
    one, other = float(base), float(exponent)
    if other != other or (abs(one) == 1 and math.isinf(other)):
        return _NAN
    if one != one:
        return 1.0 if other == 0 else _NAN
    negative = one < 0 or (one == 0 and math.copysign(1, one) < 0)
    odd = negative and other.is_integer() and abs(other) < 1 << 53 and other % 2 == 1
    try:
        return math.pow(one, other)
    except OverflowError:
        return -_INF if odd else _INF
    except ValueError:  # 0 to a power below 0, and a root of a number below 0
        return _NAN if one != 0 else -_INF if odd else _INF


@_pi("() DOUBLE")
def _() -> float:
    return math.pi


@_random("() DOUBLE", build=True)
def _(resolved: Resolved) -> Callable[[], float]:
    return resolved.environment.random.random


def _wrapped(bits: int) -> Callable[[int | None], int | None]:
    """Return the absolute value, where that of the least number is the least number."""
    least = -(1 << (bits - 1))
    return lambda value: None if value is None else value if value >= 0 or value == least else -value


_abs("(value INT) INT")(_wrapped(32))
_abs("(value BIGINT) BIGINT")(_wrapped(64))
_abs("(value DOUBLE) DOUBLE", strict=True)(math.fabs)


@_abs("(value DECIMAL)", returns=same_type)
def _(value: Number | None) -> Number | None:
    return None if value is None else value.copy_abs()


for _whole in (_ceil, _floor):

    @_whole("(value INT) INT", "(value BIGINT) BIGINT")
    def _(value: int | None) -> int | None:
        return value


def _whole_double(function: Callable[[float], int]) -> Callable[[float | None], float | None]:
    def call(value: float | None) -> float | None:
        if value is None or not math.isfinite(value):
            return value
        return math.copysign(float(function(value)), value) if -1 < value < 1 else float(function(value))

    return call


_ceil("(value DOUBLE) DOUBLE")(_whole_double(math.ceil))
_floor("(value DOUBLE) DOUBLE")(_whole_double(math.floor))


def _whole_decimal(rounding: str) -> Callable[[Resolved], Callable[[Any], Any]]:
    def build(resolved: Resolved) -> Callable[[Any], Any]:
        context = Context(prec=EXACT.prec, rounding=rounding)
        unit = _unit(_scale(resolved.types[0]))
        one = Number(1)

        def call(value: Number | None) -> Number | None:
            if value is None:
                return None
            return value.quantize(one, context=context).quantize(unit, context=context)

        return call

    return build


def _scale(kind: ArgumentType) -> int:
    return kind.scale if isinstance(kind, Decimal) else 0


def _unit(scale: int) -> Number:
    return Number((0, (1,), -scale))


_ceil("(value DECIMAL)", returns=same_type, build=True)(_whole_decimal("ROUND_CEILING"))
_floor("(value DECIMAL)", returns=same_type, build=True)(_whole_decimal("ROUND_FLOOR"))


@_sign("(value INT) INT", "(value BIGINT) INT", "(value DOUBLE) INT")
def _(value: float | None) -> int | None:
    return None if value is None else (value > 0) - (value < 0)


def _to_digits(value: Number, digits: int, up: bool) -> Number:
    """Round: half goes to the greater number; or truncate."""
    rounding = (ROUND_HALF_UP if value >= 0 else ROUND_HALF_DOWN) if up else ROUND_DOWN
    return value.quantize(_unit(digits), rounding=rounding, context=EXACT)


def _no_digits(types: tuple[ArgumentType, ...]) -> SqlType:
    """Return the type of whole numbers: the digits before the point stay."""
    kind = types[0]
    return Decimal(max(kind.precision - kind.scale, 1), 0) if isinstance(kind, Decimal) else Decimal(1, 0)


def _define_rounding(function: Function, up: bool) -> None:
    @function("(value INT) INT", "(value BIGINT) BIGINT")
    def _(value: int | None) -> int | None:
        return value

    @function("(value DOUBLE) BIGINT")
    def _(value: float | None) -> int | None:
        if value is None:
            return None
        if not up or not abs(value) < 1 << 52:
            return to_long(value)
        return math.floor(value) + (value - math.floor(value) >= 0.5)

    @function("(value DECIMAL)", returns=_no_digits)
    def _(value: Number | None) -> Number | None:
        return None if value is None else _to_digits(value, 0, up)

    @function("(value DOUBLE, digits INT) DOUBLE", strict=True)
    def _(value: float, digits: int) -> float:
        if not math.isfinite(value):
            return value
        number = Number(repr(value))
        exponent = number.as_tuple().exponent
        if isinstance(exponent, int) and -exponent <= digits:
            return value
        return float(_to_digits(number, digits, up))

    @function("(value DECIMAL, digits INT)", returns=lambda types: types[0] or Decimal(1, 0), build=True)
    def _(resolved: Resolved) -> Callable[[Any, Any], Any]:
        scale = _scale(resolved.types[0])
        unit = _unit(scale)

        def call(value: Number | None, digits: int | None) -> Number | None:
            if value is None or digits is None:
                return None
            if digits >= scale:
                return value
            return _to_digits(value, digits, up).quantize(unit, context=EXACT)

        return call


_define_rounding(_round, up=True)
_define_rounding(_trunc, up=False)

_EARTH_RADIUS = {"KM": 6371.0, "MI": 3959.0}
_UNITS = {
    "KM": "KM",
    "KILOMETER": "KM",
    "KILOMETERS": "KM",
    "KILOMETRE": "KM",
    "KILOMETRES": "KM",
    "MI": "MI",
    "MILE": "MI",
    "MILES": "MI",
}
GEO = Category("GEO")
_geo_distance = GEO.scalar(
    "geo_distance",
    "The length of the great circle between two points of the earth, as of a sphere.",
    lat1="the latitude of the first point, in degrees",
    lon1="the longitude of the first point, in degrees",
    lat2="the latitude of the second point, in degrees",
    lon2="the longitude of the second point, in degrees",
    unit="KM or MILES; KM without it",
)


def _radians(degrees: float) -> float:
    return degrees / 180 * math.pi  # in this order ksqlDB's query tests have the last digits


@_geo_distance("(lat1 DOUBLE, lon1 DOUBLE, lat2 DOUBLE, lon2 DOUBLE, [unit STRING]) DOUBLE")
def _(
    lat1: float | None, lon1: float | None, lat2: float | None, lon2: float | None, unit: str | None = "KM"
) -> float | None:
    if lat1 is None or lon1 is None or lat2 is None or lon2 is None:
        return None
    for latitude in (lat1, lat2):
        if not -90 <= latitude <= 90:
            raise ValueError(f"GEO_DISTANCE: latitude {latitude}: -90 to 90 is expected")
    for longitude in (lon1, lon2):
        if not -180 <= longitude <= 180:
            raise ValueError(f"GEO_DISTANCE: longitude {longitude}: -180 to 180 is expected")
    if unit is not None and unit.upper() not in _UNITS:
        raise ValueError(f"GEO_DISTANCE: unit {unit!r}: KM or MILES is expected")
    radius = _EARTH_RADIUS[_UNITS[(unit or "KM").upper()]]
    north, east = _radians(lat2 - lat1), _radians(lon2 - lon1)
    chord = math.sin(north / 2) ** 2 + math.sin(east / 2) ** 2 * math.cos(_radians(lat1)) * math.cos(_radians(lat2))
    return 2 * math.asin(math.sqrt(chord)) * radius
