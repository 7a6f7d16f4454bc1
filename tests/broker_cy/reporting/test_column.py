"""A column shows the same text in every program."""

from __future__ import annotations

import pytest

from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN
from broker_cy.reporting.tone import Tone

LAG = Column[int | None]("lag", "Lag", lambda row: row, Kind.COUNT, tone=lambda row: Tone.WARN, hint="Offsets", width=8)


@pytest.mark.parametrize(
    ("kind", "value", "text", "is_right"),
    [
        (Kind.TEXT, "a", "a", False),
        (Kind.NUMBER, 12345, "12345", True),
        (Kind.COUNT, 12345, "12,345", True),
        (Kind.BYTES, 1536, "1.5 KiB", True),
        (Kind.RATE, 1234.0, "1.2k", True),
        (Kind.DURATION, 4200, "4.2 s", True),
        (Kind.LATENCY, 850, "850 µs", True),
        (Kind.IDS, (1, 2, 3), "1,2,3", False),
        (Kind.IDS, (), "none", False),
    ],
)
def test_the_kind_decides_text_and_alignment(kind: Kind, value: object, text: str, is_right: bool) -> None:
    """If this fails, the programs show one value in several ways."""
    column = Column[object]("key", "Title", lambda row: row, kind)
    assert (column.shown(value), column.is_right) == (text, is_right)
    assert column.shown(None) == UNKNOWN


def test_a_column_of_a_part_of_the_row_keeps_everything_else() -> None:
    """If this fails, a page loses the title, the colour or the order of a column."""
    column: Column[list[int]] = LAG.of(lambda row: row[0] if row else None)
    assert (column.title, column.hint, column.width, column.kind) == ("Lag", "Offsets", 8, Kind.COUNT)
    assert (column.shown([1234]), column.tone_of([1234])) == ("1,234", Tone.WARN)
    assert (column.shown([]), column.tone_of([])) == (UNKNOWN, Tone.PLAIN)
    assert column.order is not None
    assert (column.order([7]), column.order([])) == (7, None)


def test_a_column_by_another_value_keeps_its_title_and_kind() -> None:
    """If this fails, two programs name one figure differently."""
    column: Column[str] = LAG.by(len)
    assert (column.title, column.shown("abc"), column.tone_of("abc")) == ("Lag", "3", Tone.PLAIN)


def test_rows_are_sorted_by_no_column_that_does_not_sort() -> None:
    """If this fails, a click on a title sorts by a text that has no order."""
    assert Column[int]("key", "Title", lambda row: row, sorts=False).order is None
    reverse = Column[int]("key", "Title", lambda row: row, sort=lambda row: -row).order
    assert reverse is not None
    assert reverse(3) == -3
