"""count, reduce and aggregate without windows."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.plan.steps.aggregates import Aggregate, Count, Fold, Reduce
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import Change, ValueAndTimestamp
from tests.broker_streams.kernel.processors.running import Running, function, rows_of
from tests.broker_streams.kernel.stores.support import LONG

COUNTS = rows_of("counts", value_serde=LONG)


def test_records_without_key_or_value_are_dropped() -> None:
    """If this fails, a tombstone of the input is counted as a record."""
    running = Running(Aggregate("counts", Count()), COUNTS)
    assert running.put("a", "x", 5) == [("a", Change(1, None), 5)]
    assert running.put(None, "x", 6) == []
    assert running.put("a", None, 7) == []
    assert running.dropped == 2
    assert running.put("a", "x", 8) == [("a", Change(2, None), 8)]


def test_a_result_has_the_largest_timestamp_of_its_records() -> None:
    """If this fails, a late record turns the time of a result back."""
    running = Running(Aggregate("counts", Count()), COUNTS)
    headers = (("trace", b"7"),)
    assert running.put("a", "x", 9, headers) == [("a", Change(1, None), 9)]
    assert running.headers == [headers]
    assert running.put("a", "x", 5) == [("a", Change(2, None), 9)]
    assert running.opened.store.get("a") == ValueAndTimestamp(2, 9)


FOLDS: list[tuple[Any, list[Change]]] = [
    (Count(), [Change(1, 0), Change(2, 1), Change(3, 2)]),
    # A first value has no previous aggregate; an initial value is one.
    (Reduce(function(lambda one, other: one + other)), [Change(1, None), Change(11, 1), Change(111, 11)]),
    (
        Fold(function(lambda: 5), function(lambda key, value, aggregate: aggregate + value)),
        [Change(6, 5), Change(16, 6), Change(116, 16)],
    ),
]


@pytest.mark.parametrize(("fold", "changes"), FOLDS)
def test_old_aggregates_are_passed_on_where_they_are_asked_for(fold: Any, changes: list[Change]) -> None:
    """If this fails, a table that subtracts old values below an aggregation is wrong."""
    running = Running(Aggregate("counts", fold, send_old_values=True), COUNTS)
    for number, value in enumerate((1, 10, 100)):
        running.put("a", value, number)
    assert [change for _, change, _ in running.out] == changes


def test_an_aggregate_of_none_deletes_the_row() -> None:
    """If this fails, an aggregator cannot delete, or begins with a deleted aggregate."""
    reset = Fold(
        function(lambda: 100), function(lambda key, value, aggregate: None if value == 0 else aggregate + value)
    )
    running = Running(Aggregate("counts", reset, send_old_values=True), COUNTS)
    assert running.put("a", 1, 9) == [("a", Change(101, 100), 9)]
    assert running.put("a", 0, 8) == [("a", Change(None, 101), 9)]
    assert running.opened.store.get("a") is None
    # The deleted row's time is forgotten with it.
    assert running.put("a", 2, 7) == [("a", Change(102, 100), 7)]


def test_a_cache_passes_one_change_on_for_many() -> None:
    """If this fails, each record of a burst writes a result, or the old value is one that was never passed on."""
    cached = rows_of("counts", value_serde=LONG, caching=True)
    running = Running(Aggregate("counts", Count(), send_old_values=True), cached, cache_bytes=1_000)
    running.put("a", "x", 5)
    running.put("a", "x", 7)
    assert running.out == []
    running.opened.store.flush()
    running.put("a", "x", 6)
    running.opened.store.flush()
    assert running.out == [("a", Change(2, None), 7), ("a", Change(3, 2), 7)]


def test_a_versioned_store_keeps_each_aggregate() -> None:
    """If this fails, an aggregation cannot be read as of a time."""
    store = Store("counts", StoreKind.VERSIONED_KEY_VALUE, value_serde=LONG, history_ms=1_000)
    running = Running(Aggregate("counts", Count()), store)
    running.put("a", "x", 5)
    running.put("a", "x", 7)
    assert running.out == [("a", Change(1, None), 5), ("a", Change(2, None), 7)]
    assert running.opened.store.get_as_of("a", 6).value == 1
