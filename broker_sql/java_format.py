"""Texts of values as Java prints and reads them: CAST to and from STRING, fields of DELIMITED, answers of the server.

Doubles: `Double.toString` since Java 19 (broker_cy.core.java_numbers). Decimals: `BigDecimal`. Times: ISO-8601
in UTC. All parsers raise ValueError with a message that names the text and what is allowed.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

from broker_cy.core.java_numbers import double_text
from broker_sql import types
from broker_sql.types import SqlType

INTEGER_MIN: Final = -(2**31)
INTEGER_MAX: Final = 2**31 - 1
BIGINT_MIN: Final = -(2**63)
BIGINT_MAX: Final = 2**63 - 1
DAY_MS: Final = 86_400_000

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal() - _EPOCH_DAY
_FIRST_DAY: Final = date.min.toordinal() - _EPOCH_DAY
_BLANKS: Final = "".join(map(chr, range(33)))  # String.trim

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)
_TIME: Final = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(?:(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?)?)?)?)?)?(Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
# Exact for every decimal that a statement or record can hold: no digit is lost on the way in.
EXACT: Final = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def wrap_integer(value: int) -> int:
    """Return the low 32 bits as Java's int: what overflow of INTEGER gives."""
    return (value + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def wrap_bigint(value: int) -> int:
    """Return the low 64 bits as Java's long: what overflow of BIGINT gives."""
    return (value + 0x8000_0000_0000_0000 & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def double_to_integer(value: float) -> int:
    """Return the int of a double: towards zero, the nearest int of what is too large, 0 of NaN."""
    if -2147483649.0 < value < 2147483648.0:
        return int(value)
    return 0 if value != value else INTEGER_MAX if value > 0 else INTEGER_MIN


def double_to_bigint(value: float) -> int:
    """Return the long of a double, by the rules of `double_to_integer`."""
    if -9223372036854775808.0 <= value < 9223372036854775808.0:
        return int(value)
    return 0 if value != value else BIGINT_MAX if value > 0 else BIGINT_MIN


def boolean_text(value: bool) -> str:
    return "true" if value else "false"


def decimal_text(value: decimal.Decimal) -> str:
    """Return the digits without an exponent (`BigDecimal.toPlainString`)."""
    return format(value, "f")


def date_text(days: int) -> str:
    """Return `yyyy-MM-dd` of days since 1970."""
    if _FIRST_DAY <= days <= _LAST_DAY:
        return date.fromordinal(days + _EPOCH_DAY).isoformat()
    year, month, day = _civil(days)
    year_text = f"+{year}" if year > 9999 else f"-{-year:04}" if year < 0 else f"{year:04}"
    return f"{year_text}-{month:02}-{day:02}"


def time_text(time_ms: int) -> str:
    """Return `HH:mm:ss` of milliseconds of a day; a time of whole minutes has no seconds (`LocalTime.toString`)."""
    minutes, seconds = divmod(time_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}" if seconds else f"{hours:02}:{minutes:02}"


def timestamp_text(time_ms: int) -> str:
    """Return `yyyy-MM-dd'T'HH:mm:ss.SSS` of milliseconds since 1970, UTC."""
    if _FIRST_DAY * DAY_MS <= time_ms < (_LAST_DAY + 1) * DAY_MS:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
    days, rest = divmod(time_ms, DAY_MS)
    return f"{date_text(days)}T{(_EPOCH + timedelta(milliseconds=rest)).time().isoformat(timespec='milliseconds')}"


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of any day; the calendar repeats after 400 years of 146,097 days."""
    cycles, rest = divmod(days, 146_097)
    within = date.fromordinal(rest + _EPOCH_DAY)
    return within.year + 400 * cycles, within.month, within.day


def value_text(value: Any, kind: SqlType) -> str:
    """Return the text of a value inside a collection, as Java's `toString`: `[1, null]`, `{a=1}`, `Struct{A=1}`."""
    if value is None:
        return "null"
    match kind:
        case types.STRING:
            return str(value)
        case types.INTEGER | types.BIGINT:
            return str(value)
        case types.BOOLEAN:
            return boolean_text(value)
        case types.DOUBLE:
            return double_text(value)
        case types.DATE:
            return date_text(value)
        case types.TIME:
            return time_text(value)
        case types.TIMESTAMP:
            return timestamp_text(value)
        case types.Decimal():
            return decimal_text(value)
        case types.Array(element):
            return array_text(value, element)
        case types.Map(key, inner):
            return map_text(value, key, inner)
        case types.Struct():
            return struct_text(value, kind)
    raise ValueError(f"{kind} has no text")


def array_text(value: Sequence[Any], element: SqlType) -> str:
    return f"[{', '.join(value_text(each, element) for each in value)}]"


def map_text(value: Mapping[Any, Any], key: SqlType, inner: SqlType) -> str:
    return f"{{{', '.join(f'{value_text(k, key)}={value_text(v, inner)}' for k, v in value.items())}}}"


def struct_text(value: Mapping[str, Any], kind: types.Struct) -> str:
    """Fields without a value are left out, as in Connect's Struct."""
    fields = (f"{name}={value_text(value[name], each)}" for name, each in kind.fields if value.get(name) is not None)
    return f"Struct{{{','.join(fields)}}}"


def parse_boolean(text: str) -> bool:
    """Return True for a prefix of `true` or `yes` in any case, False for all other texts."""
    return exact_boolean(text) is True


def exact_boolean(text: str) -> bool | None:
    """Return the value of a prefix of true, yes, false or no in any case; None for other texts."""
    lower = text.lower()
    if not lower:
        return None
    if "true".startswith(lower) or "yes".startswith(lower):
        return True
    return False if "false".startswith(lower) or "no".startswith(lower) else None


def parse_integer(text: str) -> int:
    value = _whole_number(text, "INTEGER")
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise ValueError(f"{text!r} is no INTEGER: {INTEGER_MIN} to {INTEGER_MAX} is allowed")
    return value


def parse_bigint(text: str) -> int:
    value = _whole_number(text, "BIGINT")
    if not BIGINT_MIN <= value <= BIGINT_MAX:
        raise ValueError(f"{text!r} is no BIGINT: {BIGINT_MIN} to {BIGINT_MAX} is allowed")
    return value


def _whole_number(text: str, kind: str) -> int:
    trimmed = text.strip(_BLANKS)
    if not _INTEGER.fullmatch(trimmed) or len(trimmed) > 100:
        raise ValueError(f"{text!r} is no {kind}: digits with an optional sign are allowed")
    return int(trimmed)


def parse_double(text: str) -> float:
    """Parse a finite number; NaN and Infinity are refused, as in ksqlDB."""
    trimmed = text.strip(_BLANKS)
    if not _DOUBLE.fullmatch(trimmed):
        raise ValueError(f"{text!r} is no DOUBLE: a number such as 1.5 or -2E10 is allowed")
    return float(trimmed.rstrip("fFdD"))


def parse_decimal(text: str) -> decimal.Decimal:
    trimmed = text.strip(_BLANKS)
    if not _DECIMAL.fullmatch(trimmed) or len(trimmed) > types.MAX_PRECISION:
        raise ValueError(f"{text!r} is no DECIMAL: a number such as 1.5 or -2E10 is allowed")
    return EXACT.create_decimal(trimmed)


def parse_date(text: str) -> int:
    """Parse `yyyy`, `yyyy-MM` or `yyyy-MM-dd` to days since 1970."""
    found = _DATE.fullmatch(text)
    try:
        if found:
            return date(int(found[1]), int(found[2] or 1), int(found[3] or 1)).toordinal() - _EPOCH_DAY
    except ValueError:
        pass
    raise ValueError(f'{text!r} is no DATE. Required format is: "yyyy-MM-dd"')


def parse_time(text: str) -> int:
    """Parse `HH:mm`, `HH:mm:ss` or `HH:mm:ss.SSS` to milliseconds of the day."""
    found = _TIME.fullmatch(text)
    if found:
        hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
        if hours < 24 and minutes < 60 and seconds < 60:
            return ((hours * 60 + minutes) * 60 + seconds) * 1000 + int((found[4] or "0").ljust(3, "0")[:3])
    raise ValueError(f'{text!r} is no TIME. Required format is: "HH:mm:ss.SSS"')


def parse_timestamp(text: str) -> int:
    """Parse a time of ISO-8601, in full or only its beginning, to milliseconds since 1970; UTC without a zone."""
    found = _TIMESTAMP.fullmatch(text)
    try:
        if found:
            year, month, day, hour, minute, second, fraction, zone = found.groups()
            # As in Java, 24:00:00.000 is the end of the day.
            is_end = hour == "24" and not any(int(each or 0) for each in (minute, second, fraction))
            hours = 0 if is_end else int(hour or 0)
            at = datetime(int(year), int(month or 1), int(day or 1), hours, int(minute or 0), int(second or 0))
            ms = (at - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "0").ljust(3, "0"))
            ms += 86_400_000 if is_end else 0
            if zone is not None and zone != "Z":
                offset = int(zone[1:3]) * 60 + int(zone[-2:])
                if offset > 18 * 60:
                    raise ValueError
                ms -= (offset if zone[0] == "+" else -offset) * 60_000
            return ms
    except ValueError:
        pass
    allowed = "yyyy-MM-dd'T'HH:mm:ss.SSS"
    raise ValueError(f'{text!r} is no TIMESTAMP. Required format is: "{allowed}", with an optional zone such as +0200')
