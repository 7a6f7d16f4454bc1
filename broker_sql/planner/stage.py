"""The part of a plan that one clause has made, on which the next one builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from broker_sql.analysis import serdes
from broker_sql.analysis.names import Layout
from broker_sql.analysis.settings import Settings
from broker_sql.analysis.typed import compiled, row_maker
from broker_sql.catalog import Format, KeyWindow
from broker_sql.types import Column, Kind, SqlType
from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.dsl.kstream import KStream
from broker_streams.dsl.ktable import KTable

Row = tuple[Any, ...]


@dataclass
class PlanContext:
    """The parts that all clauses of a query share. `query_id` is part of the names of internal topics."""

    builder: StreamsBuilder
    settings: Settings
    query_id: str

    def count_name(self, prefix: str) -> None:
        """Use up a number, for names to be those of ksqlDB's topologies: it has nodes for metrics there."""
        self.builder.graph.new_name(prefix)


@dataclass(frozen=True)
class Stage:
    """`flow` has keys that are tuples of `key` (in windows if `window`), and values that are rows of `layout`."""

    flow: Any
    layout: Layout
    key: tuple[Column, ...]
    key_format: Format
    value_format: Format
    window: KeyWindow | None = None
    context: PlanContext = field(repr=False, kw_only=True)

    @property
    def is_table(self) -> bool:
        return isinstance(self.flow, KTable)

    @property
    def stream(self) -> KStream:
        assert isinstance(self.flow, KStream)
        return self.flow

    @property
    def table(self) -> KTable:
        assert isinstance(self.flow, KTable)
        return self.flow

    def to(self, flow: Any, **changes: Any) -> Stage:
        return replace(self, flow=flow, **changes)

    def key_serde(self) -> Any:
        return serdes.key_serde(self.key_format, self.key, self.window)

    def row_serde(self) -> Any:
        return serdes.row_serde(self.value_format, self.layout)

    def evaluator(self, node: exp.Expr, target: SqlType | None = None) -> Callable[[Row], Any]:
        """A function of a row."""
        return compiled(node, self.layout, self.context.settings, target).evaluate

    def row_maker(
        self, nodes: Sequence[exp.Expr], targets: Sequence[SqlType | None] | None = None
    ) -> Callable[[Row], Row]:
        """A function that makes a row of the values of expressions."""
        return row_maker(nodes, self.layout, self.context.settings, targets)


def key_columns(named: Sequence[tuple[str, SqlType]]) -> tuple[Column, ...]:
    return tuple(Column(name, kind, Kind.KEY) for name, kind in named)


def no_key_if_null(values: Row) -> Row | None:
    """A key of one column that is NULL is no key."""
    return None if len(values) == 1 and values[0] is None else values
