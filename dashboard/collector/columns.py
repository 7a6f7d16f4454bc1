"""Columns of broker_cy/console/columns in a table of the dashboard."""

from __future__ import annotations

from typing import TypeVar

from broker_cy.reporting import column as reporting
from broker_cy.reporting.column import Kind
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell, Column

R = TypeVar("R")


def table_column(column: reporting.Column[R], width: int = 120, *, is_flex: bool = False, hint: str = "") -> Column[R]:
    """Return the column of a table. `width` is in pixels; `hint` replaces the column's own."""
    is_time = column.kind is Kind.TIME

    def text(row: R) -> str | Cell:
        value = column.value(row) if is_time else None
        found = clean(column.shown(row)) if value is None else f"@{value}"
        tone = column.tone_of(row)
        return found if tone is Tone.PLAIN else Cell(found, tone)

    return Column(
        column.key, column.title, text, column.order, column.is_right, width, hint or column.hint, is_flex, is_time
    )
