"""The proleptic Gregorian calendar of java.time, with years from -999999999 to 999999999."""

from __future__ import annotations

from typing import Final

from broker_sql.functions.java_time.zones import Zone

NANOS: Final = 1_000_000_000
NANOS_PER_DAY: Final = 86_400 * NANOS
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CYCLE_DAYS: Final = 146_097  # of 400 years
_DAYS_0000_TO_1970: Final = 719_528


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 of a date. Days beyond the month count on."""
    shifted = year - (month <= 2)
    cycle, of_cycle = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    of_cycle_days = of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + of_year
    return cycle * _CYCLE_DAYS + of_cycle_days - _DAYS_0000_TO_1970 + 60


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of days since 1970-01-01."""
    cycle, rest = divmod(days + _DAYS_0000_TO_1970 - 60, _CYCLE_DAYS)
    of_cycle = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
    of_year = rest - (365 * of_cycle + of_cycle // 4 - of_cycle // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return cycle * 400 + of_cycle + (month <= 2), month, day


def leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    return (31, 29 if leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def weekday(days: int) -> int:
    """Return 1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def sunday_first(days: int) -> int:
    """Return 1 for Sunday to 7 for Saturday."""
    return (days + 4) % 7 + 1


def first_week(year: int) -> int:
    """Return the day on which the first week of a year begins: the week with January 1, from Sunday."""
    first = days_of(year, 1, 1)
    return first - sunday_first(first) + 1


def week_of_year(days: int, year: int) -> tuple[int, int]:
    """Return the year that a week counts to, and its number."""
    if days >= first_week(year + 1):
        return year + 1, 1
    return year, (days - first_week(year)) // 7 + 1


class Moment:
    """A date, a time of day in nanoseconds, and a zone with its offset in seconds; None for what is not there.

    `date` is year, month and day."""

    __slots__ = ("date", "days", "nanos", "offset_s", "zone")

    def __init__(
        self,
        days: int | None = None,
        nanos: int | None = None,
        zone: Zone | None = None,
        offset_s: int | None = None,
    ) -> None:
        self.days, self.nanos, self.zone, self.offset_s = days, nanos, zone, offset_s
        self.date = (0, 0, 0) if days is None else date_of(days)
