"""The text of a pattern as elements (DateTimeFormatterBuilder.appendPattern)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from broker_sql.functions.java_time import values
from broker_sql.functions.java_time.calendar import MONTHS, WEEKDAYS
from broker_sql.functions.java_time.elements import (
    EXCEEDS_PAD,
    NORMAL,
    NOT_NEGATIVE,
    SHORT_DAYS,
    SHORT_MONTHS,
    DayPeriod,
    Element,
    Fraction,
    Literal,
    LocalOffset,
    Names,
    Number,
    Offset,
    Optional,
    Padded,
    Reduced,
    ZoneId,
)

_NARROW_MONTHS: Final = tuple(each[0] for each in MONTHS)
_NARROW_DAYS: Final = tuple(each[0] for each in WEEKDAYS)


def _too_many(letter: str) -> ValueError:
    return ValueError(f"Too many pattern letters: {letter}")


def _year(field: str) -> Callable[[str, int], Element]:
    def build(letter: str, count: int) -> Element:
        if count == 2:
            return Reduced(field)
        if count > 19:
            raise _too_many(letter)
        return Number(field, count, sign=NORMAL if count < 4 else EXCEEDS_PAD)

    return build


def _number(field: str) -> Callable[[str, int], Element]:
    def build(letter: str, count: int) -> Element:
        if count > 2:
            raise _too_many(letter)
        return Number(field, 1) if count == 1 else Number(field, 2, 2, NOT_NEGATIVE)

    return build


def _long_number(field: str) -> Callable[[str, int], Element]:
    def build(letter: str, count: int) -> Element:
        if count > 19:
            raise _too_many(letter)
        return Number(field, count, 19, NOT_NEGATIVE)

    return build


def _text(field: str, texts: tuple[tuple[str, ...], ...], numeric: int) -> Callable[[str, int], Element]:
    """Letters up to `numeric` mean a number, then short, full and narrow names follow."""

    def build(letter: str, count: int) -> Element:
        if count <= numeric:
            return Number(field, 1) if count == 1 else Number(field, 2, 2, NOT_NEGATIVE)
        if count > 5:
            raise _too_many(letter)
        return Names(field, texts[max(count, 3) - 3])

    return build


def _local_weekday(letter: str, count: int) -> Element:
    if count <= 2:
        if letter == "c" and count == 2:
            raise ValueError(f'Invalid pattern "{letter * count}"')
        return Number(values.LOCAL_WEEKDAY, count, 2 if count == 1 else count, NOT_NEGATIVE)
    return _weekday(letter, count)


_weekday = _text(values.WEEKDAY, (SHORT_DAYS, WEEKDAYS, _NARROW_DAYS), 0)


def _era(letter: str, count: int) -> Element:
    if count > 5:
        raise _too_many(letter)
    names = {4: ("Before Christ", "Anno Domini"), 5: ("B", "A")}.get(count, ("BC", "AD"))
    return Names(values.ERA, names, 0)


def _day_of_year(letter: str, count: int) -> Element:
    if count > 3:
        raise _too_many(letter)
    return Number(values.DAY_OF_YEAR, 1) if count == 1 else Number(values.DAY_OF_YEAR, count, 3, NOT_NEGATIVE)


def _once(element: Element) -> Callable[[str, int], Element]:
    def build(letter: str, count: int) -> Element:
        if count > 1:
            raise _too_many(letter)
        return element

    return build


def _fraction(letter: str, count: int) -> Element:
    if count > 9:
        raise _too_many(letter)
    return Fraction(count)


def _period(letter: str, count: int) -> Element:
    if count not in (1, 4, 5):
        raise ValueError(f"Wrong number of pattern letters: {letter}")
    return DayPeriod()


_STYLES: Final = ("+HHmm", "+HHMM", "+HH:MM", "+HHMMss", "+HH:MM:ss")


def _offset(letter: str, count: int) -> Element:
    if count > 5:
        raise _too_many(letter)
    if letter == "X":
        return Offset(_STYLES[count - 1], "Z")
    if letter == "x":
        return Offset(_STYLES[count - 1], ("+00", "+0000", "+00:00", "+0000", "+00:00")[count - 1])
    if count == 4:
        return LocalOffset(full=True)
    return Offset("+HH:MM:ss", "Z") if count == 5 else Offset("+HHMM", "+0000")


def _local_offset(letter: str, count: int) -> Element:
    if count not in (1, 4):
        raise ValueError(f"Pattern letter count must be 1 or 4: {letter}")
    return LocalOffset(full=count == 4)


def _zone_id(letter: str, count: int) -> Element:
    if count != 2:
        raise ValueError(f"Pattern letter count must be 2: {letter}")
    return ZoneId("id")


def _zone_name(letter: str, count: int) -> Element:
    if letter == "v":
        if count not in (1, 4):
            raise ValueError(f"Wrong number of pattern letters: {letter}")
        return ZoneId("generic full" if count == 4 else "generic short")
    if count > 4:
        raise _too_many(letter)
    return ZoneId("full" if count == 4 else "short")


_QUARTERS: Final = (
    ("Q1", "Q2", "Q3", "Q4"),
    ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter"),
    ("1", "2", "3", "4"),
)
_MONTH_NAMES: Final = (SHORT_MONTHS, MONTHS, _NARROW_MONTHS)
_LETTERS: Final[dict[str, Callable[[str, int], Element]]] = {
    "G": _era,
    "u": _year(values.YEAR),
    "y": _year(values.YEAR_OF_ERA),
    "Y": _year(values.WEEK_YEAR),
    "M": _text(values.MONTH, _MONTH_NAMES, 2),
    "L": _text(values.MONTH, _MONTH_NAMES, 2),
    "Q": _text(values.QUARTER, _QUARTERS, 2),
    "q": _text(values.QUARTER, _QUARTERS, 2),
    "w": _number(values.WEEK),
    "W": _once(Number(values.WEEK_OF_MONTH, 1)),
    "d": _number(values.DAY),
    "D": _day_of_year,
    "F": _once(Number(values.WEEKDAY_IN_MONTH, 1)),
    "g": _long_number(values.JULIAN),
    "E": _weekday,
    "e": _local_weekday,
    "c": _local_weekday,
    "a": _once(Names(values.AMPM, ("AM", "PM"), 0)),
    "B": _period,
    "h": _number(values.CLOCK_HOUR_OF_AMPM),
    "K": _number(values.HOUR_OF_AMPM),
    "k": _number(values.CLOCK_HOUR),
    "H": _number(values.HOUR),
    "m": _number(values.MINUTE),
    "s": _number(values.SECOND),
    "S": _fraction,
    "A": _long_number(values.MILLI_OF_DAY),
    "n": _long_number(values.NANO),
    "N": _long_number(values.NANO_OF_DAY),
    "V": _zone_id,
    "v": _zone_name,
    "z": _zone_name,
    "O": _local_offset,
    "X": _offset,
    "x": _offset,
    "Z": _offset,
}


def elements(pattern: str) -> tuple[Element, ...]:
    """Return the elements of a pattern. Raises ValueError with Java's reasons."""
    stack: list[list[Element]] = [[]]
    at = 0
    pad = 0
    while at < len(pattern):
        char = pattern[at]
        if char.isascii() and char.isalpha():
            count = len(pattern) - at - len(pattern[at:].lstrip(char))
            at += count
            if char == "p":
                if at >= len(pattern) or not (pattern[at].isascii() and pattern[at].isalpha()):
                    raise ValueError(f"Pad letter 'p' must be followed by valid pad pattern: {pattern}")
                pad = count
                continue
            builder = _LETTERS.get(char)
            if builder is None:
                raise ValueError(f"Unknown pattern letter: {char}")
            made = builder(char, count)
            stack[-1].append(Padded(made, pad) if pad else made)
            pad = 0
        elif char == "'":
            text, at = _quoted(pattern, at)
            stack[-1].append(Literal(text))
        elif char == "[":
            stack.append([])
            at += 1
        elif char == "]":
            if len(stack) == 1:
                raise ValueError("Pattern invalid as it contains ] without previous [")
            closed = Optional(_adjacent(stack.pop()))
            stack[-1].append(closed)
            at += 1
        elif char in "{}#":
            raise ValueError(f"Pattern includes reserved character: '{char}'")
        else:
            stack[-1].append(Literal(char))
            at += 1
    while len(stack) > 1:
        closed = Optional(_adjacent(stack.pop()))
        stack[-1].append(closed)
    return _adjacent(stack[0])


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    """Return the text of a quoted part, where '' is one quote, and the place behind."""
    end = at + 1
    while end < len(pattern):
        if pattern[end] == "'":
            if pattern[end + 1 : end + 2] != "'":
                break
            end += 1
        end += 1
    if end >= len(pattern):
        raise ValueError(f"Pattern ends with an incomplete string literal: {pattern}")
    text = pattern[at + 1 : end].replace("''", "'")
    return text or "'", end + 1


def _adjacent(found: list[Element]) -> tuple[Element, ...]:
    """Reserve, for a number of variable width, the digits of the numbers of fixed width right behind it."""
    for index, each in enumerate(found):
        if not isinstance(each, Number) or each.fixed:
            continue
        reserved = 0
        for behind in found[index + 1 :]:
            if isinstance(behind, Number) and behind.fixed:
                reserved += behind.most
            elif isinstance(behind, Reduced):
                reserved += 2
            elif isinstance(behind, Fraction):
                reserved += behind.width
            else:
                break
        if reserved:
            found[index] = replace(each, reserved=reserved)
    return tuple(found)
