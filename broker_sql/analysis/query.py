"""A query checked: its sources, the expressions of each clause, and the columns of its result with their types.

Rows are followed through the clauses: the sources (joined), WHERE, table functions, then aggregates or PARTITION BY,
then the projection. The expressions of each clause are over the row that the clause gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from broker_sql.analysis import projection
from broker_sql.analysis.aggregates import Aggregation, aggregated
from broker_sql.analysis.functions import with_functions
from broker_sql.analysis.joins import SYNTHETIC_KEY, JoinForm, JoinStep, joined
from broker_sql.analysis.names import Labelled, Layout, Names, fresh
from broker_sql.analysis.projection import Item, KeyColumn
from broker_sql.analysis.settings import ROW_PLACES, Settings
from broker_sql.analysis.trees import bare, calls, replaced, signature
from broker_sql.analysis.typed import condition, type_of
from broker_sql.catalog import Catalog, KeyWindow
from broker_sql.dialect import to_text
from broker_sql.dialect.nodes import location
from broker_sql.errors import AnalysisError
from broker_sql.statements import Emit, Query, Window, WindowKind
from broker_sql.types import Column, Kind, Schema, SqlType, quoted

SYNTHETIC_VALUE = "KSQL_SYNTH_"


@dataclass(frozen=True)
class TableFunction:
    """A call whose values become rows. `name` is the column that has them."""

    name: str
    call: exp.Anonymous


@dataclass(frozen=True)
class Analysis:
    """A query that fits its sources.

    `layout` is the row after WHERE, with the columns of table functions. `key` are the key columns of the result, and
    `items` all items of the projection in their order; those of the key are among them.
    """

    query: Query
    sources: tuple[Labelled, ...]
    joins: tuple[JoinStep, ...]
    synthetic: str | None
    source_layout: Layout
    layout: Layout
    where: exp.Expr | None
    table_functions: tuple[TableFunction, ...]
    partition_by: tuple[exp.Expr, ...] | None
    aggregation: Aggregation | None
    key: tuple[KeyColumn, ...]
    items: tuple[Item, ...]
    is_table: bool
    window: KeyWindow | None

    @property
    def values(self) -> tuple[Item, ...]:
        """The items that are value columns."""
        return tuple(each for each in self.items if not each.is_key)

    @property
    def row_layout(self) -> Layout:
        """The row that the projection gets."""
        return self.aggregation.layout if self.aggregation is not None else self.layout

    @property
    def schema(self) -> Schema:
        keys = (Column(each.name, each.type, Kind.KEY) for each in self.key)
        return Schema((*keys, *(Column(each.name, each.type) for each in self.values)))


def analyse(query: Query, catalog: Catalog, settings: Settings, sink: str | None) -> Analysis:
    """`sink` is the name of the stream or table that a persistent query fills; None: the rows go to a client.

    Raises AnalysisError.
    """
    return _Analyser(query, catalog, with_functions(settings, catalog), sink).analysis()


class _Analyser:
    def __init__(self, query: Query, catalog: Catalog, settings: Settings, sink: str | None) -> None:
        self._query, self._catalog, self._settings, self._sink = query, catalog, settings, sink
        has_places = settings.is_on(ROW_PLACES, True)
        self._sources = tuple(
            Labelled(str(each.label), catalog.source(each.name), has_places)
            for each in (query.source, *(join.source for join in query.joins))
        )
        self._functions = settings.functions
        self._joins: tuple[JoinStep, ...] = ()
        self._join_keys: tuple[exp.Expr, ...] = ()
        if query.joins:
            self._joins, self._join_keys = joined(self._sources, query.joins, catalog)
        synthetic = self._synthetic_name() if self._joins and not self._join_keys else None
        self._names = Names(
            self._sources,
            synthetic,
            has_bounds=query.window is not None and query.group_by is not None,
            catalog=catalog,
        )
        layout = self._names.layout
        if synthetic is not None:
            kind = type_of(self._joins[-1].left, layout, settings)
            layout = layout.with_columns([(synthetic, kind)])
        self._source_layout = layout

    def _synthetic_name(self) -> str:
        """ROWKEY, with a number if a source has such a column."""
        taken = {name for each in self._sources for name in each.layout.index}
        name, number = SYNTHETIC_KEY, 0
        while name in taken:
            number += 1
            name = f"{SYNTHETIC_KEY}_{number}"
        return name

    def analysis(self) -> Analysis:
        query = self._query
        if query.limit is not None and self._sink is not None:
            raise AnalysisError("LIMIT is for queries of a client: a query that stays has no last row", query.location)
        self._check_sources()
        self._check_join_types()
        where = None
        if query.where is not None:
            self._refuse_calls(query.where, "WHERE")
            where = Names(self._sources, self._names.synthetic, catalog=self._catalog).resolved(query.where, "WHERE")
            condition(where, self._source_layout, self._settings, "WHERE")
        expanded = projection.expanded(
            query.items, self._names, self._settings, self._sink is not None, self._star_keys()
        )
        is_aggregate = query.group_by is not None or any(self._aggregates(each.expression) for each in expanded)
        expanded, functions, layout = self._table_functions(expanded, is_aggregate)
        aggregation = None
        partition_by = self._partition_by(layout)
        if is_aggregate or query.having is not None:
            aggregation, expanded = self._aggregation(expanded, layout)
        elif query.window is not None:
            raise AnalysisError("WINDOW needs GROUP BY", query.window.location or query.location)
        is_table = self._is_table(aggregation)
        keys = self._key_expressions(aggregation, partition_by)
        row = aggregation.layout if aggregation is not None else layout
        if partition_by is not None:
            expanded = projection.with_partition_names(expanded, partition_by)
        with_types = projection.typed(expanded, row, self._settings)
        key, items = projection.with_keys(with_types, keys, row, self._settings, query, self._sink)
        if self._sink is not None:
            projection.check_result(items, query)
        self._check_emit(aggregation)
        return Analysis(
            query,
            self._sources,
            self._joins,
            self._names.synthetic,
            self._source_layout,
            layout,
            where,
            functions,
            partition_by,
            aggregation,
            key,
            items,
            is_table,
            self._window(aggregation),
        )

    def _check_sources(self) -> None:
        if self._sink is None:
            return
        for each in self._sources:
            if each.info.is_table and each.info.window is not None:
                raise AnalysisError(
                    f"{quoted(each.info.name)} is a table in windows: a query that stays cannot read it",
                    self._query.source.name.location,
                )

    def _check_join_types(self) -> None:
        layout = Names(self._sources).layout
        for each in self._joins:
            left, right = (type_of(side, layout, self._settings) for side in (each.left, each.right))
            if left != right:
                raise AnalysisError(
                    f"the sides of a join have different types: {to_text(each.left)} is {left}, and"
                    f" {to_text(each.right)} is {right}",
                    location(each.left),
                )

    def _aggregates(self, node: exp.Expr) -> list[exp.Anonymous]:
        return calls(node, self._functions.is_aggregate)

    def _refuse_calls(self, node: exp.Expr, clause: str) -> None:
        for matches, kind in ((self._functions.is_aggregate, "aggregate"), (self._functions.is_table, "table")):
            for each in calls(node, matches):
                raise AnalysisError(
                    f"{clause} cannot have {each.name}, which is a function of kind {kind}", location(each)
                )

    def _star_keys(self) -> tuple[exp.Expr, ...]:
        """The expressions of PARTITION BY, which `*` has in front if they are no columns."""
        return tuple(self._names.resolved(each, "PARTITION BY") for each in self._query.partition_by or ())

    def _table_functions(
        self, items: Sequence[projection.Unresolved], is_aggregate: bool
    ) -> tuple[list[projection.Unresolved], tuple[TableFunction, ...], Layout]:
        """Put columns in place of calls of table functions, which run before the projection."""
        found: list[TableFunction] = []

        def swap(node: exp.Expr) -> exp.Expr | None:
            if not (isinstance(node, exp.Anonymous) and self._functions.is_table(node.name)):
                return None
            for inner in node.expressions:
                for each in calls(inner, self._functions.is_table):
                    raise AnalysisError(f"table function {each.name} is inside of another one", location(each))
            name = fresh(SYNTHETIC_VALUE, len(found), self._source_layout)
            found.append(TableFunction(name, node.copy()))
            return exp.column(name, quoted=True)

        changed = [each.with_expression(replaced(each.expression, swap)) for each in items]
        if not found:
            return list(items), (), self._source_layout
        where = location(found[0].call)
        if is_aggregate:
            raise AnalysisError("table functions cannot be used together with aggregate functions", where)
        if any(each.info.is_table for each in self._sources):
            raise AnalysisError("table functions are for streams, not for tables", where)
        types = [(each.name, self._table_type(each)) for each in found]
        return changed, tuple(found), self._source_layout.with_columns(types)

    def _table_type(self, function: TableFunction) -> SqlType:
        types = [type_of(each, self._source_layout, self._settings) for each in function.call.expressions]
        try:
            return self._functions.table(function.call.name, types).return_type
        except AnalysisError as error:
            raise AnalysisError(error.message, error.location or location(function.call)) from None

    def _partition_by(self, layout: Layout) -> tuple[exp.Expr, ...] | None:
        query = self._query
        if query.partition_by is None:
            return None
        where = query.location
        if query.group_by is not None:
            raise AnalysisError("PARTITION BY and GROUP BY exclude each other", where)
        if any(each.info.is_table for each in self._sources[:1]):
            raise AnalysisError("PARTITION BY is for streams: the rows of a table have their primary key", where)
        if not query.partition_by:
            raise AnalysisError("PARTITION BY needs an expression", where)
        if self._sources[0].info.window is not None:
            raise AnalysisError("PARTITION BY is not possible for a stream whose keys are in windows", where)
        for each in query.partition_by:
            self._refuse_calls(each, "PARTITION BY")
        if any(isinstance(each, exp.Null) for each in query.partition_by) and len(query.partition_by) > 1:
            raise AnalysisError("PARTITION BY of several expressions cannot have NULL among them", where)
        found = tuple(self._names.resolved(each, "PARTITION BY") for each in query.partition_by)
        if len({signature(each) for each in found}) < len(found):
            raise AnalysisError("PARTITION BY has an expression twice", location(query.partition_by[0]))
        for each in found:
            if not isinstance(bare(each), exp.Null):
                type_of(each, layout, self._settings)
        return found

    def _aggregation(
        self, items: list[projection.Unresolved], layout: Layout
    ) -> tuple[Aggregation, list[projection.Unresolved]]:
        query = self._query
        if query.window is not None:
            if any(each.info.is_table for each in self._sources[:1]):
                raise AnalysisError("WINDOW is for streams, not for tables", query.window.location)
            check_window(query.window)
        having = None if query.having is None else self._names.resolved(query.having, "HAVING")
        groups = None if query.group_by is None else [self._names.resolved(each, "GROUP BY") for each in query.group_by]
        if groups is None and self._sink is None:
            # All rows are one group. A table cannot be made of it, since its row would have no key.
            groups = [exp.Literal.number(0)]
        return aggregated(query, items, groups, having, self._names, layout, self._settings, self._sink)

    def _is_table(self, aggregation: Aggregation | None) -> bool:
        if aggregation is not None:
            return True
        if self._joins:
            return self._joins[-1].form in (JoinForm.TABLE_TABLE, JoinForm.FOREIGN_KEY)
        return self._sources[0].info.is_table

    def _key_expressions(
        self, aggregation: Aggregation | None, partition_by: tuple[exp.Expr, ...] | None
    ) -> projection.Keys:
        """The expressions that the key of the result is made of."""
        if aggregation is not None:
            return projection.Keys("grouping", aggregation.groups)
        if partition_by is not None:
            if isinstance(partition_by[0], exp.Null):
                return projection.Keys("partitioning", ())
            return projection.Keys("partitioning", partition_by)
        if self._names.synthetic is not None:
            return projection.Keys("join", (exp.column(self._names.synthetic, quoted=True),))
        if self._joins:
            several = len(self._sources[0].info.schema.key) > 1 and self._joins[-1].form is JoinForm.FOREIGN_KEY
            return projection.Keys("join", self._join_keys, any_of=not several)
        source = self._sources[0]
        return projection.Keys("key", tuple(exp.column(each.name, quoted=True) for each in source.info.schema.key))

    def _window(self, aggregation: Aggregation | None) -> KeyWindow | None:
        """The windows that keys of the result are in."""
        window = self._query.window
        if aggregation is not None:
            if window is None:
                return None
            return KeyWindow(window.kind, None if window.kind is WindowKind.SESSION else window.size.ms)
        return self._sources[0].info.window

    def _check_emit(self, aggregation: Aggregation | None) -> None:
        if self._query.emit is Emit.FINAL and (aggregation is None or self._query.window is None):
            raise AnalysisError("EMIT FINAL is for aggregations in windows", self._query.location)


def check_window(window: Window) -> None:
    """Raises AnalysisError: sizes do not fit together."""
    if window.size.ms < 1:
        raise AnalysisError(
            f"the size of windows is {window.size}; at least 1 millisecond is expected", window.location
        )
    if window.advance is not None and not 1 <= window.advance.ms <= window.size.ms:
        raise AnalysisError(
            f"windows advance by {window.advance}; more than 0, and at most their size of {window.size}, is expected",
            window.location,
        )
    if window.retention is not None:
        least = window.size.ms + (window.grace.ms if window.grace is not None else 0)
        if window.retention.ms < least:
            raise AnalysisError(
                f"RETENTION is {window.retention}; at least the size and the grace period, {least} ms, is expected",
                window.location,
            )
