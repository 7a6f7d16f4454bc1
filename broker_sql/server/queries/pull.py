"""Pull queries: the rows that a table or stream has now.

Rows of a table come from its view (`views`). WHERE is evaluated on each row; equalities on all key columns choose the
rows that are looked at, so a query by key reads no others. Rows of a stream are those of its topic up to its end.

Bound: BATCH_ROWS rows are made before the loop of the server has its turn.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from broker_cy.admin import AdminClient
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.reader import Reader
from broker_sql.analysis.functions import with_functions
from broker_sql.analysis.names import WINDOW_BOUNDS, Layout
from broker_sql.analysis.query import Analysis, analyse
from broker_sql.analysis.settings import ROW_PLACES, Settings
from broker_sql.analysis.typed import compiled, condition, row_maker
from broker_sql.catalog import Catalog, SourceInfo
from broker_sql.dialect import to_text
from broker_sql.dialect.nodes import location
from broker_sql.errors import AnalysisError, StatementError
from broker_sql.planner.push import schema_of
from broker_sql.planner.source import RowMaker
from broker_sql.server.bound_serdes import bound_key_serde, bound_value_serde
from broker_sql.server.queries.push import COMPLETED, LIMIT_REACHED, Row
from broker_sql.server.views.views import Views
from broker_sql.statements import Query
from broker_sql.types import STRING, Column, Kind, quoted

BATCH_ROWS: Final = 200
KEYS_MAX: Final = 10_000
_NO_ROW: Final = Layout(())
_PLACES: Final = ("ROWPARTITION", "ROWOFFSET")


@dataclass(frozen=True)
class PullPlan:
    """`keys` are the serialized keys that WHERE allows; None: all rows are looked at. `make` is the projection."""

    source: SourceInfo
    columns: tuple[Column, ...]
    keys: tuple[bytes, ...] | None
    where: Callable[[tuple[Any, ...]], Any] | None
    make: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    row_of: Callable[[bytes | None, bytes, int, int, int, Any], tuple[Any, ...] | None]
    limit: int | None


def pull_plan(
    query: Query, catalog: Catalog, settings: Settings, *, may_scan: bool, may_range: bool = True
) -> PullPlan:
    """Raises AnalysisError and StatementError."""
    refused = {
        "JOIN": bool(query.joins),
        "GROUP BY": query.group_by is not None,
        "WINDOW": query.window is not None,
        "PARTITION BY": query.partition_by is not None,
        "HAVING": query.having is not None,
    }
    for clause, is_there in refused.items():
        if is_there:
            raise StatementError(
                f"a pull query cannot have {clause}: read a table of the result, or add EMIT CHANGES", query.location
            )
    settings = with_functions(settings, catalog)
    analysis = analyse(query, catalog, settings, None)
    _refuse_places(analysis)
    labels = [each.name for each in analysis.items]
    if (twice := next((each for each in labels if labels.count(each) > 1), None)) is not None:
        raise AnalysisError(f"column {quoted(twice)} is there twice; name one of them with AS", query.location)
    if analysis.aggregation is not None or analysis.table_functions:
        raise StatementError("a pull query cannot have aggregate or table functions; add EMIT CHANGES", query.location)
    source = analysis.sources[0].info
    keys = _keys(analysis, settings, may_scan=may_scan) if source.is_table else None
    if source.is_table and keys is None and not may_scan and not (may_range and _has_range(analysis)):
        names = ", ".join(each.name for each in source.schema.key)
        raise StatementError(
            f"WHERE needs the key of {source.name} ({names}): ksql.query.pull.table.scan.enabled is false",
            query.location,
        )
    where = None if analysis.where is None else condition(analysis.where, analysis.layout, settings, "WHERE")
    make = row_maker([each.expression for each in analysis.items], analysis.row_layout, settings)
    return PullPlan(
        source,
        _columns(analysis),
        keys,
        where,
        make,
        _reader(source, settings),
        query.limit,
    )


def _refuse_places(analysis: Analysis) -> None:
    """Raises StatementError: as in ksqlDB, the place of a record is no part of the row of a table or stream."""
    where = [] if analysis.where is None else [analysis.where]
    for clause, nodes in (("SELECT", [each.expression for each in analysis.items]), ("WHERE", where)):
        for node in nodes:
            for each in node.find_all(exp.Column):
                if each.name in _PLACES:
                    raise StatementError(f"a pull query cannot have {each.name} in {clause}; add EMIT CHANGES")


def _columns(analysis: Analysis) -> tuple[Column, ...]:
    """The columns of the answer; those that are the key, or bounds of its window, say so."""
    source = analysis.sources[0].info
    of_key = {each.name for each in source.schema.key}
    if source.window is not None:
        of_key |= set(WINDOW_BOUNDS)
    return tuple(
        replace(column, kind=Kind.KEY)
        if isinstance(item.expression, exp.Column) and item.expression.name in of_key
        else replace(column, kind=Kind.VALUE)
        for column, item in zip(schema_of(analysis).columns, analysis.items, strict=True)
    )


def _reader(
    source: SourceInfo, settings: Settings
) -> Callable[[bytes | None, bytes, int, int, int, Any], tuple[Any, ...] | None]:
    """A function that makes a row of a record: key, value, time, partition, offset, headers. None: the value is not a
    row of the format.
    """
    key_of = bound_key_serde(source, settings.registry).deserialize
    value_of = bound_value_serde(source, settings.registry).deserialize
    has_places = settings.is_on(ROW_PLACES, True)
    maker = RowMaker(source, has_places)

    def read(
        key: bytes | None, value: bytes, timestamp: int, partition: int, offset: int, headers: Any
    ) -> tuple[Any, ...] | None:
        try:
            values = value_of(source.topic, value, headers)
            keys = maker.keys(None if key is None else key_of(source.topic, key, headers))
        except ValueError as error:
            settings.log(f"{source.topic}-{partition}, offset {offset}: {error}", None)
            return None
        if values is None:
            return None
        places = (partition, offset) if has_places else ()
        return (*values, *maker.headers(headers), timestamp, *places, *keys)

    return read


# ---- keys


def _keys(analysis: Analysis, settings: Settings, *, may_scan: bool) -> tuple[bytes, ...] | None:
    """The serialized keys that WHERE allows, without windows; None: it does not name all key columns."""
    source = analysis.sources[0].info
    if analysis.where is None or not source.schema.key:
        return None
    allowed: dict[str, list[Any]] = {}
    for part in _conjuncts(analysis.where):
        found = _equalities(part, source, settings)
        if found is not None:
            name, values = found
            old = allowed.get(name)
            if old is not None and not may_scan:
                raise StatementError(f"WHERE names key column {name} twice", analysis.query.location)
            allowed[name] = values if old is None else [each for each in old if each in values]
    if any(each.name not in allowed for each in source.schema.key):
        return None
    choices = [allowed[each.name] for each in source.schema.key]
    count = 1
    for each in choices:
        count *= len(each)
    if count > KEYS_MAX:
        raise StatementError(f"WHERE names {count:,} keys; at most {KEYS_MAX:,} are allowed", analysis.query.location)
    inner = bound_key_serde(replace(source, window=None), settings.registry)
    keys: dict[bytes, None] = {}
    for wanted in itertools.product(*choices):
        if (key := inner.serialize(source.topic, wanted)) is not None:
            keys[key] = None
    return tuple(keys)


def _has_range(analysis: Analysis) -> bool:
    """Whether WHERE bounds the key once, so that the query asks for a range of keys: as in ksqlDB, of a key of one
    string without a window.
    """
    source = analysis.sources[0].info
    key = source.schema.key
    if analysis.where is None or len(key) != 1 or source.window is not None or key[0].type != STRING:
        return False
    bounds = 0
    for part in _conjuncts(analysis.where):
        if isinstance(part, exp.LT | exp.LTE | exp.GT | exp.GTE):
            sides = (part.this, part.expression)
            bounds += any(isinstance(each, exp.Column) and each.name == key[0].name for each in sides)
    return bounds == 1


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Paren):
        yield from _conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _equalities(node: exp.Expr, source: SourceInfo, settings: Settings) -> tuple[str, list[Any]] | None:
    """A key column, and the values that a condition allows for it; None: it is no such condition."""
    if isinstance(node, exp.EQ):
        for column, value in ((node.this, node.expression), (node.expression, node.this)):
            found = _values(column, [value], source, settings)
            if found is not None:
                return found
    if isinstance(node, exp.In):
        return _values(node.this, node.expressions, source, settings)
    return None


def _values(
    column: exp.Expr, values: Sequence[exp.Expr], source: SourceInfo, settings: Settings
) -> tuple[str, list[Any]] | None:
    kind = next(
        (each for each in source.schema.key if isinstance(column, exp.Column) and each.name == column.name), None
    )
    if kind is None or any(each.find(exp.Column) is not None for each in values):
        return None
    found = []
    for each in values:
        try:
            found.append(compiled(each, _NO_ROW, settings, kind.type).evaluate(()))
        except AnalysisError as error:
            if len(values) == 1:
                # WHERE compares other types, such as a BIGINT key with a DECIMAL.
                return None
            raise AnalysisError(
                f"{to_text(each)} does not fit the key column {kind.name}, which is {kind.type}",
                error.location or location(each),
            ) from None
    if None in found:
        raise AnalysisError(f"key column {kind.name} cannot be NULL", location(column))
    return kind.name, found


# ---- results


class PullQuery:
    """The rows of one pull query. Those of a stream are shown as the rows of a push query that has ended."""

    def __init__(self, query_id: str, plan: PullPlan, rows: AsyncIterator[list[Row]]) -> None:
        self.id = query_id
        self.is_pull = plan.source.is_table
        self.is_windowed = plan.source.window is not None
        self._limit = plan.limit
        self._count = 0
        self.columns = plan.columns
        self._rows = rows

    @property
    def end(self) -> str | None:
        if self.is_pull:
            return None
        return LIMIT_REACHED if self._count == self._limit else COMPLETED

    async def batches(self) -> AsyncIterator[list[Row]]:
        async for each in self._rows:
            self._count += len(each)
            yield each

    async def close(self) -> None:
        close = getattr(self._rows, "aclose", None)
        if close is not None:
            await close()


async def open_pull(query_id: str, plan: PullPlan, views: Views, client: AdminClient) -> PullQuery:
    """Raises ClientError and StatementError."""
    if plan.source.is_table:
        view = await views.of(plan.source)
        stored = view.all() if plan.keys is None else view.of_keys(plan.keys)
        records = ((each.key, each.value, each.timestamp, each.partition, each.offset, each.headers) for each in stored)
        return PullQuery(query_id, plan, _of_table(plan, records))
    partitions = await client.records.partitions(plan.source.topic)
    starts = (await client.offsets.earliest(partitions)).whole()
    ends = (await client.offsets.latest(partitions, isolation=Isolation.READ_COMMITTED)).whole()
    reader = Reader(client.caller, starts, ends=ends, isolation=Isolation.READ_COMMITTED)
    return PullQuery(query_id, plan, _of_stream(plan, reader))


async def _of_table(plan: PullPlan, records: Iterable[Any]) -> AsyncIterator[list[Row]]:
    left = plan.limit
    found = iter(records)
    while left != 0:
        part = list(itertools.islice(found, BATCH_ROWS))
        if not part:
            return
        rows = _rows(plan, part)
        if left is not None:
            rows = rows[:left]
            left -= len(rows)
        if rows:
            yield rows
        if len(part) < BATCH_ROWS:
            return
        await asyncio.sleep(0)


async def _of_stream(plan: PullPlan, reader: Reader) -> AsyncIterator[list[Row]]:
    left = plan.limit
    async with reader:
        if left == 0:
            return
        async for chunk in reader:
            partition = chunk.partition.partition
            for at in range(0, len(chunk.records), BATCH_ROWS):
                part = [
                    (each.key, each.value, each.timestamp, partition, each.offset, each.headers)
                    for each in chunk.records[at : at + BATCH_ROWS]
                    if each.value is not None
                ]
                rows = _rows(plan, part)
                if left is not None:
                    rows = rows[:left]
                    left -= len(rows)
                if rows:
                    yield rows
                if left == 0:
                    return
                await asyncio.sleep(0)


def _rows(plan: PullPlan, records: Iterable[Any]) -> list[Row]:
    found = []
    for each in records:
        row = plan.row_of(*each)
        if row is not None and (plan.where is None or plan.where(row)):
            found.append(Row(plan.make(row)))
    return found
