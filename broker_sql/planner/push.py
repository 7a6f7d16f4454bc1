"""Push queries: rows to a client instead of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from broker_sql.analysis.names import WINDOW_BOUNDS
from broker_sql.analysis.query import Analysis
from broker_sql.analysis.trees import bare
from broker_sql.planner.stage import Row, Stage
from broker_sql.types import Column, Kind, Schema
from broker_streams.records import Windowed


def schema_of(analysis: Analysis) -> Schema:
    """The columns of the answer, in the order of SELECT."""
    return Schema(
        tuple(Column(each.name, each.type, Kind.KEY if each.is_key else Kind.VALUE) for each in analysis.items)
    )


def emitted(stage: Stage, analysis: Analysis, on_row: Callable[[Row, bool], object]) -> None:
    """Call `on_row(row, is_deleted)` for each row; a deleted row of a table has its key and window, and else None."""
    key_names = [each.name for each in analysis.key]
    places: list[Callable[[Row, Any, Row], Any]] = []
    values = 0
    for each in analysis.items:
        if each.is_key:
            places.append(_part(0, key_names.index(each.name)))
            continue
        bound = bare(each.expression)
        if stage.window is not None and isinstance(bound, exp.Column) and bound.name in WINDOW_BOUNDS:
            places.append(_part(1, WINDOW_BOUNDS.index(bound.name)))
        else:
            places.append(_part(2, values))
        values += 1
    no_key, no_window, no_values = (None,) * len(key_names), (None, None), (None,) * values
    is_table = stage.is_table

    def show(key: Any, row: Row | None) -> None:
        if row is None and not is_table:
            return
        window: Any = no_window
        if isinstance(key, Windowed):
            key, window = key
        parts = (no_key if key is None else key, window, no_values if row is None else row)
        on_row(tuple([place(*parts) for place in places]), row is None)

    stream = stage.table.to_stream() if is_table else stage.stream
    stream.foreach(show)


def _part(part: int, at: int) -> Callable[[Row, Any, Row], Any]:
    """A function of key, window and values."""
    return lambda *parts: parts[part][at]
