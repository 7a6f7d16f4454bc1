"""Reads from outside of a task: they change nothing, and come in pages."""

from __future__ import annotations

import pytest

from broker_streams.hosts.store_measures import StoreMeasures
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import ValueAndTimestamp, Window, Windowed
from tests.broker_streams.kernel.stores.support import Opened

CACHED = Store("s", StoreKind.TIMESTAMPED_KEY_VALUE, caching=True)


def filled(cache_bytes: int) -> Opened:
    opened = Opened(CACHED, cache_bytes=cache_bytes)
    for at, key in enumerate("abc"):
        opened.at(at)
        opened.store.put(key, ValueAndTimestamp(at, at))
    return opened


def test_a_peek_evicts_nothing() -> None:
    """If this fails, a query passes results on outside of a record: they get its timestamp, or another commit."""
    # The cache has room for one row.
    opened = Opened(CACHED, cache_bytes=100)
    passed: list[object] = []
    opened.store.set_flush_listener(passed.append, True)
    for at, key in enumerate("abb"):
        opened.at(at)
        opened.store.put(key, ValueAndTimestamp(at, at))
    before = len(passed)
    assert [opened.store.peek(key) for key in "abx"] == [(0, 0), (2, 2), None]
    assert len(passed) == before
    # A `get` puts the row that it reads in the place of the changed one.
    opened.store.get("a")
    assert len(passed) > before


@pytest.mark.parametrize("cache_bytes", [0, 100_000])
def test_pages_follow_each_other(cache_bytes: int) -> None:
    """If this fails, a row is shown twice, or left out between two pages."""
    store = filled(cache_bytes).store
    rows, last = store.page(None, None, limit=2)
    assert [row.key for row in rows] == ["a", "b"]
    assert last == b"b"
    rows, last = store.page(b"b\x00", None, limit=2)
    assert ([row.key for row in rows], last) == (["c"], None)
    rows, last = store.page(None, b"c", with_high=False, reverse=True, limit=1)
    assert ([row.key for row in rows], last) == (["b"], b"b")
    assert store.page(None, None, limit=3)[1] is None


@pytest.mark.parametrize("persistent", [True, False])
def test_stores_count_their_rows(persistent: bool) -> None:
    """If this fails, the state of an application has another size than it shows."""
    windows = Opened(Store("w", StoreKind.WINDOW, persistent=persistent, retention_ms=120_000, window_ms=10))
    sessions = Opened(Store("s", StoreKind.SESSION, persistent=persistent, retention_ms=120_000))
    for at, key in enumerate("aab"):
        windows.at(at)
        windows.store.put(key, 1, at * 50_000)
        sessions.at(at)
        sessions.store.put(Windowed(key, Window(at * 50_000, at * 50_000 + 5)), 1)
    assert windows.store.approximate_num_entries() == 3
    assert sessions.store.approximate_num_entries() == 3
    windows.store.put("b", None, 100_000)
    assert windows.store.approximate_num_entries() == 2
    versions = Opened(Store("v", StoreKind.VERSIONED_KEY_VALUE, history_ms=1_000))
    for at in range(3):
        versions.at(at)
        versions.store.put("k", at, at)
    assert versions.store.approximate_num_entries() == 1


def test_calls_of_stores_are_measured() -> None:
    """If this fails, put-rate and hit-ratio of a store are those of another call, or missing."""
    opened = Opened(CACHED, cache_bytes=100_000)
    measures = StoreMeasures(opened.stores)
    store = opened.store
    opened.at(0)
    store.put("a", ValueAndTimestamp(1, 0))
    store.put_if_different_values("b", ValueAndTimestamp(1, 0), None)
    assert store.get("a") == (1, 0)
    assert store.get_with_binary("x") == (None, None)
    store.flush()
    calls = measures.calls["s"]
    assert {name: timed.count for name, timed in calls.items() if timed.count} == {"put": 2, "get": 2, "flush": 1}
    assert (measures.caches["s"].lookups, measures.caches["s"].hits) == (2, 1)
    assert all(timed.total_ns > 0 for timed in calls.values() if timed.count)
