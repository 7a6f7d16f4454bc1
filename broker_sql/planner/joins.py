"""Joins. Each side gets the key that it is joined by; rows of the result have the columns of the left, then the right.

stream-stream   a window of time on both sides; without GRACE PERIOD, rows without a partner are passed on at once
stream-table    the row of the table at the time of the stream's record
table-table     both tables have the same primary key
foreign key     an expression of the left table is the primary key of the right one
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from broker_sql.analysis.joins import SYNTHETIC_KEY, JoinForm, JoinStep
from broker_sql.analysis.names import Labelled
from broker_sql.analysis.properties import IN_REGISTRY
from broker_sql.analysis.query import Analysis
from broker_sql.analysis.settings import KEY_FORMAT
from broker_sql.analysis.trees import bare, is_column
from broker_sql.analysis.typed import type_of
from broker_sql.catalog import Format
from broker_sql.dialect.nodes import location
from broker_sql.errors import AnalysisError
from broker_sql.planner import lineage
from broker_sql.planner.source import source_stage
from broker_sql.planner.stage import PlanContext, Row, Stage, key_columns, no_key_if_null
from broker_sql.statements import JoinKind
from broker_sql.types import quoted
from broker_streams.dsl.materialized import Materialized
from broker_streams.plan.windows import JoinWindows

_DEFAULT_GRACE_MS: Final = 86_400_000


def joined_stage(analysis: Analysis, context: PlanContext) -> Stage:
    """The joined sources, with the synthetic key as last column if there is one."""
    kafka = [each.label for each in analysis.sources if each.info.value_format.name == "KAFKA"]
    if kafka:
        raise AnalysisError(
            f"{', '.join(kafka)} has the value format KAFKA, which joins do not support: take JSON, for instance",
            analysis.query.location,
        )
    _check_partitions(analysis, context)
    return _Joins(analysis, context).stage(len(analysis.joins), "")


def _check_partitions(analysis: Analysis, context: PlanContext) -> None:
    """Raises AnalysisError: records of one key would be in different partitions."""
    first = analysis.sources[0]
    partitions = first.info.partitions
    for step in analysis.joins:
        if step.form is JoinForm.FOREIGN_KEY:
            continue
        if not step.left_has_key or not step.right_has_key:
            # A side is repartitioned, to as many partitions as its partner has.
            return
        others = step.source.info.partitions
        if partitions is not None and others is not None and partitions != others:
            raise AnalysisError(
                f"{quoted(first.label)} has {partitions} partitions and {quoted(step.source.label)} {others}: sources"
                " that are joined have equally many",
                location(step.left),
            )


class _Joins:
    def __init__(self, analysis: Analysis, context: PlanContext) -> None:
        self._analysis, self._context = analysis, context

    def stage(self, steps: int, prefix: str) -> Stage:
        """The result of the first `steps` joins. `prefix` is L_ for each join around it."""
        return _Join(self._analysis, self._analysis.joins[steps - 1], self._context, prefix, steps, self).stage()

    def left(self, steps: int, prefix: str, is_rekeyed: bool) -> Stage:
        """The left side of a join."""
        if steps == 1:
            return self._source(self._analysis.sources[0], f"KafkaTopic_{prefix}Left", is_rekeyed)
        return self.stage(steps - 1, f"{prefix}L_")

    def right(self, source: Labelled, prefix: str, is_rekeyed: bool) -> Stage:
        return self._source(source, f"KafkaTopic_{prefix}Right", is_rekeyed)

    def _source(self, source: Labelled, name: str, is_rekeyed: bool) -> Stage:
        # A table that gets other keys at once has its rows in the store below them.
        return source_stage(source, self._context, name, f"{source.label}_", is_stored=not is_rekeyed)

    def keys(self, steps: int) -> _Keys:
        """How both sides of a join get keys of equal bytes for equal values."""
        step = self._analysis.joins[steps - 1]
        left = self._analysis.sources[0].info.key_format if steps == 1 else self.keys(steps - 1).format
        right = step.source.info.key_format
        # Bytes of such keys have ids of schemas in them, which differ for equal values.
        right_is_registered = right.name in IN_REGISTRY
        if step.form is JoinForm.FOREIGN_KEY:
            return _Keys(left, right, False, right_is_registered)
        wanted = right if not step.left_has_key and step.right_has_key else left
        if wanted.name == "NONE":
            wanted = Format(self._context.settings.text(KEY_FORMAT, "KAFKA").upper())
        left_is_registered = steps == 1 and left.name in IN_REGISTRY
        return _Keys(
            wanted,
            wanted,
            not step.left_has_key or left_is_registered or left != wanted,
            not step.right_has_key or right_is_registered or right != wanted,
        )


@dataclass(frozen=True)
class _Keys:
    """`format` is that of the result's keys, `right_format` that of the right side. A side that `needs` keys is
    repartitioned; others have them already.
    """

    format: Format
    right_format: Format
    left_needs: bool
    right_needs: bool


class _Join:
    def __init__(
        self, analysis: Analysis, step: JoinStep, context: PlanContext, prefix: str, steps: int, joins: _Joins
    ) -> None:
        self._analysis, self._step, self._context, self._joins = analysis, step, context, joins
        self._prefix, self._steps = prefix, steps
        self._name = f"{prefix}Join"
        self._keys = joins.keys(steps)
        is_last = steps == len(analysis.joins)
        self._synthetic = analysis.synthetic if is_last else None

    def stage(self) -> Stage:
        step = self._step
        if step.form is JoinForm.STREAM_TABLE:
            right, left = self._right(), self._left()
        else:
            left, right = self._left(), self._right()
        self._check_equal_windows(left, right)
        match step.form:
            case JoinForm.FOREIGN_KEY:
                return self._foreign_key(left, right)
            case JoinForm.STREAM_STREAM:
                return self._streams(left, right)
            case JoinForm.STREAM_TABLE:
                return self._stream_and_table(left, right)
        return self._tables(left, right)

    # Sides.

    def _left(self) -> Stage:
        keys = self._keys
        found = self._joins.left(self._steps, self._prefix, keys.left_needs)
        if keys.left_needs:
            found = self._rekeyed(found, self._step.left, keys.format, "Left")
        return self._labelled(found) if self._steps == 1 else found

    def _right(self) -> Stage:
        keys = self._keys
        found = self._joins.right(self._step.source, self._prefix, keys.right_needs)
        if keys.right_needs:
            found = self._rekeyed(found, self._step.right, keys.right_format, "Right")
        return self._labelled(found)

    def _labelled(self, stage: Stage) -> Stage:
        # ksqlDB has a node here that puts the label in front of names, and another one for metrics of streams.
        self._context.count_name("KSTREAM-PEEK-")
        return stage

    def _rekeyed(self, stage: Stage, node: exp.Expr, key_format: Format, side: str) -> Stage:
        if stage.window is not None and not self._is_key(stage, node):
            raise AnalysisError(
                "a source in windows cannot be repartitioned: join it by its key, with a source of the same key format",
                location(node),
            )
        kind = type_of(node, stage.layout, self._context.settings)
        evaluate = stage.evaluator(node)
        keeps = stage.window is not None
        name = f"{self._prefix}{side}SourceKeyed"
        key = key_columns([(node.name if is_column(node) else "ROWKEY", kind)])
        made = stage.to(None, key=key, key_format=key_format)
        if not stage.is_table:

            def new_key(key: Any, row: Row | None) -> Any:
                if keeps:
                    return key
                return None if row is None else no_key_if_null((evaluate(row),))

            stream = stage.stream.select_key(
                lineage.declare(new_key, key=lineage.row_of([(key[0].name, node)])), name=f"{name}-SelectKey"
            )
            return made.to(stream)
        key_serde, row_serde = made.key_serde(), made.row_serde()
        # The rows of a table have their key already; only its bytes become others.
        mapper = lineage.declare(lambda key, row: key, key={lineage.EVERY: "key"})
        stream = stage.table.to_stream().select_key(mapper, name=f"{name}-SelectKey-Mapper")
        stream = stream.repartition(name=f"{name}-SelectKey", key=key_serde, value=row_serde)
        store = Materialized(f"{name}-Materialize", key=key_serde, value=row_serde)
        return made.to(stream.to_table(name=f"{name}-SelectKey", materialized=store))

    def _is_key(self, stage: Stage, node: exp.Expr) -> bool:
        """Keys in windows whose bytes become others: their values stay."""
        return is_column(node) and [each.name for each in stage.key] == [bare(node).name]

    def _check_equal_windows(self, left: Stage, right: Stage) -> None:
        if left.window != right.window and not self._keys.left_needs and not self._keys.right_needs:
            raise AnalysisError(
                "sources with windows of different kinds or sizes cannot be joined: their keys differ",
                location(self._step.left),
            )

    def _result(self, flow: Any, left: Stage, right: Stage) -> Stage:
        layout = left.layout.with_columns(right.layout.columns)
        key = left.key
        if self._step.kind is JoinKind.FULL:
            # No column of a source has the key of all rows.
            key = key_columns([(self._synthetic or SYNTHETIC_KEY, left.key[0].type)])
        if self._synthetic is not None:
            layout = layout.with_columns([(self._synthetic, left.key[0].type)])
        return left.to(flow, layout=layout, key=key)

    def _joiner(self, left: Stage, right: Stage) -> tuple[Callable[[Any, Row | None, Row | None], Row], dict[str, Any]]:
        """joiner(key, left, right), and the lineage of its result."""
        no_left, no_right = (None,) * len(left.layout.columns), (None,) * len(right.layout.columns)
        origins = {name: lineage.Copied(f"left.{name}") for name in left.layout.index}
        origins |= {name: lineage.Copied(f"right.{name}") for name in right.layout.index}
        if self._synthetic is None:

            def joined(key: Any, one: Row | None, other: Row | None) -> Row:
                return (*(no_left if one is None else one), *(no_right if other is None else other))

            return joined, origins
        key_origins = [
            *_listed(lineage.made_of(self._step.left, "left")),
            *_listed(lineage.made_of(self._step.right, "right")),
        ]
        left_key, right_key = left.evaluator(self._step.left), right.evaluator(self._step.right)

        def with_key(key: Any, one: Row | None, other: Row | None) -> Row:
            value = None
            if one is not None:
                value = left_key(one)
            if value is None and other is not None:
                value = right_key(other)
            return (*(no_left if one is None else one), *(no_right if other is None else other), value)

        return with_key, {**origins, self._synthetic: key_origins}

    # Forms.

    def _streams(self, left: Stage, right: Stage) -> Stage:
        step, within = self._step, self._step.within
        assert within is not None
        is_right = step.kind is JoinKind.RIGHT
        joiner, origins = self._joiner(left, right)
        before_ms, after_ms = within.before.ms, within.after.ms
        one, other = (right, left) if is_right else (left, right)
        if is_right:
            before_ms, after_ms = after_ms, before_ms
        grace_ms = max(0, _DEFAULT_GRACE_MS - before_ms - after_ms) if within.grace is None else within.grace.ms
        options = {
            "with_key": True,
            "name": self._name,
            "key": left.key_serde(),
            "value": one.row_serde(),
            "other_value": other.row_serde(),
            "eager": within.grace is None,
        }
        call = (lambda key, a, b: joiner(key, b, a)) if is_right else joiner
        call = lineage.declare(call, value=_swapped(origins) if is_right else origins)
        join = {JoinKind.INNER: "join", JoinKind.FULL: "outer_join"}.get(step.kind, "left_join")
        windows = JoinWindows(before_ms, after_ms, grace_ms)
        stream = getattr(one.stream, join)(other.stream, call, windows, **options)
        return self._result(stream, left, right)

    def _stream_and_table(self, left: Stage, right: Stage) -> Stage:
        joiner, origins = self._joiner(left, right)
        join = left.stream.left_join if self._step.kind is JoinKind.LEFT else left.stream.join
        stream = join(
            right.table,
            lineage.declare(joiner, value=origins),
            with_key=True,
            name=self._name,
            key=left.key_serde(),
            value=left.row_serde(),
        )
        return self._result(stream, left, right)

    def _tables(self, left: Stage, right: Stage) -> Stage:
        step = self._step
        joiner, origins = self._joiner(left, right)
        is_right = step.kind is JoinKind.RIGHT
        one, other = (right, left) if is_right else (left, right)
        join = {JoinKind.INNER: one.table.join, JoinKind.FULL: one.table.outer_join}.get(step.kind, one.table.left_join)
        call = (lambda a, b: joiner(None, b, a)) if is_right else (lambda a, b: joiner(None, a, b))
        call = lineage.declare(call, value=_swapped(origins) if is_right else origins)
        return self._result(join(other.table, call), left, right)

    def _foreign_key(self, left: Stage, right: Stage) -> Stage:
        joiner, origins = self._joiner(left, right)
        evaluate = left.evaluator(self._step.left)

        def foreign_key(row: Row) -> Row | None:
            return no_key_if_null((evaluate(row),))

        # Both topics of the join have keys and rows of their own.
        left_table, right_table = left.table, right.table
        left_table.key_serde, left_table.value_serde = left.key_serde(), left.row_serde()
        right_table.key_serde, right_table.value_serde = right.key_serde(), right.row_serde()
        join = left_table.left_join if self._step.kind is JoinKind.LEFT else left_table.join
        made = self._result(None, left, right)
        store = Materialized(value=made.row_serde())
        call = lineage.declare(lambda a, b: joiner(None, a, b), value=origins)
        lineage.declare(foreign_key, key=lineage.row_of([(right.key[0].name, self._step.left)]))
        table = join(right_table, call, foreign_key=foreign_key, materialized=store)
        return made.to(table)


def _listed(declared: Any) -> list[str]:
    return [declared] if isinstance(declared, str) else list(declared)


def _swapped(origins: dict[str, Any]) -> dict[str, Any]:
    """For a join whose sides change places."""
    other = {"left": "right", "right": "left"}

    def swap(text: str) -> str:
        side, _, rest = text.partition(".")
        return type(text)(f"{other[side]}.{rest}")

    return {
        name: swap(each) if isinstance(each, str) else [swap(text) for text in each] for name, each in origins.items()
    }
