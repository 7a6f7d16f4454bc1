"""Patterns that are ready for use: moments to texts, and texts to dates, times and timestamps."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from broker_sql.functions.java_time import values
from broker_sql.functions.java_time.calendar import (
    NANOS,
    NANOS_PER_DAY,
    Moment,
    days_of,
    first_week,
    leap,
    month_length,
    sunday_first,
    weekday,
)
from broker_sql.functions.java_time.pattern import elements
from broker_sql.functions.java_time.values import DATE_FIELDS, RANGES, Fields, NotParsed
from broker_sql.functions.java_time.zones import Zone

_CACHED: Final = 256  # patterns that stay translated
_MS_PER_DAY: Final = 86_400_000


class Formatter:
    """A translated pattern. Raises ValueError if the pattern is not valid."""

    def __init__(self, pattern: str) -> None:
        self._elements = elements(pattern)

    def _write(self, moment: Moment) -> str:
        return "".join([each.write(moment) for each in self._elements])

    def write_date(self, days: int) -> str:
        """Return the text of days since 1970. Raises ValueError, also if the pattern has a field of times."""
        return self._write(Moment(days=days))

    def write_time(self, time_ms: int) -> str:
        """Return the text of milliseconds of the day. Raises ValueError, also if the pattern has a field of dates."""
        return self._write(Moment(nanos=time_ms * 1_000_000))

    def write_timestamp(self, time_ms: int, zone: Zone) -> str:
        """Return the text of milliseconds since 1970, as the time in the zone. Raises ValueError."""
        offset_s = zone.offset_s(time_ms // 1000)
        days, rest_ms = divmod(time_ms + offset_s * 1000, _MS_PER_DAY)
        return self._write(Moment(days, rest_ms * 1_000_000, zone, offset_s))

    def _read(self, text: str, *, whole: bool = True) -> Fields:
        fields, at = Fields(), 0
        try:
            for each in self._elements:
                at = each.read(text, at, fields)
        except NotParsed as error:
            raise ValueError(f"Text '{text}' could not be parsed at index {error.at}") from None
        if whole and at < len(text):
            raise ValueError(f"Text '{text}' could not be parsed, unparsed text found at index {at}")
        for name, value in fields.numbers.items():
            least, most = RANGES.get(name, (value, value))
            if not least <= value <= most:
                raise _invalid(text, f"Invalid value for {name} (valid values {least} - {most}): {value}")
        return fields

    def read_date(self, text: str, *, whole: bool = True) -> int:
        """Return days since 1970. A field that is missing is that of 1970-01-01. Raises ValueError.

        `whole` False: the text may go on behind the date."""
        fields = self._read(text, whole=whole)
        if fields.numbers.keys() - DATE_FIELDS:
            raise ValueError("the pattern has fields of a time: a date is expected")
        return _days(fields.numbers, text)

    def read_time(self, text: str) -> int:
        """Return milliseconds of the day. Raises ValueError."""
        fields = self._read(text)
        if fields.numbers.keys() & DATE_FIELDS:
            raise ValueError("the pattern has fields of a date: a time is expected")
        return _nanos(fields.numbers, text) % NANOS_PER_DAY // 1_000_000

    def read_timestamp(self, text: str, zone: Zone) -> int:
        """Return milliseconds since 1970. `zone` is that of a text without zone and offset. Raises ValueError."""
        fields = self._read(text)
        days, nanos = _days(fields.numbers, text), _nanos(fields.numbers, text)
        local_s = days * 86_400 + nanos // NANOS
        offset_s = fields.offset_s
        if offset_s is None:
            offset_s = (fields.zone or zone).local_offset_s(local_s)
        return (local_s - offset_s) * 1000 + nanos % NANOS // 1_000_000


@lru_cache(maxsize=_CACHED)
def formatter(pattern: str) -> Formatter:
    """Return the formatter of a pattern. Raises ValueError."""
    return Formatter(pattern)


def _invalid(text: str, reason: str) -> ValueError:
    return ValueError(f"Text '{text}' could not be parsed: {reason}")


def _year(numbers: dict[str, int]) -> int:
    if values.YEAR in numbers:
        return numbers[values.YEAR]
    year = numbers.get(values.YEAR_OF_ERA, 1970)
    return 1 - year if numbers.get(values.ERA) == 0 else year


def _days(numbers: dict[str, int], text: str) -> int:
    """Return the date of fields, in Java's SMART way: day 31 of a shorter month is its last day."""
    if values.JULIAN in numbers:
        return numbers[values.JULIAN] - 40_587
    if values.WEEK in numbers or values.WEEK_YEAR in numbers:
        local = numbers.get(values.LOCAL_WEEKDAY, numbers.get(values.WEEKDAY, 7) % 7 + 1)
        year = numbers.get(values.WEEK_YEAR, _year(numbers))
        return first_week(year) + (numbers.get(values.WEEK, 1) - 1) * 7 + local - 1
    year = _year(numbers)
    if values.DAY_OF_YEAR in numbers and values.MONTH not in numbers:
        of_year = numbers[values.DAY_OF_YEAR]
        if of_year == 366 and not leap(year):
            raise _invalid(text, f"Invalid date 'DayOfYear 366' as '{year}' is not a leap year")
        days = days_of(year, 1, 1) + of_year - 1
    else:
        month = numbers.get(values.MONTH, (numbers.get(values.QUARTER, 1) - 1) * 3 + 1)
        days = days_of(year, month, min(numbers.get(values.DAY, 1), month_length(year, month)))
        if values.DAY not in numbers:
            days = _within_month(numbers, days)
    for name, found in ((values.WEEKDAY, weekday(days)), (values.LOCAL_WEEKDAY, sunday_first(days))):
        if numbers.get(name, found) != found:
            raise _invalid(text, f"Conflict found: {name} {found} differs from {name} {numbers[name]}")
    return days


def _within_month(numbers: dict[str, int], first: int) -> int:
    """Return the day of a week of a month, for a text without day of month."""
    local = numbers.get(values.LOCAL_WEEKDAY)
    if local is None and values.WEEKDAY in numbers:
        local = numbers[values.WEEKDAY] % 7 + 1
    if local is None:
        return first + (numbers.get(values.WEEKDAY_IN_MONTH, 1) - 1) * 7
    if values.WEEK_OF_MONTH in numbers:
        return first - sunday_first(first) + local + (numbers[values.WEEK_OF_MONTH] - 1) * 7
    if values.WEEKDAY_IN_MONTH in numbers:
        return first + (local - sunday_first(first)) % 7 + (numbers[values.WEEKDAY_IN_MONTH] - 1) * 7
    return first


def _nanos(numbers: dict[str, int], text: str) -> int:
    """Return the nanoseconds of the day; those of a whole day for 24:00."""
    if values.NANO_OF_DAY in numbers:
        return numbers[values.NANO_OF_DAY]
    if values.MILLI_OF_DAY in numbers:
        return numbers[values.MILLI_OF_DAY] * 1_000_000
    hour = numbers.get(values.HOUR)
    if hour is None and values.CLOCK_HOUR in numbers:
        hour = numbers[values.CLOCK_HOUR] % 24
    if hour is None:
        half = numbers.get(values.HOUR_OF_AMPM)
        if half is None and values.CLOCK_HOUR_OF_AMPM in numbers:
            half = numbers[values.CLOCK_HOUR_OF_AMPM] % 12
        hour = (half or 0) + 12 * numbers.get(values.AMPM, 0) if half is not None else 0
    rest = (
        numbers.get(values.MINUTE, 0) * 60 * NANOS + numbers.get(values.SECOND, 0) * NANOS + numbers.get(values.NANO, 0)
    )
    if hour == 24 and rest:
        raise _invalid(text, "Invalid value for HourOfDay (valid values 0 - 23): 24")
    return hour * 3600 * NANOS + rest
