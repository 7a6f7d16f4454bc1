"""Logical types: a value or its text to the value of the type below. Invalid ones are ignored, as Avro says."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from broker_registry.schema_types.avro.model import Fixed, Schema

DIGITS_MAX: Final = 2_000
"""Digits of a decimal on each side of the point; more are refused before they take memory."""
_UUID_BYTES: Final = 16
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_MICROSECONDS: Final = {"millis": 1_000, "micros": 1}
# Python reads finer fractions of a second, and cuts them.
_TOO_FINE: Final = re.compile(r"[.,]\d{7}")

Convert = Callable[[Any], Any]


def kind_of(schema: Schema) -> Convert | None:
    """Return the conversion of a logical type; None without one. Conversions raise ValueError."""
    name = schema.props.get("logicalType")
    if not isinstance(name, str):
        return None
    if name == "decimal" and schema.type in ("bytes", "fixed"):
        return _decimal_of(schema)
    if name == "uuid" and schema.type == "string":
        return _uuid_text
    if name == "uuid" and isinstance(schema, Fixed) and schema.size == _UUID_BYTES:
        return _uuid_bytes
    if name == "date" and schema.type == "int":
        return _days
    base, _, unit = name.rpartition("-")
    if base == "time" and (schema.type, unit) in (("int", "millis"), ("long", "micros")):
        return lambda value: _time(value, _MICROSECONDS[unit])
    if schema.type == "long" and unit in _MICROSECONDS and base in ("timestamp", "local-timestamp"):
        return lambda value: _timestamp(value, _MICROSECONDS[unit], is_local=base != "timestamp")
    return None


def _decimal_of(schema: Schema) -> Convert | None:
    precision: Any = schema.props.get("precision")
    scale: Any = schema.props.get("scale", 0)
    if not (_is_whole(precision) and _is_whole(scale) and 0 <= scale <= precision and precision > 0):
        return None
    size = schema.size if isinstance(schema, Fixed) else None

    def convert(value: Any) -> bytes:
        if isinstance(value, bytes | bytearray):
            return bytes(value)
        unscaled = _unscaled(_number(value), scale)
        if len(str(abs(unscaled))) > precision:
            raise ValueError(f"{value} has more than {precision} digits")
        try:
            return unscaled.to_bytes(unscaled.bit_length() // 8 + 1 if size is None else size, signed=True)
        except OverflowError:
            raise ValueError(f"{value} does not fit into {size} bytes") from None

    return convert


def _number(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, Decimal | int | float | str):
        raise ValueError(f"{value!r} is no decimal number")
    try:
        # The shortest text of a float is the number that was meant.
        found = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise ValueError(f"{value!r} is no decimal number") from None
    if not found.is_finite() or abs(found.adjusted()) > DIGITS_MAX or len(found.as_tuple().digits) > DIGITS_MAX:
        raise ValueError(f"{value} is no decimal number that can be stored")
    return found


def _unscaled(number: Decimal, scale: int) -> int:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)))
    power: int = 10 ** abs(exponent + scale)
    if exponent + scale < 0 and whole % power:
        raise ValueError(f"{number} has more than {scale} digits behind the point")
    whole = whole * power if exponent + scale >= 0 else whole // power
    return -whole if sign else whole


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _uuid(value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f"{value!r} is no UUID") from None


def _uuid_text(value: Any) -> str:
    # The text stays as it was written.
    return value if isinstance(value, str) and _uuid(value) else str(_uuid(value))


def _uuid_bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray) else _uuid(value).bytes


def _days(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = datetime.date.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value!r} is no date such as 2026-01-31") from None
    if isinstance(value, datetime.date):
        return (datetime.date(value.year, value.month, value.day) - _EPOCH.date()).days
    return value


def _time(value: Any, unit_us: int) -> Any:
    if isinstance(value, str):
        try:
            value = datetime.time.fromisoformat(_not_too_fine(value))
        except ValueError:
            raise ValueError(f"{value!r} is no time such as 12:34:56.789") from None
    if not isinstance(value, datetime.time):
        return value
    if value.tzinfo is not None:
        raise ValueError(f"{value} has a zone, and the type has none")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _in_units(seconds * 1_000_000 + value.microsecond, unit_us, value)


def _timestamp(value: Any, unit_us: int, *, is_local: bool) -> Any:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(_not_too_fine(value))
        except ValueError:
            example = "2026-01-31T12:34:56.789" + ("" if is_local else "Z")
            raise ValueError(f"{value!r} is no time such as {example}") from None
    if not isinstance(value, datetime.datetime):
        return value
    if (value.tzinfo is None) is not is_local:
        raise ValueError(
            f"{value} has {'a' if is_local else 'no'} zone, and the type has {'none' if is_local else 'one'}"
        )
    offset = value.utcoffset() or datetime.timedelta()
    passed = value.replace(tzinfo=None) - _EPOCH - offset
    return _in_units((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds, unit_us, value)


def _not_too_fine(text: str) -> str:
    if _TOO_FINE.search(text):
        raise ValueError
    return text


def _in_units(time_us: int, unit_us: int, value: object) -> int:
    if time_us % unit_us:
        raise ValueError(f"{value} is finer than the milliseconds of the type")
    return time_us // unit_us
