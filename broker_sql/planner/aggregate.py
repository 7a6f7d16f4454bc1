"""GROUP BY with aggregates, in windows or without, HAVING.

The state of a group is a row: the columns that the query keeps, and the state of each aggregate function. It is in the
format of the source's values, so that its changelog can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from broker_sql.analysis import serdes
from broker_sql.analysis.aggregates import Aggregation
from broker_sql.analysis.names import WINDOW_BOUNDS, Layout, fresh
from broker_sql.analysis.trees import column, is_column
from broker_sql.analysis.typed import type_of
from broker_sql.catalog import Format, KeyWindow
from broker_sql.errors import AnalysisError
from broker_sql.planner import lineage
from broker_sql.planner.rows import filtered
from broker_sql.planner.stage import Row, Stage, key_columns
from broker_sql.statements import Emit, Query, Window, WindowKind
from broker_sql.types import Array, Map, SqlType, Struct
from broker_streams.dsl.materialized import Materialized
from broker_streams.plan.lineage.declared import declared_lineage
from broker_streams.plan.windows import EmitStrategy, SessionWindows, TimeWindows
from broker_streams.records import Windowed

_DEFAULT_GRACE_MS: Final = 86_400_000
ARGUMENT: Final = "KSQL_INTERNAL_COL_"
_STORE: Final = "Aggregate-Aggregate-Materialize"


@dataclass(frozen=True)
class _Prepared:
    """Rows for aggregation: kept columns, then the arguments of the calls one after the other."""

    kept: int
    arguments: tuple[tuple[int, int], ...]  # (begin, end) in the row, for each call


def aggregated(
    stage: Stage,
    aggregation: Aggregation,
    query: Query,
    named: Sequence[tuple[str, SqlType]],
    key_format: Format,
    window: KeyWindow | None,
) -> Stage:
    """`named` are the key columns of the result."""
    return _Aggregate(stage, aggregation, query, named, key_format, window).stage()


class _Aggregate:
    def __init__(
        self,
        stage: Stage,
        aggregation: Aggregation,
        query: Query,
        named: Sequence[tuple[str, SqlType]],
        key_format: Format,
        window: KeyWindow | None,
    ) -> None:
        self._source, self._aggregation, self._query = stage, aggregation, query
        self._window = window
        self._context = stage.context
        self._settings = stage.context.settings
        self._key = key_columns(named)
        self._key_format = key_format
        self._calls = tuple(_Call(each.aggregate, each.aggregate.multiple) for each in aggregation.calls)

    def stage(self) -> Stage:
        grouped = self._grouped()
        state = self._state_layout()
        store = self._store(state)
        initial, add = self._initial(), self._adder()
        if self._source.is_table:
            table = grouped.aggregate(initial, add, self._adder(undoes=True), materialized=store)
        elif self._query.window is None:
            table = grouped.aggregate(initial, add, materialized=store)
        else:
            table = self._windowed(grouped, self._query.window, initial, add, store)
        kept = len(self._aggregation.kept)
        results = tuple(each.aggregate.result for each in self._calls)

        def output(row: Row | None) -> Row | None:
            if row is None:
                return None
            return (*row[:kept], *(result(each) for result, each in zip(results, row[kept:], strict=True)))

        lineage.declare(output, value={lineage.EVERY: "value"})
        table = table.map_values(output, name="Aggregate-Aggregate-ToOutputSchema")
        if self._query.window is not None:
            table = table.map_values(_with_bounds, with_key=True, name="Aggregate-Aggregate-WindowSelect")
        found = Stage(
            table,
            self._aggregation.layout,
            self._key,
            self._key_format,
            self._source.value_format,
            self._window,
            context=self._context,
        )
        if self._aggregation.having is not None:
            found = filtered(found, self._aggregation.having, "HAVING", "Aggregate-HavingFilter")
        return found

    # Rows of groups.

    def _prepare(self) -> tuple[Stage, _Prepared]:
        source, aggregation = self._source, self._aggregation
        nodes: list[exp.Expr] = [column(name) for name, _ in aggregation.kept]
        columns = list(aggregation.kept)
        spans = []
        for each in aggregation.calls:
            begin = len(nodes)
            for node in each.arguments:
                columns.append((self._argument(len(nodes)), type_of(node, source.layout, self._settings)))
                nodes.append(node)
            spans.append((begin, len(nodes)))
        make = source.row_maker(nodes)

        def prepare(row: Row | None) -> Row | None:
            return None if row is None else make(row)

        names = (name for name, _ in columns)
        lineage.declare(prepare, value=lineage.row_of(zip(names, nodes, strict=True)))
        flow = source.flow.map_values(prepare, name="Aggregate-Prepare")
        prepared = _Prepared(len(aggregation.kept), tuple(spans))
        return source.to(flow, layout=Layout(tuple(columns))), prepared

    def _argument(self, at: int) -> str:
        """The name of a column for an argument of an aggregate function."""
        return fresh(ARGUMENT, at, self._source.layout)

    def _grouped(self) -> Any:
        prepared, self._prepared = self._prepare()
        key_serde = serdes.key_serde(self._key_format, self._key, None)
        value_serde = prepared.row_serde()
        if self._groups_by_key():
            stream = prepared.stream
            if self._query.window is not None:
                # Other than aggregations without windows, those in windows take records without values.
                stream = stream.filter(_has_row)
            return stream.group_by_key(key=key_serde, value=value_serde, name="Aggregate-GroupBy")
        make = prepared.row_maker(self._aggregation.groups)

        def group(row: Row) -> Row | None:
            found = make(row)
            return None if None in found else found

        flow = prepared.flow.filter(_has_row)
        origins = lineage.row_of(zip((each.name for each in self._key), self._aggregation.groups, strict=True))
        options = {"key": key_serde, "value": value_serde, "name": "Aggregate-GroupBy"}
        if prepared.is_table:
            pair = lineage.declare(lambda key, row: (group(row), row), key=origins, value={lineage.EVERY: "value"})
            return flow.group_by(pair, **options)
        return flow.group_by(lineage.declare(lambda key, row: group(row), key=origins), **options)

    def _groups_by_key(self) -> bool:
        """The groups are the keys that records have already."""
        source = self._source
        if source.is_table or source.window is not None or source.key_format != self._key_format:
            return False
        names = [each.name for each in self._aggregation.groups if is_column(each)]
        return len(names) == len(self._aggregation.groups) and names == [each.name for each in source.key]

    # The state.

    def _state_layout(self) -> Layout:
        states = [(each.name, each.aggregate.intermediate) for each in self._aggregation.calls]
        return Layout((*self._aggregation.kept, *states))

    def _store(self, layout: Layout) -> Materialized:
        try:
            value_serde = serdes.row_serde(self._source.value_format, layout)
        except AnalysisError as error:
            raise AnalysisError(
                f"the state of an aggregate function does not fit the value format of the source: {error.message}",
                self._query.location,
            ) from None
        key_serde = serdes.key_serde(self._key_format, self._key, None)
        retention = self._query.window.retention if self._query.window is not None else None
        return Materialized(
            _STORE, key=key_serde, value=value_serde, retention=None if retention is None else retention.ms
        )

    def _initial(self) -> Any:
        no_columns = (None,) * len(self._aggregation.kept)
        calls = [each.aggregate.initialize for each in self._calls]
        return lineage.declare(lambda: (*no_columns, *(each() for each in calls)))

    def _adder(self, undoes: bool = False) -> Any:
        """A function of key, row and state."""
        prepared = self._prepared
        kept = prepared.kept
        steps = [
            (each.undo if undoes else each.add, span)
            for each, span in zip(self._calls, prepared.arguments, strict=True)
        ]

        def add(key: Any, row: Row, state: Row) -> Row:
            return (*row[:kept], *[step(row, span, state[at]) for at, (step, span) in enumerate(steps, kept)])

        return lineage.declare(add, value=self._origins())

    def _origins(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: lineage.Copied(f"value.{name}") for name, _ in self._aggregation.kept}
        for each, (begin, end) in zip(self._aggregation.calls, self._prepared.arguments, strict=True):
            arguments = [f"value.{self._argument(at)}" for at in range(begin, end)]
            found[each.name] = [*arguments, f"aggregate.{each.name}"]
        return found

    def _merger(self) -> Any:
        """A function of a key and two states of sessions, the earlier one first."""
        kept = self._prepared.kept

        def merge(key: Any, one: Row, other: Row) -> Row:
            # The state of a session that was only just begun has no columns yet.
            columns = [b if b is not None else a for a, b in zip(one[:kept], other[:kept], strict=True)]
            states = zip(self._calls, one[kept:], other[kept:], strict=True)
            return (*columns, *(call.merge(a, b) for call, a, b in states))

        return lineage.declare(merge, value={lineage.EVERY: ["one", "other"]})

    # Windows.

    def _windowed(self, grouped: Any, window: Window, initial: Any, add: Any, store: Materialized) -> Any:
        is_final = self._query.emit is Emit.FINAL
        grace_ms = _grace_ms(window, is_final)
        if window.kind is WindowKind.SESSION:
            sessions = grouped.windowed_by(SessionWindows(window.size.ms, grace_ms))
            if is_final:
                sessions = sessions.emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
            return sessions.aggregate(initial, add, self._merger(), materialized=store)
        advance = window.advance or window.size
        windows = grouped.windowed_by(TimeWindows(window.size.ms, advance.ms, grace_ms))
        if is_final:
            windows = windows.emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
        return windows.aggregate(initial, add, materialized=store)


def _grace_ms(window: Window, is_final: bool) -> int:
    """Without GRACE PERIOD, late records are taken for a day after the begin of their window; EMIT FINAL takes none."""
    if window.grace is not None:
        return window.grace.ms
    return 0 if is_final else max(0, _DEFAULT_GRACE_MS - window.size.ms)


class _Call:
    """An aggregate function over parts of rows. States in a row never change: they may be in a store's cache."""

    def __init__(self, aggregate: Any, is_multiple: bool) -> None:
        self.aggregate = aggregate
        self._is_multiple = is_multiple
        self._copied = _copier(aggregate.intermediate)

    def _value(self, row: Row, span: tuple[int, int]) -> Any:
        begin, end = span
        return row[begin:end] if self._is_multiple else row[begin] if end > begin else True

    def add(self, row: Row, span: tuple[int, int], state: Any) -> Any:
        return self.aggregate.add(self._value(row, span), self._copied(state))

    def undo(self, row: Row, span: tuple[int, int], state: Any) -> Any:
        return self.aggregate.undo(self._value(row, span), self._copied(state))

    def merge(self, one: Any, other: Any) -> Any:
        return self.aggregate.merge(self._copied(one), self._copied(other))


def _copier(kind: SqlType) -> Callable[[Any], Any]:
    """A function that copies values of a type, as deep as they can change."""
    match kind:
        case Array(element):
            inner = _copier(element)
            if inner is _same:
                return lambda value: None if value is None else list(value)
            return lambda value: None if value is None else [inner(each) for each in value]
        case Map(_, element):
            of_values = _copier(element)
            return lambda value: None if value is None else {name: of_values(each) for name, each in value.items()}
        case Struct(fields):
            parts = {name: _copier(each) for name, each in fields}
            return lambda value: None if value is None else {name: parts[name](each) for name, each in value.items()}
    return _same


def _same(value: Any) -> Any:
    return value


@declared_lineage()
def _has_row(key: Any, row: Row | None) -> bool:
    return row is not None


@declared_lineage(value={lineage.EVERY: "value", **{name: ["key.window"] for name in WINDOW_BOUNDS}})
def _with_bounds(key: Windowed, row: Row | None) -> Row | None:
    return None if row is None else (*row, key.window.start_ms, key.window.end_ms)
