"""WHERE, table functions, PARTITION BY and the projection: clauses without state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from broker_sql.analysis.names import Layout
from broker_sql.analysis.projection import Item
from broker_sql.analysis.query import TableFunction
from broker_sql.analysis.settings import Settings
from broker_sql.analysis.trees import bare, columns
from broker_sql.analysis.typed import condition, row_maker, type_of
from broker_sql.catalog import Format
from broker_sql.planner import lineage
from broker_sql.planner.stage import Row, Stage, key_columns, no_key_if_null
from broker_sql.types import SqlType
from broker_streams.records import Windowed


def filtered(stage: Stage, node: exp.Expr, clause: str, name: str) -> Stage:
    """Rows for which the condition is true. A row of a table that is left out becomes a tombstone."""
    evaluate = condition(node, stage.layout, stage.context.settings, clause)

    def holds(key: Any, row: Row | None) -> bool:
        return row is not None and evaluate(row)

    found = stage.flow.filter(lineage.declare(holds, conditions=[node]), name=name)
    return stage.to(found)


def flat_mapped(stage: Stage, functions: Sequence[TableFunction], layout: Layout) -> Stage:
    """A row for each value of the longest table function; the others have NULL where they end."""
    settings = stage.context.settings
    calls: list[Callable[[Row], Sequence[Any]]] = []
    for each in functions:
        calls.append(_table_call(stage, each.call, settings))

    def rows(row: Row | None) -> list[Row]:
        if row is None:
            return []
        found = [call(row) for call in calls]
        count = max(map(len, found), default=0)
        return [(*row, *(values[at] if at < len(values) else None for values in found)) for at in range(count)]

    origins = lineage.row_of((each.name, each.call) for each in functions)
    lineage.declare(rows, value={lineage.EVERY: "value", **origins})
    stream = stage.stream.flat_map_values(rows, name="FlatMap")
    return stage.to(stream, layout=layout)


def _table_call(stage: Stage, node: exp.Anonymous, settings: Settings) -> Callable[[Row], Sequence[Any]]:
    types = [type_of(each, stage.layout, settings) for each in node.expressions]
    call = settings.functions.table(node.name, types)
    failed: list[str] = []

    def log(message: str, part: Any) -> None:
        failed.append(message)
        settings.log(message, part)

    arguments = row_maker(node.expressions, stage.layout, replace(settings, log=log), list(call.parameters))

    def values(row: Row) -> Sequence[Any]:
        """None at all if an argument fails: it is not the same as one that is NULL."""
        found = arguments(row)
        if failed:
            failed.clear()
            return ()
        try:
            return list(call.call(*found) or ())
        except Exception as error:
            settings.log(f"{node.name}: {error}", node)
            return ()

    return values


def partitioned(
    stage: Stage, expressions: Sequence[exp.Expr], named: Sequence[tuple[str, SqlType]], key_format: Format, name: str
) -> Stage:
    """Give records the key that expressions make, with these names and types. NULL: they get none."""
    if isinstance(bare(expressions[0]), exp.Null):
        stream = stage.stream.select_key(lineage.declare(lambda key, row: None), name=f"{name}-SelectKey")
        return stage.to(stream, key=(), key_format=Format("NONE"), window=None)
    make = stage.row_maker(expressions)
    of_key = _of_key_alone(stage, expressions)

    def new_key(key: Any, row: Row | None) -> Row | None:
        if row is None:
            row = of_key(key)
        return None if row is None else no_key_if_null(make(row))

    lineage.declare(new_key, key=lineage.row_of(zip((each for each, _ in named), expressions, strict=True)))
    stream = stage.stream.select_key(new_key, name=f"{name}-SelectKey")
    return stage.to(stream, key=key_columns(named), key_format=key_format, window=None)


def _of_key_alone(stage: Stage, expressions: Sequence[exp.Expr]) -> Callable[[Any], Row | None]:
    """A row of the key columns, for records without a value; None if the only expression needs others."""
    names = {each.name for each in stage.key}
    if len(expressions) == 1 and any(each.name not in names for each in columns(expressions[0])):
        return lambda key: None
    before = len(stage.layout.columns) - len(stage.key)
    if tuple(name for name, _ in stage.layout.columns[before:]) != tuple(each.name for each in stage.key):
        return lambda key: None

    no_keys = (None,) * len(stage.key)

    def row(key: Any) -> Row | None:
        if isinstance(key, Windowed):
            key = key.key
        return (None,) * before + (no_keys if key is None else tuple(key))

    return row


def projected(stage: Stage, items: Sequence[Item], key: Sequence[tuple[str, SqlType]], name: str) -> Stage:
    """The value columns of the result."""
    make = stage.row_maker([each.expression for each in items])

    def project(row: Row | None) -> Row | None:
        return None if row is None else make(row)

    lineage.declare(project, value=lineage.row_of((each.name, each.expression) for each in items))
    flow = stage.flow.map_values(project, name=name)
    layout = Layout(tuple((each.name, each.type) for each in items))
    return stage.to(flow, layout=layout, key=key_columns(key))
