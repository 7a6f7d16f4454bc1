"""Push queries: rows to a client instead of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_sql.analysis.query import Analysis
from broker_sql.planner.stage import Row, Stage
from broker_sql.types import Column, Kind, Schema
from broker_streams.records import Windowed


def schema_of(analysis: Analysis) -> Schema:
    """The columns of the answer, in the order of SELECT."""
    return Schema(
        tuple(Column(each.name, each.type, Kind.KEY if each.is_key else Kind.VALUE) for each in analysis.items)
    )


def emitted(stage: Stage, analysis: Analysis, on_row: Callable[[Row, bool], object]) -> None:
    """Call `on_row(row, is_deleted)` for each row; a deleted row of a table has its key columns, and else None."""
    key_names = [each.name for each in analysis.key]
    places: list[tuple[bool, int]] = []
    values = 0
    for each in analysis.items:
        if each.is_key:
            places.append((True, key_names.index(each.name)))
        else:
            places.append((False, values))
            values += 1
    is_table = stage.is_table

    def show(key: Any, row: Row | None) -> None:
        if isinstance(key, Windowed):
            key = key.key
        if row is None:
            if is_table:
                on_row(tuple(key[at] if is_key and key is not None else None for is_key, at in places), True)
            return
        on_row(tuple((key[at] if key is not None else None) if is_key else row[at] for is_key, at in places), False)

    stream = stage.table.to_stream() if is_table else stage.stream
    stream.foreach(show)
