"""GROUP BY, aggregate functions and HAVING.

A row is aggregated as ksqlDB does it: the state of a group has the columns that the query uses, as they were in the
group's last row, and the state of each aggregate. The projection is evaluated over these columns and the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from broker_sql.analysis.names import PSEUDO_COLUMNS, WINDOW_BOUNDS, Layout, Names, fresh
from broker_sql.analysis.projection import Unresolved
from broker_sql.analysis.settings import Settings
from broker_sql.analysis.trees import bare, calls, column, columns, replaced, signature
from broker_sql.analysis.typed import condition as compiled_condition
from broker_sql.analysis.typed import type_of
from broker_sql.dialect import to_text
from broker_sql.dialect.nodes import at, location
from broker_sql.errors import AnalysisError
from broker_sql.expressions import literal
from broker_sql.functions import Aggregate
from broker_sql.statements import Query
from broker_sql.types import BIGINT, SqlType

VARIABLE = "KSQL_AGG_VARIABLE_"


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate function. `arguments` are evaluated over the row; constants are part of `aggregate`."""

    name: str
    aggregate: Aggregate
    arguments: tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Aggregation:
    """`groups` are the grouping expressions over the row before. `kept` are the columns of the state before those of
    aggregates. `layout` is the row after: kept columns, results, and the bounds of windows.
    """

    groups: tuple[exp.Expr, ...]
    calls: tuple[AggregateCall, ...]
    kept: tuple[tuple[str, SqlType], ...]
    having: exp.Expr | None
    layout: Layout
    is_windowed: bool


def aggregated(
    query: Query,
    items: Sequence[Unresolved],
    groups: Sequence[exp.Expr] | None,
    having: exp.Expr | None,
    names: Names,
    layout: Layout,
    settings: Settings,
    sink: str | None,
) -> tuple[Aggregation, list[Unresolved]]:
    """The aggregation, and the items over its layout. Raises AnalysisError."""
    return _Aggregator(query, groups, names, layout, settings).aggregation(items, having, sink)


class _Aggregator:
    def __init__(
        self, query: Query, groups: Sequence[exp.Expr] | None, names: Names, layout: Layout, settings: Settings
    ) -> None:
        self._query, self._names, self._layout, self._settings = query, names, layout, settings
        self._groups = tuple(groups or ())
        self._has_groups = groups is not None
        self._group_signatures = {signature(each) for each in self._groups}
        self._calls: list[AggregateCall] = []
        self._by_signature: dict[object, AggregateCall] = {}
        self._kept: dict[str, SqlType] = {}
        # Bounds of the windows of this query; a source in windows has columns of these names itself.
        self._bounds = WINDOW_BOUNDS if query.window is not None else ()

    def aggregation(
        self, items: Sequence[Unresolved], having: exp.Expr | None, sink: str | None
    ) -> tuple[Aggregation, list[Unresolved]]:
        self._check_groups()
        found = [each.with_expression(self._over_state(each.expression, each.shown, "SELECT")) for each in items]
        condition = None if having is None else self._over_state(having, to_text(having), "HAVING")
        if not self._calls:
            raise AnalysisError("GROUP BY needs an aggregate function in SELECT or HAVING", self._query.location)
        if not self._has_groups:
            names = ", ".join(each.aggregate.name for each in self._calls)
            raise AnalysisError(f"aggregate functions need GROUP BY: {names}", self._query.location)
        self._check_sources()
        layout = self._row()
        if condition is not None:
            compiled_condition(condition, layout, self._settings, "HAVING")
        made = Aggregation(
            self._groups,
            tuple(self._calls),
            tuple(self._kept.items()),
            condition,
            layout,
            self._query.window is not None,
        )
        return made, found

    def _row(self) -> Layout:
        results = [(each.name, each.aggregate.return_type) for each in self._calls]
        bounds = [(name, BIGINT) for name in self._bounds]
        return Layout((*self._kept.items(), *results, *bounds))

    def _check_groups(self) -> None:
        if self._has_groups and not self._groups:
            raise AnalysisError("GROUP BY needs an expression", self._query.location)
        for each in self._groups:
            for call in calls(each, self._settings.functions.is_aggregate):
                raise AnalysisError(f"GROUP BY cannot have {call.name}, an aggregate function", location(call))
            self._refuse_bounds(each)
            type_of(each, self._layout, self._settings)
            self._keep(each)
        if len(self._group_signatures) < len(self._groups):
            raise AnalysisError("GROUP BY has an expression twice", location(self._groups[0]))

    def _refuse_bounds(self, node: exp.Expr) -> None:
        for each in columns(node):
            if each.name in self._bounds:
                raise AnalysisError(
                    f"{each.name} of this query's windows can only be in SELECT, outside of aggregate functions",
                    location(each),
                )

    def _check_sources(self) -> None:
        formats = [each.label for each in self._names.sources if each.info.value_format.name == "KAFKA"]
        if formats:
            raise AnalysisError(
                f"{', '.join(formats)} has the value format KAFKA, which GROUP BY does not support: take JSON, for"
                " instance",
                self._query.location,
            )
        if self._names.sources[0].info.is_table:
            without = sorted({each.aggregate.name for each in self._calls if each.aggregate.undo is None})
            if without:
                raise AnalysisError(
                    f"{', '.join(without)} cannot take rows back, so a table cannot be aggregated with it: streams can",
                    self._query.location,
                )

    def _keep(self, node: exp.Expr) -> None:
        """Keep the columns of an expression in the state."""
        for each in columns(node):
            if each.name not in self._kept and each.name not in self._bounds and each.name in self._layout.types:
                self._kept[each.name] = self._layout.types[each.name]

    def _over_state(self, node: exp.Expr, shown: str, clause: str) -> exp.Expr:
        """The expression with results in place of aggregates. Raises AnalysisError: it uses columns that differ in a
        group.
        """
        if clause == "HAVING":
            self._refuse_bounds(node)

        functions = self._settings.functions
        for each in calls(node, lambda name: not functions.exists(name)):
            type_of(at(exp.Anonymous(this=each.name), location(each)), self._layout, self._settings)

        def swap(part: exp.Expr) -> exp.Expr | None:
            if isinstance(part, exp.Anonymous) and functions.is_aggregate(part.name):
                return column(self._call(part).name)
            return None

        changed = replaced(node, swap)
        for plain in self._ungrouped(changed):
            raise AnalysisError(
                f"{clause} has {shown.replace('`', '')}, and {plain.name} is neither in GROUP BY nor in an"
                " aggregate function",
                location(plain) or location(node),
            )
        self._keep(node)
        return changed

    def _ungrouped(self, node: exp.Expr) -> list[exp.Column]:
        """The columns outside of grouping expressions."""

        def swap(part: exp.Expr) -> exp.Expr | None:
            return exp.Null() if signature(part) in self._group_signatures else None

        results = {each.name for each in self._calls}
        return [
            each for each in columns(replaced(node, swap)) if each.name not in results and each.name not in self._bounds
        ]

    def _call(self, node: exp.Anonymous) -> AggregateCall:
        known = self._by_signature.get(signature(node))
        if known is not None:
            return known
        arguments: list[exp.Expr] = [each for each in node.expressions if not isinstance(each, exp.Star)]
        for each in arguments:
            for inner in calls(each, self._settings.functions.is_aggregate):
                raise AnalysisError(f"aggregate function {inner.name} is inside of {node.name}", location(inner))
            self._refuse_bounds(each)
        counts_rows = not arguments and node.expressions
        types = [None if is_null(each) else type_of(each, self._layout, self._settings) for each in arguments]
        constants = {at: found[1] for at, each in enumerate(arguments) if (found := literal(each)) is not None}
        try:
            aggregate = self._settings.functions.aggregate(
                node.name, types, constants, [to_text(each).replace("`", "") for each in arguments]
            )
        except AnalysisError as error:
            raise AnalysisError(error.message, error.location or location(node)) from None
        if counts_rows:
            arguments = [column(self._row_time())]
        taken = arguments[: max(aggregate.columns, 1) if counts_rows else aggregate.columns]
        for each in taken:
            self._keep(each)
        made = AggregateCall(fresh(VARIABLE, len(self._calls), self._layout), aggregate, tuple(taken))
        self._calls.append(made)
        self._by_signature[signature(node)] = made
        return made

    def _row_time(self) -> str:
        """A column that always has a value, for COUNT(*)."""
        return self._names.internal(self._names.sources[0].label, PSEUDO_COLUMNS[0])


def is_null(node: exp.Expr) -> bool:
    return isinstance(bare(node), exp.Null)
