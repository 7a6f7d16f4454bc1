"""Joins of two tables: what each side passes on for a change, and the merge."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.plan.steps.table_joins import TableJoinMerge, TableJoinSide
from broker_streams.plan.value_getters import (
    FilterGetter,
    JoinGetter,
    MapValuesGetter,
    StoreGetter,
    TransformValuesGetter,
)
from broker_streams.records import Change, ValueAndTimestamp
from tests.broker_streams.kernel.processors.running import Running, function, rows_of

JOINER = function(lambda left, right: f"{left}+{right}")
# needs_this, needs_other, is_right
INNER = (True, True, False)
LEFT = (True, False, False)
RIGHT_OF_LEFT = (False, True, True)
OUTER = (False, False, False)
ROWS = StoreGetter("other")


def side(needs: tuple[bool, bool, bool], row: tuple[Any, int] | None, getter: Any = ROWS, **options: Any) -> Running:
    """A side whose other table has this row for the key a."""
    running = Running(TableJoinSide(getter, JOINER, *needs, **options), rows_of("other"))
    if row is not None:
        running.opened.at(row[1])
        running.opened.store.put("a", ValueAndTimestamp(*row))
    return running


CASES: list[tuple[tuple[bool, bool, bool], bool, tuple[Any, Any], Change | None]] = [
    (INNER, True, ("n", "o"), Change("n+r", "o+r")),
    (INNER, True, (None, "o"), Change(None, "o+r")),
    (INNER, True, ("n", None), Change("n+r", None)),
    (INNER, False, ("n", "o"), None),
    (LEFT, True, ("n", "o"), Change("n+r", "o+r")),
    (LEFT, True, (None, None), Change(None, None)),
    (LEFT, False, ("n", "o"), Change("n+None", "o+None")),
    (LEFT, False, (None, None), None),
    (RIGHT_OF_LEFT, True, ("n", "o"), Change("r+n", "r+o")),
    (RIGHT_OF_LEFT, True, (None, "o"), Change("r+None", "r+o")),
    (RIGHT_OF_LEFT, True, (None, None), Change("r+None", "r+None")),
    (RIGHT_OF_LEFT, False, ("n", "o"), None),
    (OUTER, True, (None, "o"), Change("None+r", "o+r")),
    (OUTER, True, ("n", None), Change("n+r", "None+r")),
    (OUTER, False, ("n", None), Change("n+None", None)),
    (OUTER, False, (None, None), None),
]


@pytest.mark.parametrize(("needs", "has_row", "values", "expected"), CASES)
def test_a_change_is_joined_with_the_row_of_the_other_table(
    needs: tuple[bool, bool, bool], has_row: bool, values: tuple[Any, Any], expected: Change | None
) -> None:
    """If this fails, the join has a row too many, or keeps one that should go."""
    running = side(needs, ("r", 7) if has_row else None, send_old_values=True)
    found = running.change("a", *values, 5)
    assert found == ([] if expected is None else [("a", expected, 7 if has_row else 5)])


def test_a_join_leaves_out_old_rows_that_nobody_asked_for() -> None:
    """If this fails, the joiner of the user is called twice for each change."""
    assert side(INNER, ("r", 3)).change("a", "n", "o", 5) == [("a", Change("n+r", None), 5)]


def test_rows_that_cannot_be_joined_are_counted() -> None:
    """If this fails, lost rows do not show in dropped-records-total."""
    running = side(LEFT, None, reads_versions=True)
    assert running.change(None, "n", None, 5) == []
    assert running.change("a", "n", None, 5, is_latest=False) == []
    assert running.dropped == 2


class Doubling:
    def init(self, context: Any) -> None:
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        return f"{value}{self.context.task.timestamp}"

    def close(self) -> None:
        """Nothing is open."""


STARTS = function(lambda key, value: value.startswith("r"))
GETTERS: list[tuple[Any, str | None]] = [
    (FilterGetter(ROWS, STARTS), "r"),
    (FilterGetter(ROWS, STARTS, negate=True), None),
    (MapValuesGetter(ROWS, function(str.upper)), "R"),
    (MapValuesGetter(ROWS, function(lambda key, value: key + value), with_key=True), "ar"),
    (MapValuesGetter(ROWS, function(lambda value: None)), None),
    # A transformer sees the time of the row.
    (TransformValuesGetter(ROWS, function(Doubling)), "r7"),
    (JoinGetter("inner", ROWS, ROWS, JOINER), "r+r"),
    (JoinGetter("inner", ROWS, FilterGetter(ROWS, STARTS, negate=True), JOINER), None),
    (JoinGetter("left", ROWS, FilterGetter(ROWS, STARTS, negate=True), JOINER), "r+None"),
    (JoinGetter("left", FilterGetter(ROWS, STARTS, negate=True), ROWS, JOINER), None),
    (JoinGetter("outer", FilterGetter(ROWS, STARTS, negate=True), ROWS, JOINER), "None+r"),
]


@pytest.mark.parametrize(("getter", "row"), GETTERS, ids=lambda each: type(each).__name__)
def test_rows_of_a_table_without_a_store_are_computed(getter: Any, row: str | None) -> None:
    """If this fails, a join with a filtered or mapped table reads rows that the table does not have."""
    running = side(LEFT, ("r", 7), getter)
    assert running.change("a", "n", None, 5) == [("a", Change(f"n+{row}", None), 5 if row is None else 7)]
    assert running.opened.task.timestamp == 5


def test_a_merge_keeps_results_only_in_a_store() -> None:
    """If this fails, results of a join are not found by queries, or old rows are lost."""
    assert Running(TableJoinMerge()).change("a", "n", "o", 5) == [("a", Change("n", None), 5)]
    passing = Running(TableJoinMerge(send_old_values=True))
    assert passing.change("a", "n", "o", 5, is_latest=False) == [("a", Change("n", "o", False), 5)]
    storing = Running(TableJoinMerge("rows", send_old_values=True), rows_of("rows"))
    assert storing.change("a", "n", "o", 5) == [("a", Change("n", "o"), 5)]
    assert storing.opened.store.get("a") == ValueAndTimestamp("n", 5)
