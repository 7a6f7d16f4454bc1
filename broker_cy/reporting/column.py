"""A column of a table, defined once for all programs. Each program draws it: text in the commands, Textual, HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from broker_cy.reporting.numbers import UNKNOWN, count, duration, micros, short, size, when
from broker_cy.reporting.tone import Tone

R = TypeVar("R", contravariant=True)
S = TypeVar("S")
T = TypeVar("T")


class Kind(Enum):
    """The kind of a column's values, which decides their text and their alignment."""

    TEXT = "text"
    NUMBER = "number"  # an id or an epoch: digits without separators
    COUNT = "count"
    BYTES = "bytes"
    RATE = "count/s"
    DURATION = "ms"
    LATENCY = "us"
    TIME = "ms since 1970"
    IDS = "broker ids"


def ids_text(ids: Iterable[int]) -> str:
    """1,2,3; `none` without ids."""
    return ",".join(map(str, ids)) or "none"


_TEXTS: Final[dict[Kind, Callable[[Any], str]]] = {
    Kind.TEXT: str,
    Kind.NUMBER: str,
    Kind.COUNT: count,
    Kind.BYTES: size,
    Kind.RATE: short,
    Kind.DURATION: duration,
    Kind.LATENCY: micros,
    Kind.TIME: when,
    Kind.IDS: ids_text,
}
_LEFT: Final = frozenset({Kind.TEXT, Kind.TIME, Kind.IDS})


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column. `value` returns the value of a row, None if it is unknown.

    `text` replaces the text of the kind. `sort` replaces the value as the sort key; rows are sorted by no column whose
    `sorts` is false. `width` is a hint in characters. Texts may be foreign: the program that draws them cleans them.
    """

    key: str
    title: str
    value: Callable[[R], Any]
    kind: Kind = Kind.TEXT
    text: Callable[[R], str] | None = None
    tone: Callable[[R], Tone] | None = None
    sort: Callable[[R], Any] | None = None
    sorts: bool = True
    hint: str = ""
    width: int = 10

    @property
    def is_right(self) -> bool:
        return self.kind not in _LEFT

    @property
    def order(self) -> Callable[[R], Any] | None:
        """Return the function of the sort key; None if rows are not sorted by this column."""
        return (self.sort or self.value) if self.sorts else None

    def shown(self, row: R) -> str:
        """Return the text of a row."""
        if self.text is not None:
            return self.text(row)
        value = self.value(row)
        return UNKNOWN if value is None else _TEXTS[self.kind](value)

    def tone_of(self, row: R) -> Tone:
        return Tone.PLAIN if self.tone is None else self.tone(row)

    def of(self, part: Callable[[S], R | None]) -> Column[S]:
        """Return this column for rows that contain one of its rows. Unknown if `part` returns None."""

        def through(function: Callable[[R], T], unknown: T) -> Callable[[S], T]:
            def of_part(row: S) -> T:
                found = part(row)
                return unknown if found is None else function(found)

            return of_part

        return self.by(
            through(self.value, None),
            text=None if self.text is None else through(self.text, UNKNOWN),
            tone=None if self.tone is None else through(self.tone, Tone.PLAIN),
            sort=None if self.sort is None else through(self.sort, None),
        )

    def by(
        self,
        value: Callable[[S], Any],
        *,
        text: Callable[[S], str] | None = None,
        tone: Callable[[S], Tone] | None = None,
        sort: Callable[[S], Any] | None = None,
    ) -> Column[S]:
        """Return a column of the same title, kind and width for other rows."""
        return Column(self.key, self.title, value, self.kind, text, tone, sort, self.sorts, self.hint, self.width)
