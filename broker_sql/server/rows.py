"""Rows as answers have them: JSON values by the types of columns.

Decimals are numbers with their digits; bytes are Base64; dates and times are texts of ISO 8601, as ksqlDB has them.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import orjson

from broker_sql.types import BYTES, DATE, DOUBLE, TIME, TIMESTAMP, Array, Column, Decimal, Map, SqlType, Struct

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)
_MS_OF_DAY: Final = 86_400_000

Encode = Callable[[Any], Any]


def encoder(columns: Iterable[Column]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that makes the values of a row such that orjson can write them."""
    encoders = [_encoder(each.type) for each in columns]
    changed = [(at, encode) for at, encode in enumerate(encoders) if encode is not None]
    if not changed:
        return list

    def encode_row(row: Sequence[Any]) -> list[Any]:
        found = list(row)
        for at, encode in changed:
            if found[at] is not None:
                found[at] = encode(found[at])
        return found

    return encode_row


def _encoder(kind: SqlType) -> Encode | None:
    """Return the function of a type; None if values are JSON as they are."""
    if kind == DOUBLE:
        return _double
    if kind == BYTES:
        return lambda value: base64.b64encode(value).decode()
    if kind == TIMESTAMP:
        return timestamp_text
    if kind == DATE:
        return date_text
    if kind == TIME:
        return time_text
    if isinstance(kind, Decimal):
        return lambda value: orjson.Fragment(f"{value:f}")
    if isinstance(kind, Array):
        return _of_elements(_encoder(kind.element))
    if isinstance(kind, Map):
        inner = _encoder(kind.value)
        # Keys of JSON are texts.
        return lambda value: {_key(key): _of(inner, each) for key, each in value.items()}
    if isinstance(kind, Struct):
        fields = {name: _encoder(each) for name, each in kind.fields}
        if not any(fields.values()):
            return None
        return lambda value: {name: _of(fields.get(name), each) for name, each in value.items()}
    return None


def _of_elements(inner: Encode | None) -> Encode | None:
    return None if inner is None else lambda value: [_of(inner, each) for each in value]


def _of(encode: Encode | None, value: Any) -> Any:
    return value if encode is None or value is None else encode(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _double(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def timestamp_text(ms: int) -> str:
    """Return the text of a time in UTC, such as 2024-02-29T12:00:00.000. Years beyond datetime's stay numbers."""
    try:
        found = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return found.strftime("%Y-%m-%dT%H:%M:%S.").rjust(20, "0") + f"{found.microsecond // 1000:03d}"


def date_text(days: int) -> str:
    try:
        return (_EPOCH_DAY + timedelta(days=days)).isoformat()
    except OverflowError:
        return str(days)


def time_text(ms: int) -> str:
    """Return the text of a time of day; parts of a second only if there are any."""
    seconds, part = divmod(ms % _MS_OF_DAY, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    shown = f"{hour:02d}:{minute:02d}"
    if second or part:
        shown += f":{second:02d}"
    return shown + (f".{part:03d}" if part else "")
