"""Tables of rows by their columns on a terminal. Apart from tables.py: the console core imports no rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from rich.box import HEAVY_HEAD, Box
from rich.table import Table
from rich.text import Text

from broker_cy.reporting.column import Column
from broker_cy.reporting.foreign_text import clean, escaped
from broker_cy.reporting.tone import Tone

R = TypeVar("R")

_STYLES: Final = {
    Tone.MUTED: "dim",
    Tone.PLAIN: "",
    Tone.NOTED: "bold",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "red",
}


def plain_table(columns: Sequence[Column[R]], rows: Iterable[R]) -> Table:
    """Return a table without lines, for commands: texts are whole, and folded if the terminal is narrow."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            Text(escaped(column.title.upper())), justify="right" if column.is_right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(escaped(column.shown(row)), _STYLES[column.tone_of(row)]) for column in columns))
    return table


def rich_table(
    title: str,
    columns: Sequence[Column[R]],
    rows: Iterable[R],
    *,
    notes: Iterable[str] = (),
    box: Box = HEAVY_HEAD,
) -> Table:
    """Return a table; texts and lists of numbers are folded, single numbers are not. `notes` are lines below it."""
    cells = [[Text(clean(column.shown(row)), _STYLES[column.tone_of(row)]) for column in columns] for row in rows]
    padding = (0, 1) if box is HEAVY_HEAD else (0, 1, 0, 0)
    table = Table(title=Text(clean(title)), title_justify="left", box=box, padding=padding)
    for at, column in enumerate(columns):
        is_single = column.is_right and not any(" " in row[at].plain for row in cells)
        table.add_column(
            Text(clean(column.title)),
            justify="right" if column.is_right else "left",
            overflow="fold",
            no_wrap=is_single,
        )
    for row in cells:
        table.add_row(*row)
    if lines := list(notes):
        table.caption = Text("\n".join(map(clean, lines)))
    return table
