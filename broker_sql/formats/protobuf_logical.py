"""Decimals, dates and times as messages: confluent.type.Decimal, google.type and google.protobuf.Timestamp."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from broker_sql.formats.avro import decimal_bytes, unscaled
from broker_sql.formats.connect import DATE, DECIMAL, TIME, TIMESTAMP, Convert

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def _read_decimal(message: Any) -> Decimal:
    return unscaled(message.value, message.scale)


def decimal_filler(parameters: Mapping[str, str]) -> Callable[[Any, Any], None]:
    precision = int(parameters.get("precision", 0))

    def fill(message: Any, value: Decimal) -> None:
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        message.value = decimal_bytes(value, -exponent)
        message.precision = precision
        message.scale = -exponent

    return fill


def _read_date(message: Any) -> int:
    return date(message.year, message.month, message.day).toordinal() - _EPOCH_DAY


def _fill_date(message: Any, value: int) -> None:
    found = date.fromordinal(value + _EPOCH_DAY)
    message.year, message.month, message.day = found.year, found.month, found.day


def _read_time(message: Any) -> int:
    seconds = (message.hours * 60 + message.minutes) * 60 + message.seconds
    return int(seconds * 1000 + message.nanos // 1_000_000)


def _fill_time(message: Any, value: int) -> None:
    seconds, millis = divmod(value, 1000)
    message.hours, message.minutes, message.seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    message.nanos = millis * 1_000_000


def _read_timestamp(message: Any) -> int:
    return int(message.seconds * 1000 + message.nanos // 1_000_000)


def _fill_timestamp(message: Any, value: int) -> None:
    message.seconds, millis = divmod(value, 1000)
    message.nanos = millis * 1_000_000


FROM_LOGICAL: Final[dict[str, Convert]] = {
    DECIMAL: _read_decimal,
    DATE: _read_date,
    TIME: _read_time,
    TIMESTAMP: _read_timestamp,
}
TO_LOGICAL: Final[dict[str, Callable[[Any, Any], None]]] = {
    DATE: _fill_date,
    TIME: _fill_time,
    TIMESTAMP: _fill_timestamp,
}
