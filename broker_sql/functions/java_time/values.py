"""Fields that a text has given, until they are made a date and a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from broker_sql.functions.java_time.zones import Zone

# Names of fields as of java.time.temporal.ChronoField.
ERA: Final = "Era"
YEAR: Final = "Year"
YEAR_OF_ERA: Final = "YearOfEra"
MONTH: Final = "MonthOfYear"
DAY: Final = "DayOfMonth"
DAY_OF_YEAR: Final = "DayOfYear"
QUARTER: Final = "QuarterOfYear"
WEEKDAY: Final = "DayOfWeek"
LOCAL_WEEKDAY: Final = "LocalizedDayOfWeek"
WEEK_YEAR: Final = "WeekBasedYear"
WEEK: Final = "WeekOfWeekBasedYear"
WEEK_OF_MONTH: Final = "WeekOfMonth"
WEEKDAY_IN_MONTH: Final = "AlignedWeekOfMonth"
JULIAN: Final = "ModifiedJulianDay"
AMPM: Final = "AmPmOfDay"
CLOCK_HOUR_OF_AMPM: Final = "ClockHourOfAmPm"
HOUR_OF_AMPM: Final = "HourOfAmPm"
CLOCK_HOUR: Final = "ClockHourOfDay"
HOUR: Final = "HourOfDay"
MINUTE: Final = "MinuteOfHour"
SECOND: Final = "SecondOfMinute"
NANO: Final = "NanoOfSecond"
MILLI_OF_DAY: Final = "MilliOfDay"
NANO_OF_DAY: Final = "NanoOfDay"
DATE_FIELDS: Final = frozenset(
    (
        ERA, YEAR, YEAR_OF_ERA, MONTH, DAY, DAY_OF_YEAR, QUARTER, WEEKDAY, LOCAL_WEEKDAY, WEEK_YEAR, WEEK,
        WEEK_OF_MONTH, WEEKDAY_IN_MONTH, JULIAN,
    )
)  # fmt: skip
RANGES: Final[dict[str, tuple[int, int]]] = {
    MONTH: (1, 12), DAY: (1, 31), DAY_OF_YEAR: (1, 366), QUARTER: (1, 4), WEEKDAY: (1, 7), LOCAL_WEEKDAY: (1, 7),
    WEEK: (1, 53), WEEK_OF_MONTH: (1, 6), WEEKDAY_IN_MONTH: (1, 5), CLOCK_HOUR_OF_AMPM: (1, 12), HOUR_OF_AMPM: (0, 11),
    CLOCK_HOUR: (1, 24), HOUR: (0, 24), MINUTE: (0, 59), SECOND: (0, 59), MILLI_OF_DAY: (0, 86_399_999),
    NANO: (0, 999_999_999), NANO_OF_DAY: (0, 86_399_999_999_999), YEAR_OF_ERA: (1, 999_999_999),
    YEAR: (-999_999_999, 999_999_999), WEEK_YEAR: (-999_999_999, 999_999_999),
}  # fmt: skip


class NotParsed(ValueError):
    """The text does not follow the pattern; `at` is the place, from 0."""

    def __init__(self, at: int) -> None:
        super().__init__(f"could not be parsed at index {at}")
        self.at = at


@dataclass(slots=True)
class Fields:
    """Numbers by the names of fields, and the zone or the offset in seconds."""

    numbers: dict[str, int] = field(default_factory=dict)
    zone: Zone | None = None
    offset_s: int | None = None

    def copy(self) -> Fields:
        return Fields(dict(self.numbers), self.zone, self.offset_s)
