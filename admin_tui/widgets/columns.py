"""Columns of broker_cy/console/columns in a Grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rich.text import Text

from admin_tui.tones import STYLES
from admin_tui.widgets import grid
from broker_cy.reporting.column import Column
from broker_cy.reporting.foreign_text import clean

R = TypeVar("R")


def grid_column(
    column: Column[R],
    width: int = 0,
    *,
    flex: bool = False,
    drop: int = 0,
    letter: str = "",
    time: Callable[[int], str] | None = None,
) -> grid.Column[R]:
    """Return the column of a Grid. Without `width`, it is as wide as the column's hint. `time` is the text of times, in
    place of date and time.
    """

    def text(row: R) -> str:
        value = None if time is None else column.value(row)
        return column.shown(row) if time is None or value is None else time(value)

    def plain(row: R) -> grid.Cell:
        return clean(text(row))

    def toned(row: R) -> grid.Cell:
        return Text(clean(text(row)), STYLES[column.tone_of(row)])

    return grid.Column(
        column.title,
        plain if column.tone is None else toned,
        width or column.width,
        column.order,
        "right" if column.is_right else "left",
        flex,
        drop,
        letter,
    )
