"""Functions of dates, times and timestamps. Patterns are those of Java's DateTimeFormatter: see `java_time`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_sql import java_format
from broker_sql.functions.definitions import Category, Resolved
from broker_sql.functions.java_time.formatter import Formatter, formatter
from broker_sql.functions.java_time.zones import Zone, zone_of

TIME = Category("DATE / TIME")
_DAY_MS: Final = 86_400_000
_UTC: Final = zone_of("UTC")
_UNITS_MS: Final = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": _DAY_MS}
_PATTERN = "the pattern of java.time.format.DateTimeFormatter"
_ZONE = "the time zone, such as Europe/Paris or +02:00; UTC without it"
_ADD = {
    "unit": "DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS",
    "interval": "the number of units",
    "value": "the value",
}


def _unit_ms(unit: str) -> int:
    found = _UNITS_MS.get(unit.upper().removesuffix("S"))
    if found is None:
        raise ValueError(f"unit {unit}: DAYS, HOURS, MINUTES, SECONDS or MILLISECONDS is expected")
    return found


def _define_sum(name: str, kind: str, description: str, finish: Callable[[int, int], int], sign: int) -> None:
    @TIME.scalar(name, description, **_ADD)(f"(unit INTERVALUNIT, interval INT, value {kind}) {kind}", strict=True)
    def _(unit: str, interval: int, value: int) -> int:
        return finish(value, sign * interval * _unit_ms(unit))


for _kind, _prefix, _finish in (
    ("DATE", "date", lambda days, change_ms: (days * _DAY_MS + change_ms) // _DAY_MS),
    ("TIME", "time", lambda time_ms, change_ms: (time_ms + change_ms) % _DAY_MS),
    ("TIMESTAMP", "timestamp", lambda time_ms, change_ms: java_format.wrap_bigint(time_ms + change_ms)),
):
    _define_sum(f"{_prefix}add", _kind, f"The {_kind} with an interval added.", _finish, 1)
    _define_sum(f"{_prefix}sub", _kind, f"The {_kind} with an interval subtracted.", _finish, -1)

_convert = TIME.scalar(
    "convert_tz",
    "The time of clocks in one zone at the moment when clocks in another show the timestamp.",
    value="the timestamp",
    from_zone="the zone of the timestamp, such as Europe/Paris or +02:00",
    to_zone="the other zone",
)
_unix_date = TIME.scalar("unix_date", "The days since 1970-01-01, of a date or of today in UTC.", value="the date")
_unix_timestamp = TIME.scalar(
    "unix_timestamp", "The milliseconds since 1970, of a timestamp or of now.", value="the timestamp"
)
_from_days = TIME.scalar("from_days", "The date of days since 1970-01-01.", days="the days")
_from_unixtime = TIME.scalar(
    "from_unixtime", "The timestamp of milliseconds since 1970.", milliseconds="the milliseconds"
)


@_convert("(value TIMESTAMP, from_zone STRING, to_zone STRING) TIMESTAMP", strict=True)
def _(value: int, from_zone: str, to_zone: str) -> int:
    try:
        given, wanted = zone_of(from_zone), zone_of(to_zone)
    except ValueError as error:
        raise ValueError(f"CONVERT_TZ: {error}") from None
    moment_ms = value - given.local_offset_s(value // 1000) * 1000
    return moment_ms + wanted.offset_s(moment_ms // 1000) * 1000


@_unix_date("() INT", build=True)
def _(resolved: Resolved) -> Callable[[], int]:
    now_ms = resolved.environment.now_ms
    return lambda: now_ms() // _DAY_MS


@_unix_timestamp("() BIGINT", build=True)
def _(resolved: Resolved) -> Callable[[], int]:
    return resolved.environment.now_ms


_unix_date("(value DATE) INT")(lambda value: value)
_unix_timestamp("(value TIMESTAMP) BIGINT")(lambda value: value)
_from_days("(days INT) DATE")(lambda days: days)
_from_unixtime("(milliseconds BIGINT) TIMESTAMP")(lambda milliseconds: milliseconds)


def _formatted(what: str, pattern: str, write: Callable[[Formatter], str], shown: Callable[[], Any]) -> str:
    try:
        return write(formatter(pattern))
    except ValueError as error:
        raise ValueError(f"{what} {shown()} cannot be written as '{pattern}': {error}") from None


def _parsed(what: str, text: str, pattern: str, read: Callable[[Formatter], int]) -> int:
    try:
        return read(formatter(pattern))
    except ValueError as error:
        raise ValueError(f"'{text}' cannot be read as a {what}, '{pattern}': {error}") from None


def _define_dates() -> None:
    write = TIME.scalar("format_date", "The text of a date.", date="the date", pattern=_PATTERN)
    old_write = TIME.scalar("datetostring", "As FORMAT_DATE, of days (deprecated).", date="the days", pattern=_PATTERN)

    @write("(date DATE, pattern STRING) STRING", strict=True)
    @old_write("(date INT, pattern STRING) STRING", strict=True)
    def _(days: int, pattern: str) -> str:
        return _formatted("date", pattern, lambda each: each.write_date(days), lambda: java_format.date_text(days))

    @TIME.scalar(
        "parse_date", "The date at the begin of a text: what follows it is ignored.", text="the text", pattern=_PATTERN
    )("(text STRING, pattern STRING) DATE", strict=True)
    def _(text: str, pattern: str) -> int:
        return _parsed("date", text, pattern, lambda each: each.read_date(text, whole=False))

    @TIME.scalar("stringtodate", "The days of the date in a text (deprecated).", text="the text", pattern=_PATTERN)(
        "(text STRING, pattern STRING) INT", strict=True
    )
    def _(text: str, pattern: str) -> int:
        return _parsed("date", text, pattern, lambda each: each.read_date(text))


def _define_times() -> None:
    write = TIME.scalar("format_time", "The text of a time.", time="the time", pattern=_PATTERN)

    @write("(time TIME, pattern STRING) STRING", strict=True)
    def _(time_ms: int, pattern: str) -> str:
        return _formatted(
            "time", pattern, lambda each: each.write_time(time_ms), lambda: java_format.time_text(time_ms)
        )

    @TIME.scalar("parse_time", "The time in a text.", text="the text", pattern=_PATTERN)(
        "(text STRING, pattern STRING) TIME", strict=True
    )
    def _(text: str, pattern: str) -> int:
        return _parsed("time", text, pattern, lambda each: each.read_time(text))


def _write_timestamp(time_ms: int, pattern: str, zone: Zone) -> str:
    return _formatted(
        "timestamp",
        pattern,
        lambda each: each.write_timestamp(time_ms, zone),
        lambda: java_format.timestamp_text(time_ms),
    )


def _read_timestamp(text: str, pattern: str, zone: Zone) -> int:
    return _parsed("timestamp", text, pattern, lambda each: each.read_timestamp(text, zone))


def _define_timestamps() -> None:
    given = {"pattern": _PATTERN, "zone": _ZONE}
    write = TIME.scalar("format_timestamp", "The text of a timestamp.", timestamp="the timestamp", **given)
    old_write = TIME.scalar(
        "timestamptostring", "As FORMAT_TIMESTAMP, of milliseconds (deprecated).", timestamp="the milliseconds", **given
    )

    @write("(timestamp TIMESTAMP, pattern STRING) STRING", strict=True)
    @old_write("(timestamp BIGINT, pattern STRING) STRING", strict=True)
    def _(time_ms: int, pattern: str) -> str:
        return _write_timestamp(time_ms, pattern, _UTC)

    @write("(timestamp TIMESTAMP, pattern STRING, zone STRING) STRING", strict=True)
    @old_write("(timestamp BIGINT, pattern STRING, zone STRING) STRING", strict=True)
    def _(time_ms: int, pattern: str, zone: str) -> str:
        return _write_timestamp(time_ms, pattern, zone_of(zone))

    read = TIME.scalar("parse_timestamp", "The timestamp in a text.", text="the text", **given)
    old_read = TIME.scalar(
        "stringtotimestamp", "As PARSE_TIMESTAMP, to milliseconds (deprecated).", text="the text", **given
    )

    @read("(text STRING, pattern STRING) TIMESTAMP", strict=True)
    @old_read("(text STRING, pattern STRING) BIGINT", strict=True)
    def _(text: str, pattern: str) -> int:
        return _read_timestamp(text, pattern, _UTC)

    @read("(text STRING, pattern STRING, zone STRING) TIMESTAMP", strict=True)
    @old_read("(text STRING, pattern STRING, zone STRING) BIGINT", strict=True)
    def _(text: str, pattern: str, zone: str) -> int:
        return _read_timestamp(text, pattern, zone_of(zone))


_define_dates()
_define_times()
_define_timestamps()
