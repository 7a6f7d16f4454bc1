"""The literals of InsertHeader: org.apache.kafka.connect.data.Values of Kafka, its parseString and convertToString.

A literal is a string unless it begins as something else. The tokens of the text are its delimiters `[]{},:"`, if no
backslash is before them, and the texts between them. Outside of arrays and maps only the first value counts, so `10,20`
is the number 10, as in Kafka. Dates and times are those of UTC; in Kafka they are those of the JVM's time zone.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from broker_cy.core.java_numbers import double_text

_TOKEN: Final = re.compile(r'(?:\\.|[^\\:,{}\[\]"]|\\\Z)+|[:,{}\[\]"]', re.DOTALL)
# Those of ASCII; Java's trim removes all characters up to the blank.
_WHITESPACE: Final = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "
_TRIMMED: Final = "".join(map(chr, range(33)))
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_INT32_MAX: Final = (1 << 31) - 1
# The kinds of numbers from the narrowest one on: an array has one kind.
_RANKS: Final = ("INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64")
_INTEGER_BITS: Final = (("INT8", 8), ("INT16", 16), ("INT32", 32), ("INT64", 64))
# Numeric fields may be of any length, and what follows the last field is ignored, as in Java's SimpleDateFormat.
_DATE: Final = r"[ \t]*(\d+)-[ \t]*(\d+)-[ \t]*(\d+)"
_TIME: Final = r"[ \t]*(\d+):[ \t]*(\d+):[ \t]*(\d+)\.[ \t]*(\d+)Z"
_TEMPORAL: Final = {
    10: ("INT32", "Date", re.compile(_DATE)),
    13: ("INT32", "Time", re.compile(_TIME)),
    24: ("INT64", "Timestamp", re.compile(f"{_DATE}T{_TIME}")),
}
_DAY_MS: Final = 86_400_000
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_EPOCH: Final = date(1970, 1, 1).toordinal()


class Literal(NamedTuple):
    """A value. `kind` is the type of its schema in Kafka, `logical` is Decimal, Date, Time or Timestamp, or "". `value`
    is an int, a float, a str, a bool, a Decimal, milliseconds, a tuple of values, or for maps a tuple of pairs of them;
    None is null.
    """

    kind: str
    value: Any
    logical: str = ""

    def text(self, *, embedded: bool = False) -> str:
        """Return the text as convertToString does; `embedded`: inside of an array or a map."""
        value = self.value
        match self.kind:
            case "STRING":
                return '"{}"'.format(value.replace("\\", "\\\\").replace('"', '\\"')) if embedded else str(value)
            case "BOOLEAN":
                return "true" if value else "false"
            case "ARRAY":
                return f"[{','.join(map(_embedded, value))}]"
            case "MAP":
                return "{" + ",".join(f"{_embedded(key)}:{_embedded(of_key)}" for key, of_key in value) + "}"
        if self.logical in ("Date", "Time", "Timestamp"):
            return _temporal_text(value)
        if self.kind == "FLOAT32":
            return _float_text(value)
        return double_text(value) if self.kind == "FLOAT64" else str(value)


def _embedded(value: Literal | None) -> str:
    return "null" if value is None else value.text(embedded=True)


def parsed(text: str) -> Literal | None:
    """Return the value of a literal; None for null."""
    return Literal("STRING", "") if not text else _Parser(text).value()


class _NotParsed(ValueError):
    """The text is no array or map, so it is a string."""


class _Parser:
    """Reads one literal."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    @property
    def _has_next(self) -> bool:
        return self._at < len(self._tokens)

    def _next(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _takes(self, expected: str) -> bool:
        """Go behind the next token if it is this one. Blank tokens before it are passed in any case."""
        while self._at + 1 < len(self._tokens) and not self._tokens[self._at].strip(_WHITESPACE):
            self._at += 1
        if self._has_next and self._tokens[self._at].strip(_TRIMMED) == expected:
            self._at += 1
            return True
        return False

    def _takes_word(self, word: str, *, embedded: bool) -> bool:
        begin = self._at
        if self._takes(word) and (embedded or not self._has_next):
            return True
        self._at = begin
        return False

    def value(self, *, embedded: bool = False) -> Literal | None:
        """Read the next value. Raises _NotParsed inside of arrays and maps."""
        if not self._has_next:
            return None
        if embedded and self._takes('"'):
            return self._quoted()
        if self._takes_word("null", embedded=embedded):
            return None
        for word in ("true", "false"):
            if self._takes_word(word, embedded=embedded):
                return Literal("BOOLEAN", word == "true")
        begin = self._at
        try:
            if self._takes("["):
                return self._array()
            if self._takes("{"):
                return self._map()
        except _NotParsed:
            self._at = begin
        token = self._next()
        if not token.strip(_WHITESPACE):
            return Literal("STRING", token)
        return self._plain(token.strip(_TRIMMED), embedded=embedded)

    def _plain(self, token: str, *, embedded: bool) -> Literal:
        found = None
        if token[0].isdigit():
            # The colons of a time are tokens.
            rest = self._tokens[self._at : self._at + 4]
            if len(rest) == 4 and (found := _temporal(token + "".join(rest))) is not None:
                self._at += 4
                return found
            found = _temporal(token)
        if found is None and (token[0].isdigit() or token[0] in "+-"):
            found = _number(token)
        if found is not None:
            return found
        if embedded:
            raise _NotParsed
        return Literal("STRING", self._text)

    def _quoted(self) -> Literal:
        parts = []
        while self._has_next and not self._takes('"'):
            parts.append(self._next())
        content = "".join(parts)
        return _temporal(content) or Literal("STRING", content)

    def _array(self) -> Literal:
        found: list[Literal | None] = []
        while self._has_next:
            if self._takes("]"):
                return Literal("ARRAY", tuple(_aligned(found)))
            if self._takes(","):
                raise _NotParsed
            found.append(self.value(embedded=True))
            begin = self._at
            if self._takes("]"):
                self._at = begin
            elif not self._takes(","):
                raise _NotParsed
        raise _NotParsed

    def _map(self) -> Literal:
        found: dict[Literal, Literal | None] = {}
        keys: list[Literal | None] = []
        values: list[Literal | None] = []
        while self._has_next:
            if self._takes("}"):
                return _map_of(found, keys, values)
            if self._takes(","):
                raise _NotParsed
            key = self.value(embedded=True)
            if key is None or not self._takes(":"):
                raise _NotParsed
            found[key] = self.value(embedded=True)
            keys.append(key)
            values.append(found[key])
            self._takes(",")
        raise _NotParsed


def _map_of(found: dict[Literal, Literal | None], keys: list[Literal | None], values: list[Literal | None]) -> Literal:
    """Return a map, whose keys get their common kind; its values only if the keys have one, too."""
    of_keys, of_values = _common(keys), _common(values)
    if of_keys is not None:
        found = {
            _converted(key, *of_keys): value if of_values is None else _converted(value, *of_values)
            for key, value in found.items()
        }
    return Literal("MAP", tuple(found.items()))


def _aligned(values: list[Literal | None]) -> list[Literal | None]:
    """Return the elements of an array in their common kind; without one, as they are."""
    common = _common(values)
    return values if common is None else [_converted(each, *common) for each in values]


def _common(values: Iterable[Literal | None]) -> tuple[str, str] | None:
    """Return the kind of all values, numbers in the widest one of them; None without one."""
    common: tuple[str, str] | None = None
    for each in values:
        if each is None:
            continue
        found = each.kind, each.logical
        if common is None or common[0] == found[0]:
            common = found
        elif common[0] in _RANKS and found[0] in _RANKS:
            common = max(common, found, key=lambda kind: _RANKS.index(kind[0]))
        else:
            return None
    return common


def _converted(value: Literal | None, kind: str, logical: str) -> Literal:
    """Return a value in the kind of its array or map. Raises _NotParsed if Kafka does not convert it."""
    if value is None:
        # A common kind has no null.
        raise _NotParsed
    if kind in ("ARRAY", "MAP", "STRING", "BOOLEAN", "BYTES"):
        return value
    if value.logical:
        if not logical:
            raise _NotParsed
        return Literal(kind, value.value, logical)
    if logical:
        # A number among dates is one of days, and among times one of milliseconds.
        if logical == "Time" and not 0 <= value.value < _DAY_MS:
            raise _NotParsed
        return Literal(kind, value.value * (_DAY_MS if logical == "Date" else 1), logical)
    if kind == "FLOAT32":
        return Literal(kind, _float32(value.value))
    return Literal(kind, float(value.value) if kind == "FLOAT64" else value.value)


# --- numbers


def _number(token: str) -> Literal | None:
    """Return the narrowest kind of an integer, else a float, a double or a decimal number; None without a number."""
    found = _NUMBER.fullmatch(token)
    if found is None or (found[1] is not None and (len(found[1]) > 11 or abs(int(found[1])) > _INT32_MAX)):
        return None
    decimal = Decimal(token)
    exponent = decimal.as_tuple().exponent
    if not isinstance(exponent, int) or not -_INT32_MAX <= exponent <= _INT32_MAX + 1:
        return None
    size = decimal.copy_abs()
    if not (size > Decimal("1e19") or 0 < size < 1) and decimal == (whole := int(decimal)):
        for kind, bits in _INTEGER_BITS:
            if -(1 << bits - 1) <= whole < 1 << bits - 1:
                return Literal(kind, whole)
    double = float(decimal)
    if exponent and abs(_float32(double)) != float("inf"):
        return Literal("FLOAT32", _float32(double))
    if exponent and abs(double) != float("inf"):
        return Literal("FLOAT64", double)
    return Literal("BYTES", decimal, "Decimal")


def _float32(value: float) -> float:
    """Return the nearest number of 32 bits."""
    try:
        return float(struct.unpack(">f", struct.pack(">f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _float_text(value: float) -> str:
    """Java's Float.toString: the shortest digits, at least two, that read back as the same number of 32 bits."""
    for digits in range(1, 9):
        shortest = float(f"{value:.{digits}e}")
        if _float32(shortest) == value:
            return double_text(shortest)
    return double_text(value)


# --- dates and times


def _temporal(token: str) -> Literal | None:
    """Return a date, a time or both; None for another text. Fields beyond their range count on: 2019-02-30 is in
    March.
    """
    token = token.replace("\\:", ":")
    if (shape := _TEMPORAL.get(len(token))) is None or (found := shape[2].match(token)) is None:
        return None
    fields = [int(each) for each in found.groups()]
    days = 0
    if shape[1] != "Time":
        year, month, day = fields[:3]
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        cycles = (year - 1970) // _CYCLE_YEARS
        days = date(year - cycles * _CYCLE_YEARS, month, 1).toordinal() - _EPOCH + cycles * _CYCLE_DAYS + day - 1
        fields = fields[3:]
    hours, minutes, seconds, millis = fields or (0, 0, 0, 0)
    at_ms = days * _DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis
    return Literal(shape[0], at_ms, shape[1])


def _temporal_text(at_ms: int) -> str:
    """Return the text of a date or time, whose form follows from its value: before the second day of 1970 a time, at
    midnight a date.
    """
    days, rest = divmod(at_ms, _DAY_MS)
    seconds, millis = divmod(rest, 1000)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03}Z"
    if at_ms < _DAY_MS:
        return time
    cycles, days = divmod(days, _CYCLE_DAYS)
    found = date.fromordinal(_EPOCH + days)
    text = f"{found.year + cycles * _CYCLE_YEARS:04}-{found.month:02}-{found.day:02}"
    return text if rest == 0 else f"{text}T{time}"
