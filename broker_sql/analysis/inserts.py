"""INSERT INTO ... SELECT: the stream that rows go into."""

from __future__ import annotations

from dataclasses import replace

from broker_sql.analysis.projection import Item
from broker_sql.analysis.query import Analysis
from broker_sql.catalog import Catalog, SourceInfo
from broker_sql.dialect.nodes import CastTo
from broker_sql.errors import AnalysisError, StatementError
from broker_sql.expressions import implicit
from broker_sql.statements import InsertInto
from broker_sql.types import Schema, quoted


def checked_target(statement: InsertInto, catalog: Catalog) -> SourceInfo:
    """Raises AnalysisError or StatementError: it is no stream that can be written."""
    target = catalog.source(statement.target)
    where = statement.target.location or statement.location
    if target.is_table:
        raise StatementError(f"{quoted(target.name)} is a table: INSERT INTO ... SELECT is for streams", where)
    if target.is_read_only:
        raise StatementError(f"stream {quoted(target.name)} is only read: it was made with SOURCE", where)
    if target.schema.headers:
        raise StatementError(f"stream {quoted(target.name)} has columns of headers, which cannot be written", where)
    return target


def with_types_of(analysis: Analysis, target: SourceInfo) -> Analysis:
    """The query with the types of the target's columns, where values widen to them.

    Raises AnalysisError: the columns are not those of the target.
    """
    given, wanted = analysis.schema, target.schema
    wanted = Schema((*wanted.key, *wanted.value))
    fits = (
        len(given.columns) == len(wanted.columns)
        and [each.name for each in given.value] == [each.name for each in wanted.value]
        and [each.type for each in given.key] == [each.type for each in wanted.key]
        and analysis.window == target.window
    )
    items: list[Item] = []
    types = {each.name: each.type for each in wanted.value}
    for item in analysis.items:
        kind = types.get(item.name, item.type)
        if item.is_key or kind == item.type:
            items.append(item)
            continue
        fits = fits and implicit(item.type, kind)
        items.append(replace(item, expression=CastTo(this=item.expression.copy(), to=kind), type=kind))
    if not fits:
        raise AnalysisError(
            f"the columns of the query do not fit {quoted(target.name)}: they are ({given}), and it has ({wanted})",
            analysis.query.location,
        )
    return replace(analysis, items=tuple(items))
