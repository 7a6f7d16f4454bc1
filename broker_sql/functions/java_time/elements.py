"""The elements of a pattern. Each writes a moment, and reads a text into fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from broker_sql.functions.java_time import values
from broker_sql.functions.java_time.calendar import (
    MONTHS,
    NANOS,
    WEEKDAYS,
    Moment,
    days_of,
    sunday_first,
    week_of_year,
    weekday,
)
from broker_sql.functions.java_time.values import Fields, NotParsed
from broker_sql.functions.java_time.zones import SHORT_NAMES, Zone, region_names, zone_of

NORMAL, EXCEEDS_PAD, NOT_NEGATIVE = "normal", "exceeds pad", "not negative"
_MAX_WIDTH: Final = 19
_PREFIX: Final = re.compile(r"UTC|GMT|UT", re.IGNORECASE)
_SHORT_OFFSET: Final = re.compile(r"([+-])(\d\d?)(?::([0-5]\d)(?::([0-5]\d))?)?", re.ASCII)
_FULL_OFFSET: Final = re.compile(r"([+-])(\d\d):([0-5]\d)(?::([0-5]\d))?", re.ASCII)


class Unsupported(ValueError):
    """The moment has no such field."""


class Element(Protocol):
    def write(self, moment: Moment) -> str:
        """Return the text of the moment. Raises Unsupported."""

    def read(self, text: str, at: int, fields: Fields) -> int:
        """Read from a place on, and return the place behind. Raises NotParsed."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str

    def write(self, moment: Moment) -> str:
        return self.text

    def read(self, text: str, at: int, fields: Fields) -> int:
        end = at + len(self.text)
        if not text.startswith(self.text, at) and text[at:end].lower() != self.text.lower():
            raise NotParsed(at)
        return end


def _date(get: Callable[[int], int]) -> Callable[[Moment, str], int]:
    def found(moment: Moment, name: str) -> int:
        if moment.days is None:
            raise Unsupported(f"Unsupported field: {name}")
        return get(moment.days)

    return found


def _part(index: int) -> Callable[[Moment, str], int]:
    def found(moment: Moment, name: str) -> int:
        if moment.days is None:
            raise Unsupported(f"Unsupported field: {name}")
        return moment.date[index]

    return found


def _time(divisor: int, modulus: int, zero_is: int = 0) -> Callable[[Moment, str], int]:
    def found(moment: Moment, name: str) -> int:
        if moment.nanos is None:
            raise Unsupported(f"Unsupported field: {name}")
        return moment.nanos // divisor % modulus or zero_is

    return found


def _year_of(moment: Moment, name: str) -> int:
    year = _part(0)(moment, name)
    return year if year > 0 else 1 - year


def _of_year(days: int) -> int:
    from_year = _year(days)
    return days - days_of(from_year, 1, 1) + 1


def _year(days: int) -> int:
    return Moment(days).date[0]


def _week_of_month(days: int) -> int:
    day = Moment(days).date[2]
    return (day - 1 + sunday_first(days - day + 1) - 1) // 7 + 1


_GETTERS: Final[dict[str, Callable[[Moment, str], int]]] = {
    values.ERA: _date(lambda days: int(_year(days) > 0)),
    values.YEAR: _part(0),
    values.YEAR_OF_ERA: _year_of,
    values.MONTH: _part(1),
    values.DAY: _part(2),
    values.DAY_OF_YEAR: _date(_of_year),
    values.QUARTER: _date(lambda days: (Moment(days).date[1] + 2) // 3),
    values.WEEKDAY: _date(weekday),
    values.LOCAL_WEEKDAY: _date(sunday_first),
    values.WEEK_YEAR: _date(lambda days: week_of_year(days, _year(days))[0]),
    values.WEEK: _date(lambda days: week_of_year(days, _year(days))[1]),
    values.WEEK_OF_MONTH: _date(_week_of_month),
    values.WEEKDAY_IN_MONTH: _date(lambda days: (Moment(days).date[2] - 1) // 7 + 1),
    values.JULIAN: _date(lambda days: days + 40_587),
    values.AMPM: _time(43_200 * NANOS, 2),
    values.CLOCK_HOUR_OF_AMPM: _time(3600 * NANOS, 12, 12),
    values.HOUR_OF_AMPM: _time(3600 * NANOS, 12),
    values.CLOCK_HOUR: _time(3600 * NANOS, 24, 24),
    values.HOUR: _time(3600 * NANOS, 24),
    values.MINUTE: _time(60 * NANOS, 60),
    values.SECOND: _time(NANOS, 60),
    values.NANO: _time(1, NANOS),
    values.MILLI_OF_DAY: _time(1_000_000, 86_400_000),
    values.NANO_OF_DAY: _time(1, 86_400 * NANOS),
}


@dataclass(frozen=True, slots=True)
class Number:
    """`reserved` is the width of numbers of fixed width that follow without anything between."""

    name: str
    least: int
    most: int = _MAX_WIDTH
    sign: str = NORMAL
    reserved: int = 0
    fixed: bool = field(init=False)  # one width, and no sign

    def __post_init__(self) -> None:
        object.__setattr__(self, "fixed", self.least == self.most and self.sign == NOT_NEGATIVE)

    def write(self, moment: Moment) -> str:
        value = _GETTERS[self.name](moment, self.name)
        digits = str(abs(value))
        if len(digits) > self.most:
            raise ValueError(f"Field {self.name} cannot be printed: {value} exceeds the width of {self.most}")
        sign = "-" if value < 0 else "+" if self.sign == EXCEEDS_PAD and len(digits) > self.least else ""
        return sign + digits.rjust(self.least, "0")

    def read(self, text: str, at: int, fields: Fields) -> int:
        if self.fixed:
            digits = text[at : at + self.most]
            if len(digits) < self.most or not (digits.isascii() and digits.isdecimal()):
                raise NotParsed(at)
            fields.numbers[self.name] = int(digits)
            return at + self.most
        start, negative, plus = at, False, False
        if text[at : at + 1] in ("+", "-") and at < len(text):
            negative, plus = text[at] == "-", text[at] == "+"
            if self.sign == NOT_NEGATIVE or (plus and self.sign != EXCEEDS_PAD):
                raise NotParsed(at)
            start += 1
        end = start
        while end < len(text) and end - start < self.most + self.reserved and text[end] in "0123456789":
            end += 1
        if self.reserved:
            end = start + min(max(self.least, end - start - self.reserved), self.most)
        width = end - start
        if width < self.least or not text[start:end].isdecimal():
            raise NotParsed(at if not (negative or plus) else start)
        if self.sign == EXCEEDS_PAD and not negative and plus != (width > self.least):
            raise NotParsed(at)
        value = int(text[start:end])
        fields.numbers[self.name] = -value if negative else value
        return end


@dataclass(frozen=True, slots=True)
class Reduced:
    """Two digits of a year from 2000 to 2099."""

    field: str

    def write(self, moment: Moment) -> str:
        return f"{abs(_GETTERS[self.field](moment, self.field)) % 100:02}"

    def read(self, text: str, at: int, fields: Fields) -> int:
        digits = text[at : at + 2]
        if len(digits) < 2 or not (digits.isascii() and digits.isdecimal()):
            raise NotParsed(at)
        fields.numbers[self.field] = 2000 + int(digits)
        return at + 2


@dataclass(frozen=True, slots=True)
class Fraction:
    """So many digits of the second."""

    width: int

    def write(self, moment: Moment) -> str:
        return f"{_GETTERS[values.NANO](moment, values.NANO):09}"[: self.width]

    def read(self, text: str, at: int, fields: Fields) -> int:
        digits = text[at : at + self.width]
        if len(digits) < self.width or not (digits.isascii() and digits.isdecimal()):
            raise NotParsed(at)
        fields.numbers[values.NANO] = int(digits.ljust(9, "0"))
        return at + self.width


@dataclass(frozen=True, slots=True)
class Names:
    """A field by its name; `first` is the number of the first name. Names that are a part of another are tried last."""

    field: str
    names: Sequence[str]
    first: int = 1

    def write(self, moment: Moment) -> str:
        return self.names[_GETTERS[self.field](moment, self.field) - self.first]

    def read(self, text: str, at: int, fields: Fields) -> int:
        rest = text[at : at + 30].lower()
        for name in sorted(self.names, key=len, reverse=True):
            if rest.startswith(name.lower()):
                fields.numbers[self.field] = list(self.names).index(name) + self.first
                return at + len(name)
        raise NotParsed(at)


@dataclass(frozen=True, slots=True)
class DayPeriod:
    """The part of the day. It is for output only: an hour cannot be read from it."""

    def write(self, moment: Moment) -> str:
        minutes = _time(60 * NANOS, 1440)(moment, values.HOUR)
        if minutes in (0, 720):
            return "midnight" if minutes == 0 else "noon"
        hour = minutes // 60
        if 6 <= hour < 12:
            return "in the morning"
        if 12 <= hour < 18:
            return "in the afternoon"
        return "in the evening" if 18 <= hour < 21 else "at night"

    def read(self, text: str, at: int, fields: Fields) -> int:
        raise ValueError("pattern letter B: not supported when a text is read; use a")


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset from UTC: `style` is one of +HHmm, +HHMM, +HH:MM, +HHMMss and +HH:MM:ss; `zero` is the text of 0."""

    style: str
    zero: str

    def write(self, moment: Moment) -> str:
        if moment.offset_s is None:
            raise Unsupported("Unsupported field: OffsetSeconds")
        if moment.offset_s == 0:
            return self.zero
        total = abs(moment.offset_s)
        hours, minutes, seconds = total // 3600, total // 60 % 60, total % 60
        colon = ":" if ":" in self.style else ""
        text = f"{'-' if moment.offset_s < 0 else '+'}{hours:02}"
        if minutes or "m" not in self.style:
            text += f"{colon}{minutes:02}"
        if seconds and "s" in self.style:
            text += f"{colon}{seconds:02}"
        return text

    def read(self, text: str, at: int, fields: Fields) -> int:
        if self.zero and text[at : at + len(self.zero)].lower() == self.zero.lower():
            fields.offset_s = 0
            return at + len(self.zero)
        if text[at : at + 1] not in ("+", "-") or at >= len(text):
            raise NotParsed(at)
        hours = _two(text, at + 1)
        if hours is None:
            raise NotParsed(at)
        end, parts = at + 3, [hours, 0, 0]
        colon = ":" if ":" in self.style else ""
        for index, optional in ((1, "m" in self.style), (2, True)):
            if index == 2 and "s" not in self.style:
                break
            found = _two(text, end + len(colon)) if text.startswith(colon, end) else None
            if found is None or found > 59:
                if optional:
                    break
                raise NotParsed(at)
            parts[index] = found
            end += 2 + len(colon)
        total = parts[0] * 3600 + parts[1] * 60 + parts[2]
        if total > 18 * 3600:
            raise NotParsed(at)
        fields.offset_s = -total if text[at] == "-" else total
        return end


def _two(text: str, at: int) -> int | None:
    digits = text[at : at + 2]
    return int(digits) if len(digits) == 2 and digits.isascii() and digits.isdecimal() else None


@dataclass(frozen=True, slots=True)
class LocalOffset:
    """GMT+8, or in full GMT+08:00."""

    full: bool

    def write(self, moment: Moment) -> str:
        if moment.offset_s is None:
            raise Unsupported("Unsupported field: OffsetSeconds")
        if moment.offset_s == 0:
            return "GMT"
        total = abs(moment.offset_s)
        hours, minutes, seconds = total // 3600, total // 60 % 60, total % 60
        text = f"GMT{'-' if moment.offset_s < 0 else '+'}" + (f"{hours:02}:{minutes:02}" if self.full else str(hours))
        if minutes and not self.full:
            text += f":{minutes:02}"
        return text + (f":{seconds:02}" if seconds else "")

    def read(self, text: str, at: int, fields: Fields) -> int:
        if text[at : at + 3].upper() != "GMT":
            raise NotParsed(at)
        found = (_FULL_OFFSET if self.full else _SHORT_OFFSET).match(text, at + 3)
        if found is None:
            if text[at + 3 : at + 4] in ("+", "-") and at + 3 < len(text):
                raise NotParsed(at + 3)
            fields.offset_s = 0
            return at + 3
        sign, hours, minutes, seconds = found.groups()
        total = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        if total > 18 * 3600:
            raise NotParsed(at)
        fields.offset_s = -total if sign == "-" else total
        return found.end()


def _offset_end(text: str, at: int) -> int | None:
    """Return the place behind an offset of a zone's identifier, such as +02:00; None if there is none."""
    found = _FULL_OFFSET.match(text, at)
    if found is None or int(found[2]) * 60 + int(found[3]) > 18 * 60:
        return None
    return found.end()


@dataclass(frozen=True, slots=True)
class ZoneId:
    """A zone by its identifier (`style` id), or by its name: short, full, generic short and generic full."""

    style: str

    def write(self, moment: Moment) -> str:
        if moment.zone is None or moment.days is None or moment.nanos is None:
            raise Unsupported("Unable to extract ZoneId from temporal")
        instant_s = moment.days * 86_400 + moment.nanos // NANOS - (moment.offset_s or 0)
        if self.style == "id":
            return moment.zone.name
        if self.style == "short":
            return moment.zone.short_name(instant_s)
        if self.style == "full":
            if moment.zone.name == "UTC":
                return "Coordinated Universal Time"
            return "Greenwich Mean Time" if moment.zone.name == "GMT" else moment.zone.full_name(instant_s)
        return moment.zone.generic_name(instant_s, self.style == "generic full")

    def read(self, text: str, at: int, fields: Fields) -> int:
        offset = _offset_end(text, at)
        if offset is not None:
            fields.zone = zone_of(text[at:offset])
            return offset
        prefix = _PREFIX.match(text, at)
        after = _offset_end(text, prefix.end()) if prefix else None
        if prefix is not None and after is not None:
            fields.zone = zone_of(text[at:after].upper())
            return after
        end = at
        while end < len(text) and (text[end].isalnum() or text[end] in "_/+-"):
            end += 1
        while end > at:
            zone = self._known(text[at:end])
            if zone is not None:
                fields.zone = zone
                return end
            end -= 1
        raise NotParsed(at)

    def _known(self, name: str) -> Zone | None:
        upper = name.upper()
        if upper in ("Z", "UTC", "GMT", "UT"):
            return zone_of(upper)
        if self.style != "id" and upper in SHORT_NAMES:
            return zone_of(SHORT_NAMES[upper])
        region = region_names().get(name.lower())
        try:
            return None if region is None else zone_of(region)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Padded:
    """An element filled with spaces from the left to a width."""

    element: Element
    width: int

    def write(self, moment: Moment) -> str:
        text = self.element.write(moment)
        if len(text) > self.width:
            raise ValueError(f"Cannot print as output of {len(text)} characters exceeds pad width of {self.width}")
        return text.rjust(self.width)

    def read(self, text: str, at: int, fields: Fields) -> int:
        end = at + self.width
        if end > len(text):
            raise NotParsed(at)
        start = at
        while start < end and text[start] == " ":
            start += 1
        found = self.element.read(text[:end], start, fields)
        if found != end:
            raise NotParsed(at)
        return end


@dataclass(frozen=True, slots=True)
class Optional:
    """Elements in [ ]: nothing is written if a field is not there, nothing is read if they do not fit."""

    elements: tuple[Element, ...]

    def write(self, moment: Moment) -> str:
        try:
            return "".join(each.write(moment) for each in self.elements)
        except Unsupported:
            return ""

    def read(self, text: str, at: int, fields: Fields) -> int:
        tried, end = fields.copy(), at
        try:
            for each in self.elements:
                end = each.read(text, end, tried)
        except NotParsed:
            return at
        fields.numbers, fields.zone, fields.offset_s = tried.numbers, tried.zone, tried.offset_s
        return end


SHORT_MONTHS: Final = tuple(each[:3] for each in MONTHS)
SHORT_DAYS: Final = tuple(each[:3] for each in WEEKDAYS)
