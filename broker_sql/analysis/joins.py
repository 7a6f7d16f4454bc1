"""Joins: which sides, by which expressions, and the key of the result.

Joins are taken from left to right. The key of a result is one of the columns that are equal in it: the projection says
which. If no side is a column, or rows of both sides may be missing, the join adds a key column of its own, ROWKEY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from broker_sql.analysis.names import Labelled, Names
from broker_sql.analysis.trees import bare, columns, is_column, signature
from broker_sql.catalog import Catalog, KeyWindow
from broker_sql.dialect import to_text
from broker_sql.dialect.nodes import location
from broker_sql.errors import AnalysisError, Location
from broker_sql.statements import Join, JoinKind, WindowKind, Within
from broker_sql.types import quoted

SYNTHETIC_KEY = "ROWKEY"


class JoinForm(Enum):
    STREAM_STREAM = "stream-stream"
    STREAM_TABLE = "stream-table"
    TABLE_TABLE = "table-table"
    FOREIGN_KEY = "foreign-key"


@dataclass(frozen=True)
class JoinStep:
    """A join of all that is on the left with one source. `left` and `right` are the expressions over rows of the joined
    sources (see names.py) whose values are equal. `keys` are the columns that may be the key; none: it is synthetic.
    """

    kind: JoinKind
    form: JoinForm
    source: Labelled
    left: exp.Expr
    right: exp.Expr
    within: Within | None
    keys: tuple[exp.Expr, ...]
    # All expressions that are equal in the result, among them `keys`.
    equal: tuple[exp.Expr, ...]
    # The key of the left and of the right side is what they are joined by, so that it need not be made first.
    left_has_key: bool
    right_has_key: bool


def joined(
    sources: Sequence[Labelled], joins: Sequence[Join], catalog: Catalog
) -> tuple[tuple[JoinStep, ...], tuple[exp.Expr, ...]]:
    """The steps, and the columns that may be the key of the last result. Raises AnalysisError."""
    labels = [each.label for each in sources]
    for at, (source, join) in enumerate(zip(sources[1:], joins, strict=True)):
        names = [each.info.name for each in sources[: at + 1]]
        if source.info.name in names and (source.label not in labels[: at + 1] or len(sources) == 2):
            raise AnalysisError(
                f"{quoted(source.info.name)} is joined with itself, which is not possible yet", join.location
            )
        if source.info.name in names:
            raise AnalysisError(f"{quoted(source.info.name)} is in the join twice", join.location)
    names_of = Names(sources, catalog=catalog)
    first = sources[0]
    is_table = first.info.is_table
    keys: tuple[exp.Expr, ...] = tuple(
        names_of.resolved(exp.column(each.name, table=first.label, quoted=True), "JOIN")
        for each in first.info.schema.key
    )
    steps: list[JoinStep] = []
    for at, join in enumerate(joins):
        step = _Join(names_of, sources[: at + 1], sources[at + 1], join, is_table, keys, is_first=at == 0).step()
        steps.append(step)
        keys = step.equal
        is_table = step.form in (JoinForm.TABLE_TABLE, JoinForm.FOREIGN_KEY)
    return tuple(steps), steps[-1].keys


class _Join:
    def __init__(
        self,
        names: Names,
        lefts: Sequence[Labelled],
        right: Labelled,
        join: Join,
        left_is_table: bool,
        left_keys: tuple[exp.Expr, ...],
        is_first: bool,
    ) -> None:
        self._names = names
        self._lefts = lefts
        self._right = right
        self._join = join
        self._left_is_table = left_is_table
        self._left_keys = left_keys
        self._is_first = is_first
        self._where: Location | None = location(join.on) or join.location

    def _wrong(self, message: str, node: exp.Expr | None = None) -> AnalysisError:
        return AnalysisError(message, (location(node) if node is not None else None) or self._where)

    def step(self) -> JoinStep:
        left, right = self._sides()
        form = self._form()
        self._check_windows(form)
        key = [signature(self._names.resolved(self._column(each.name), "JOIN")) for each in self._right.info.schema.key]
        right_has_key = len(key) == 1 and signature(right) == key[0]
        left_signature = signature(left)
        left_has_key = left_signature in [signature(each) for each in self._left_keys]
        # A table of several key columns has no key that one expression is equal to.
        if self._is_first and len(self._left_keys) != 1:
            left_has_key = False
        if form is JoinForm.STREAM_TABLE and not right_has_key:
            raise self._wrong(f"a stream is joined with a table by the table's primary key: {self._shown()}")
        if form is JoinForm.TABLE_TABLE:
            if not right_has_key:
                raise self._wrong(
                    f"a table is joined with a table by the primary key of the right one: {self._shown()}"
                )
            if not left_has_key:
                form = JoinForm.FOREIGN_KEY
                self._check_foreign_key()
            if form is JoinForm.FOREIGN_KEY and self._right.info.window is not None:
                raise self._wrong("a join by a foreign key is not possible for tables in windows")
        equal = self._equal(form, left, right, left_has_key)
        return JoinStep(
            self._join.kind,
            form,
            self._right,
            left,
            right,
            self._join.within,
            tuple(each for each in equal if is_column(each)) if self._join.kind is not JoinKind.FULL else (),
            equal,
            left_has_key,
            right_has_key,
        )

    def _column(self, name: str) -> exp.Expr:
        return exp.column(name, table=self._right.label, quoted=True)

    def _shown(self) -> str:
        return to_text(self._join.on)

    def _equal(self, form: JoinForm, left: exp.Expr, right: exp.Expr, left_has_key: bool) -> tuple[exp.Expr, ...]:
        if form is JoinForm.FOREIGN_KEY:
            return self._left_keys
        if self._join.kind is JoinKind.FULL and form is JoinForm.STREAM_STREAM:
            return ()
        return (*(self._left_keys if left_has_key else (left,)), right)

    def _sides(self) -> tuple[exp.Expr, exp.Expr]:
        """The expressions of the left and of the right side, whatever side of `=` they are on."""
        on = bare(self._join.on)
        if isinstance(on, exp.And | exp.Or):
            raise self._wrong(f"a join has one condition, an equality: {self._shown()} has several")
        if not isinstance(on, exp.EQ):
            raise self._wrong(f"a join needs an equality: {self._shown()} is none")
        one, other = on.this, on.expression
        owners = [self._owner(each) for each in (one, other)]
        if owners[0] == owners[1]:
            raise self._wrong(
                f"both sides of {self._shown()} are of {quoted(owners[0])}: they must be of different sources"
            )
        if self._right.label not in owners:
            raise self._wrong(f"{self._shown()} must name {quoted(self._right.label)}, which is joined here")
        if owners[0] == self._right.label:
            one, other = other, one
        return self._names.resolved(one, "JOIN ON"), self._names.resolved(other, "JOIN ON")

    def _owner(self, node: exp.Expr) -> str:
        """The label of the only source that an expression is of."""
        scope = Names([*self._lefts, self._right])
        owners = {owner.label for each in columns(node) if (owner := scope.owner(each, "JOIN ON")[0]) is not None}
        if len(owners) != 1:
            raise self._wrong(
                f"{to_text(node)} in {self._shown()} must have columns of exactly one source"
                f"; it has those of {', '.join(sorted(owners)) or 'none'}",
                node,
            )
        return owners.pop()

    def _form(self) -> JoinForm:
        right_is_table, within, kind = self._right.info.is_table, self._join.within, self._join.kind
        if not self._left_is_table and not right_is_table:
            if within is None:
                raise self._wrong("a join of two streams needs WITHIN, the time that its records may be apart")
            return JoinForm.STREAM_STREAM
        if within is not None:
            raise self._wrong("WITHIN is only for joins of two streams")
        if self._left_is_table and not right_is_table:
            raise self._wrong("a table cannot be joined with a stream: write the stream on the left")
        if self._left_is_table:
            return JoinForm.TABLE_TABLE
        if kind in (JoinKind.FULL, JoinKind.RIGHT):
            raise self._wrong(f"{kind.value} JOIN of a stream with a table is not possible: INNER and LEFT are")
        return JoinForm.STREAM_TABLE

    def _check_foreign_key(self) -> None:
        if not self._is_first:
            raise self._wrong(f"a join by a foreign key is possible as the first join only: {self._shown()}")
        if self._join.kind in (JoinKind.FULL, JoinKind.RIGHT):
            raise self._wrong(f"{self._join.kind.value} JOIN by a foreign key is not possible: INNER and LEFT are")

    def _check_windows(self, form: JoinForm) -> None:
        """Keys in windows only meet keys in windows of the same form."""
        left, right = self._lefts[0], self._right
        one, other = left.info.window, right.info.window
        if (one is None) != (other is None):
            inside, outside = (left, right) if one is not None else (right, left)
            raise self._wrong(
                f"{quoted(inside.label)} has windows and {quoted(outside.label)} has none: they cannot be joined"
            )
        if one is not None and other is not None and _is_session(one) != _is_session(other):
            raise self._wrong(
                f"{quoted(left.label)} has {one.kind.value} windows, {quoted(right.label)} {other.kind.value} windows"
                ": sessions are joined with sessions only"
            )


def _is_session(window: KeyWindow) -> bool:
    return window.kind is WindowKind.SESSION
