"""Joins of a stream with a table: rows in real stores, records, and the results."""

from __future__ import annotations

from typing import Any

import pytest

from broker_streams.plan.steps.joins import StreamTableJoin
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.value_getters import FilterGetter, StoreGetter
from broker_streams.records import ValueAndTimestamp
from tests.broker_streams.kernel.processors.running import Running, function, rows_of
from tests.broker_streams.kernel.stores.support import TEXT

JOINER = function(lambda left, right: f"{left}+{right}")
WITH_KEY = function(lambda key, left, right: f"{key}:{left}+{right}")
TABLE = StoreGetter("table")


def with_rows(step: StreamTableJoin, **rows: str) -> Running:
    found = Running(step, rows_of("table"))
    for key, value in rows.items():
        found.opened.store.put(key, ValueAndTimestamp(value, 1_000))
    return found


@pytest.mark.parametrize("keeps_unmatched", [False, True])
def test_a_record_gets_the_row_of_its_key(keeps_unmatched: bool) -> None:
    """If this fails, orders lack their customer, a left join loses records, or results have the times of rows."""
    join = with_rows(StreamTableJoin(JOINER, TABLE, keeps_unmatched), a="row")
    assert join.put("a", "1", 5) == [("a", "1+row", 5)]
    assert join.put("b", "2", 6) == ([("b", "2+None", 6)] if keeps_unmatched else [])
    # A null value joins nothing; a null key finds no row (KIP-962).
    assert join.put("a", None, 7) == join.put(None, None, 7) == []
    assert join.put(None, "3", 8) == ([(None, "3+None", 8)] if keeps_unmatched else [])
    assert join.dropped == (2 if keeps_unmatched else 3)


def test_a_record_finds_a_global_row_by_a_key_of_its_own() -> None:
    """If this fails, a join with a global table looks up the wrong key, or changes the key of the record."""
    selector = function(lambda key, value: value[:1] if value else None)
    join = with_rows(StreamTableJoin(WITH_KEY, TABLE, False, True, selector), b="row")
    assert join.put("k", "b1", 5) == [("k", "k:b1+row", 5)]
    assert join.put(None, "b2", 5) == [(None, "None:b2+row", 5)]
    assert join.put("k", "c", 5) == join.put("k", "", 5) == []
    assert join.dropped == 1
    join = with_rows(StreamTableJoin(WITH_KEY, TABLE, True, True, selector), b="row")
    assert join.put("k", "", 5) == [("k", "k:+None", 5)]
    assert join.dropped == 0


def test_a_table_without_a_store_computes_its_rows() -> None:
    """If this fails, a join with a filtered table sees rows that the filter leaves out."""
    getter = FilterGetter(TABLE, function(lambda key, value: value != "hidden"))
    join = with_rows(StreamTableJoin(JOINER, getter), a="row", b="hidden")
    assert join.put("a", "1", 5) == [("a", "1+row", 5)]
    assert join.put("b", "1", 5) == []


def versioned(step: StreamTableJoin, grace_ms: int | None = None) -> Running:
    stores = [Store("table", StoreKind.VERSIONED_KEY_VALUE, value_serde=TEXT, history_ms=1_000)]
    if grace_ms is not None:
        options: dict[str, Any] = {"grace_ms": grace_ms}
        stores.append(Store("buffer", StoreKind.JOIN_BUFFER, value_serde=TEXT, options=options))
    return Running(step, *stores)


def test_a_record_gets_the_version_of_its_time() -> None:
    """If this fails, a late record is joined with a row that came after it (KIP-914)."""
    join = versioned(StreamTableJoin(JOINER, TABLE, True))
    for value, at in (("old", 10), ("new", 20)):
        join.opened.store.put("a", value, at)
    assert join.put("a", "1", 25) == [("a", "1+new", 25)]
    assert join.put("a", "2", 19) == [("a", "2+old", 19)]
    assert join.put("a", "3", 9) == [("a", "3+None", 9)]


def test_records_wait_for_their_grace_period() -> None:
    """If this fails, a record is joined before the rows of its time came, never, twice, or without its headers."""
    join = versioned(StreamTableJoin(JOINER, TABLE, False, buffer="buffer"), grace_ms=10)
    headers = (("trace", b"7"),)
    join.opened.store.put("a", "old", 0)
    assert join.put("a", "1", 100, headers) == []
    join.opened.store.put("a", "new", 99)
    assert join.put("b", "2", 105) == join.put("a", None, 105) == []
    # Those until 102 are over. The record is later than its row, with the headers of its own.
    assert join.put("a", "3", 112) == [("a", "1+new", 100)]
    assert join.headers == [headers]
    # A record that is later than the grace period does not wait.
    assert join.put("a", "4", 101) == [("a", "4+new", 101)]
    assert join.put("a", "5", 102) == [("a", "5+new", 102)]
    assert join.put("c", "6", 200) == [("a", "3+new", 112)]
    assert join.opened.stores["buffer"].num_records == 1


def test_a_record_without_a_key_does_not_wait() -> None:
    """If this fails, one record without a key ends the application."""
    join = versioned(StreamTableJoin(JOINER, TABLE, True, buffer="buffer"), grace_ms=10)
    assert join.put(None, "1", 100) == [(None, "1+None", 100)]
    assert join.opened.stores["buffer"].num_records == 0


def test_a_grace_period_needs_versions() -> None:
    """If this fails, records wait for rows of their time, and then get the latest ones."""
    stores = [rows_of("table"), Store("buffer", StoreKind.JOIN_BUFFER, value_serde=TEXT, options={"grace_ms": 10})]
    with pytest.raises(ValueError, match="node has a grace period, which needs a versioned table"):
        Running(StreamTableJoin(JOINER, TABLE, buffer="buffer"), *stores)
