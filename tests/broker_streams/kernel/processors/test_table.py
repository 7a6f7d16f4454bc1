"""Tables: changes of rows with and without a store, and aggregations with adder and subtractor."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.plan.steps import Step
from broker_streams.plan.steps import tables as steps
from broker_streams.records import Change, ValueAndTimestamp
from tests.broker_streams.kernel.processors.running import Running, function, rows_of
from tests.broker_streams.kernel.stores.support import LONG


def test_a_source_without_a_store_knows_no_old_rows() -> None:
    """If this fails, a table that is only passed on needs a store, and an application more disk."""
    running = Running(steps.TableSource())
    assert running.put("a", "1", 5) == [("a", Change("1", None), 5)]
    assert running.put("a", None, 6) == [("a", Change(None, None), 6)]
    assert running.put(None, "1", 7) == []
    assert running.dropped == 1


def test_a_source_with_a_store_passes_the_old_row_on() -> None:
    """If this fails, an aggregation below adds a new row without removing the one before."""
    running = Running(steps.TableSource("rows", send_old_values=True), rows_of("rows"))
    assert running.put("a", "1", 5) == [("a", Change("1", None), 5)]
    # A record that is older than its row replaces it: only versioned stores know better.
    assert running.put("a", "2", 3) == [("a", Change("2", "1"), 3)]
    assert running.put("a", None, 6) == [("a", Change(None, "2"), 6)]
    assert running.put(None, "3", 7) == []
    assert running.dropped == 1
    assert [each[1:] for each in running.opened.log] == [(b"a", b"1", 5), (b"a", b"2", 3), (b"a", None, 6)]


def test_old_rows_are_passed_on_only_where_they_are_asked_for() -> None:
    """If this fails, a filter below deletes rows that it should not know, and writes more tombstones than Kafka."""
    running = Running(steps.TableSource("rows"), rows_of("rows"))
    running.put("a", "1", 5)
    assert running.put("a", "2", 6) == [("a", Change("2", None), 6)]


def test_a_cached_table_passes_changes_on_when_they_leave_the_cache() -> None:
    """If this fails, results are written twice, or a commit lacks some."""
    running = Running(
        steps.TableSource("rows", send_old_values=True), rows_of("rows", caching=True), cache_bytes=10_000
    )
    assert running.put("a", "1", 5) == running.put("a", "2", 6) == []
    running.opened.store.flush()
    assert running.out == [("a", Change("2", None), 6)]
    running.put("a", "3", 7)
    running.opened.store.flush()
    assert running.out[1:] == [("a", Change("3", "2"), 7)]


def over(value: int) -> Any:
    return function(lambda key, row: row > value)


FILTERS: list[tuple[bool, bool, list[tuple[Any, Any]], list[Change]]] = [
    # Without old values, each row that is filtered out is a deletion.
    (False, False, [(5, 1), (1, 5), (1, 1)], [Change(5, None), Change(None, None), Change(None, None)]),
    # With old values, a deletion of a row that was not there is no change.
    (True, False, [(5, 1), (1, 5), (1, 1)], [Change(5, None), Change(None, 5)]),
    (True, True, [(5, 1), (1, 5), (1, 1)], [Change(5, None), Change(None, 5), Change(None, None)]),
]


@pytest.mark.parametrize(("send_old_values", "reads_versions", "changes", "expected"), FILTERS)
def test_a_filter_deletes_rows(
    send_old_values: bool, reads_versions: bool, changes: list[tuple[Any, Any]], expected: list[Change]
) -> None:
    """If this fails, a row that no longer matches stays in the result."""
    step = steps.TableFilter(over(2), send_old_values=send_old_values, reads_versions=reads_versions)
    running = Running(step)
    for new, old in changes:
        running.change("a", new, old, 5)
    assert [value for _, value, _ in running.out] == expected


def test_a_filter_with_a_store_takes_old_rows_from_it() -> None:
    """If this fails, a materialized filter sends an old value that it never passed on."""
    step = steps.TableFilter(over(2), negate=True, store="rows", send_old_values=True)
    running = Running(step, rows_of("rows", value_serde=LONG))
    assert running.change("a", 1, None, 5) == [("a", Change(1, None), 5)]
    assert running.change("a", 7, None, 6) == [("a", Change(None, 1), 6)]
    assert running.change("a", 8, 7, 7) == []
    assert running.opened.store.get("a") is None


def test_a_filter_keeps_the_mark_of_an_older_record() -> None:
    """If this fails, an aggregation of a versioned table counts a row that was replaced long ago."""
    running = Running(steps.TableFilter(over(2)))
    assert running.change("a", 5, None, 5, is_latest=False) == [("a", Change(5, None, False), 5)]


def test_map_values_computes_old_rows_too() -> None:
    """If this fails, a sum of mapped rows subtracts other values than it added."""
    running = Running(steps.TableMapValues(function(lambda value: value * 10), send_old_values=True))
    assert running.change("a", 2, 1, 5) == [("a", Change(20, 10), 5)]
    assert running.change("a", None, 2, 6) == [("a", Change(None, 20), 6)]
    with_key = Running(
        steps.TableMapValues(function(lambda key, value: f"{key}{value}"), True, "rows"), rows_of("rows")
    )
    assert with_key.change("a", 2, 1, 5) == [("a", Change("a2", None), 5)]
    assert with_key.opened.store.get("a") == ValueAndTimestamp("a2", 5)


class Transformer:
    def init(self, context: Any) -> None:
        self.context = context

    def transform(self, key: Any, value: Any) -> Any:
        return f"{key}:{value}"

    def close(self) -> None:
        self.context = None


class Talking(Transformer):
    def transform(self, key: Any, value: Any) -> Any:
        self.context.forward_all(value)


def test_a_transformer_is_asked_about_deleted_rows() -> None:
    """If this fails, a transformer that replaces missing rows by a default does not."""
    running = Running(steps.TableTransformValues(function(Transformer), send_old_values=True))
    assert running.change("a", None, "1", 5) == [("a", Change("a:None", "a:1"), 5)]
    running.processor.close()
    with pytest.raises(RuntimeError, match="cannot forward"):
        Running(steps.TableTransformValues(function(Talking))).change("a", 1, None, 5)


def test_a_stream_of_a_table_has_its_new_rows() -> None:
    """If this fails, `to_stream` writes changes in place of values."""
    assert Running(steps.TableToStream()).change("a", 2, 1, 5) == [("a", 2, 5)]


def by_value(key: Any, value: Any) -> Any:
    return None if value == "none" else (value[0], key if value[0] != "-" else None)


GROUPS: list[tuple[Any, Any, list[tuple[Any, Change]]]] = [
    ("x1", None, [("x", Change("a", None))]),
    (None, "x1", [("x", Change(None, "a"))]),
    # One record for a change within a group, two for a move: the removal comes first.
    ("x2", "x1", [("x", Change("a", "a"))]),
    ("y1", "x1", [("x", Change(None, "a")), ("y", Change("a", None))]),
    ("-1", "x1", [("x", Change(None, "a"))]),
    ("none", "x1", [("x", Change(None, "a"))]),
    (None, None, []),
]


@pytest.mark.parametrize(("new", "old", "expected"), GROUPS)
def test_a_grouping_moves_rows(new: Any, old: Any, expected: list[tuple[Any, Change]]) -> None:
    """If this fails, a row counts in two groups, or in none."""
    running = Running(steps.TableGroup(function(by_value)))
    assert running.change("a", new, old, 5) == [(key, change, 5) for key, change in expected]


def test_a_change_is_split_for_older_instances() -> None:
    """If this fails, an upgrade instance by instance (upgrade.from) writes records that the older ones cannot read."""
    running = Running(steps.TableGroup(function(by_value)))
    running.opened.task.splits_changes = True
    assert running.change("a", "x2", "x1", 5) == [("x", Change(None, "a"), 5), ("x", Change("a", None), 5)]


def test_a_grouping_refuses_what_cannot_be() -> None:
    """If this fails, a row without a group is lost in silence, or an older version counts."""
    running = Running(steps.TableGroup(function(by_value)))
    with pytest.raises(ValueError, match="no key"):
        running.change(None, "x1", None, 5)
    with pytest.raises(TypeError, match="returns"):
        Running(steps.TableGroup(function(lambda key, value: 7))).change("a", "x", None, 5)
    versioned = Running(steps.TableGroup(function(by_value), reads_versions=True))
    assert versioned.change("a", "x1", None, 5, is_latest=False) == []
    assert running.change("a", "x1", None, 5, is_latest=False) == [("x", Change("a", None, False), 5)]


def test_a_count_of_a_table_goes_down_again() -> None:
    """If this fails, rows that moved are counted in their old group for ever."""
    running = Running(steps.TableCount("counts", send_old_values=True), rows_of("counts", value_serde=LONG))
    assert running.change("x", "a", None, 5) == [("x", Change(1, None), 5)]
    # The aggregate keeps its latest timestamp.
    assert running.change("x", "b", None, 3) == [("x", Change(2, 1), 5)]
    assert running.change("x", None, "a", 8) == [("x", Change(1, 2), 8)]
    # A removal from a group that is not there is a deletion at the time of the record.
    assert running.change("y", None, "a", 2) == [("y", Change(None, None), 2)]
    with pytest.raises(ValueError, match="no key"):
        running.change(None, "a", None, 5)


def test_a_reduction_begins_again_after_its_last_row() -> None:
    """If this fails, a group that was empty has another timestamp or value than in Kafka Streams."""
    step = steps.TableReduce(
        "sums", function(lambda one, other: one + other), function(lambda one, other: one - other or None)
    )
    running = Running(step, rows_of("sums", value_serde=LONG))
    assert running.change("x", 7, None, 5) == [("x", Change(7, None), 5)]
    assert running.change("x", 3, None, 4) == [("x", Change(10, None), 5)]
    assert running.change("x", 4, 3, 6) == [("x", Change(11, None), 6)]
    # The subtractor returned None: the new value is the aggregate, at the later time of the removed row.
    assert running.change("x", 2, 11, 1) == [("x", Change(2, None), 6)]
    assert running.change("x", None, 2, 9) == [("x", Change(None, None), 9)]
    assert running.change("x", 5, None, 1) == [("x", Change(5, None), 1)]


def test_an_aggregation_begins_with_its_initial_value() -> None:
    """If this fails, an aggregate that the subtractor ended keeps rows, or keeps no timestamp."""
    step = steps.TableAggregate(
        "sums",
        function(lambda: 100),
        function(lambda key, value, aggregate: aggregate + value),
        function(lambda key, value, aggregate: None if value == aggregate else aggregate - value),
    )
    running = Running(step, rows_of("sums", value_serde=LONG))
    assert running.change("x", 1, None, 5) == [("x", Change(101, None), 5)]
    assert running.change("x", 2, 1, 3) == [("x", Change(102, None), 5)]
    assert running.change("x", 3, 102, 2) == [("x", Change(103, None), 5)]
    # An old value of a group that is not there is not removed.
    assert running.change("y", 4, 3, 2) == [("y", Change(104, None), 2)]


@pytest.mark.parametrize("step", [steps.TableSource("other"), steps.TableCount("other")], ids=lambda each: each.KIND)
def test_a_step_with_an_unknown_store_is_refused(step: Step) -> None:
    """If this fails, a plan with a wrong name fails at its first record."""
    with pytest.raises(LookupError, match="other"):
        Running(step, rows_of("rows"))
