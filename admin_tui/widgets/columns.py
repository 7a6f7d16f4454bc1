"""The columns of a Grid: their widths, and those of broker_cy/console/columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from rich.text import Text

from admin_tui.tones import STYLES
from broker_cy.reporting import column as reporting
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import when

R = TypeVar("R")
Cell = str | Text
# Cells between two columns.
GAP: Final = 2


@dataclass(frozen=True)
class Column(Generic[R]):
    """A column: `cell` formats its cell of a row, `sort` is the key that rows are sorted by (None: they cannot be).

    `width` is fixed, so that none moves; the `flex` columns share the remaining width. A right-aligned column has
    numbers, which are never cut: it becomes as wide as the widest cell that was shown. On a narrow screen columns are
    left out, those with the highest `drop` first (0: never). Shift and `letter` sort by this column.
    """

    label: str
    cell: Callable[[R], Cell]
    width: int
    sort: Callable[[R], Any] | None = None
    align: Literal["left", "right"] = "left"
    flex: bool = False
    drop: int = 0
    letter: str = ""


def time_columns(time_ms: Callable[[R], int], is_utc: Callable[[], bool]) -> list[Column[R]]:
    """Date and time to the millisecond; a narrow screen has no date."""

    def part(at: int) -> Callable[[R], str]:
        def cell(row: R) -> str:
            parts = when(time_ms(row), utc=is_utc()).split(" ")
            return parts[at] if at < len(parts) else "-"

        return cell

    return [Column("Date", part(0), 10, drop=9), Column("Time", part(1), 13)]


def grid_column(
    column: reporting.Column[R],
    width: int = 0,
    *,
    flex: bool = False,
    drop: int = 0,
    letter: str = "",
    time: Callable[[int], str] | None = None,
) -> Column[R]:
    """Return the column of a Grid. Without `width`, it is as wide as the column's hint. `time` is the text of times, in
    place of date and time.
    """

    def text(row: R) -> str:
        value = None if time is None else column.value(row)
        return column.shown(row) if time is None or value is None else time(value)

    def plain(row: R) -> Cell:
        return clean(text(row))

    def toned(row: R) -> Cell:
        return Text(clean(text(row)), STYLES[column.tone_of(row)])

    return Column(
        column.title,
        plain if column.tone is None else toned,
        width or column.width,
        column.order,
        "right" if column.is_right else "left",
        flex,
        drop,
        letter,
    )


def lay_out(columns: Sequence[Column[R]], widest: Mapping[str, int], width: int) -> list[tuple[Column[R], int]]:
    """Return the columns that fit into `width` cells, with their widths. `widest` are numbers that need more, by label.

    Columns with the highest `drop` are left out first.
    """
    shown = list(columns)

    def wide(column: Column[R]) -> int:
        return max(column.width, widest.get(column.label, 0))

    while len(shown) > 1 and sum(wide(column) + GAP for column in shown) - GAP > width:
        droppable = [column for column in shown if column.drop]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda column: column.drop))
    left = max(0, width - sum(wide(column) + GAP for column in shown) + GAP)
    flexible = [column for column in shown if column.flex]
    found = []
    for column in shown:
        extra = 0
        if column.flex:
            extra = left // len(flexible) + (left % len(flexible) if column is flexible[0] else 0)
        found.append((column, wide(column) + extra))
    return found
