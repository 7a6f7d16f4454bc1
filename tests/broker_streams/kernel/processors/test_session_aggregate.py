"""Aggregations in sessions."""

from __future__ import annotations

from typing import Any

from broker_streams.plan.steps.aggregates import AnyFold, Count, Fold, Reduce
from broker_streams.plan.steps.windows import SessionAggregate
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.windows import EmitStrategy, SessionWindows
from broker_streams.records import Change, Window, Windowed
from tests.broker_streams.kernel.processors.running import Running, function
from tests.broker_streams.kernel.stores.support import LONG, TEXT

CLOSE = EmitStrategy.ON_WINDOW_CLOSE


def session(windows: SessionWindows, fold: AnyFold, value_serde: Any, cache_bytes: int = 0, **options: Any) -> Running:
    store = Store(
        "rows",
        StoreKind.SESSION,
        value_serde=value_serde,
        retention_ms=windows.gap_ms + windows.grace_ms,
        caching=cache_bytes > 0,
        options={"time_ordered": True} if options.get("emit") is CLOSE else {},
    )
    step = SessionAggregate("rows", fold, windows=windows, **options)
    return Running(step, store, cache_bytes=cache_bytes)


def at(key: str, start_ms: int, end_ms: int) -> Windowed:
    return Windowed(key, Window(start_ms, end_ms))


def test_a_record_extends_a_session_up_to_the_gap() -> None:
    """If this fails, sessions end too early or too late by a ms."""
    running = session(SessionWindows.of(5).grace(100), Count(), LONG, send_old_values=True)
    headers = (("trace", b"7"),)
    assert running.put("a", "x", 10, headers) == [(at("a", 10, 10), Change(1, None), 10)]
    # The old session is deleted, and its end is the time of the deletion. Headers are not passed on.
    assert running.put("a", "x", 15, headers) == [
        (at("a", 10, 10), Change(None, 1), 10),
        (at("a", 10, 15), Change(2, None), 15),
    ]
    assert running.headers == [(), (), ()]
    assert running.put("a", "x", 21) == [(at("a", 21, 21), Change(1, None), 21)]
    # The same time again replaces the row.
    assert running.put("a", "x", 21) == [(at("a", 21, 21), Change(2, None), 21)]


def test_a_late_record_merges_the_sessions_around_it() -> None:
    """If this fails, two sessions stay apart although a record fills their pause, or values are lost in the merger."""
    joined = Fold(
        function(lambda: ""),
        function(lambda key, value, aggregate: aggregate + value),
        function(lambda key, one, other: f"{one}{other}"),
    )
    running = session(SessionWindows.of(5).grace(100), joined, TEXT)
    for value, timestamp in (("a", 10), ("b", 18), ("c", 14)):
        running.put("k", value, timestamp)
    assert running.out[2:] == [
        (at("k", 10, 10), Change(None, None), 10),
        (at("k", 18, 18), Change(None, None), 18),
        (at("k", 10, 18), Change("abc", None), 18),
    ]
    rows = list(running.opened.store.fetch("k"))
    assert rows == [(at("k", 10, 18), "abc")]


def test_reduced_sessions_are_reduced_again_when_they_meet() -> None:
    """If this fails, a merged session lacks the values of one of its parts, or has them in another order."""
    running = session(SessionWindows.of(5).grace(100), Reduce(function(lambda one, other: f"({one}{other})")), TEXT)
    for value, timestamp in (("a", 10), ("b", 18), ("c", 14)):
        running.put("k", value, timestamp)
    assert running.out[-1] == (at("k", 10, 18), Change("((ab)c)", None), 18)


def test_a_session_is_closed_after_gap_and_grace() -> None:
    """If this fails, a late record makes a session whose time is over, or one that is due is dropped."""
    running = session(SessionWindows.of(5).grace(10), Count(), LONG)
    running.put("b", "x", 30)
    assert running.put("a", "x", 16) == [(at("a", 16, 16), Change(1, None), 16)]
    assert running.put("a", "x", 15) == [
        (at("a", 16, 16), Change(None, None), 16),
        (at("a", 15, 16), Change(2, None), 16),
    ]
    assert running.put("c", "x", 14) == []
    assert running.put(None, "x", 30) == []
    assert running.dropped == 2


def test_a_cache_passes_one_change_on_for_many() -> None:
    """If this fails, each record of a growing session deletes and writes a row."""
    running = session(SessionWindows.of(5), Count(), LONG, cache_bytes=1_000)
    for timestamp in (10, 12, 14):
        running.put("a", "x", timestamp)
    assert running.out == []
    running.opened.store.flush()
    assert running.out == [(at("a", 10, 14), Change(3, None), 14)]


def test_results_are_passed_on_once_when_sessions_close() -> None:
    """If this fails, a final result comes early, twice or never."""
    running = session(SessionWindows.of(5).grace(10), Count(), LONG, emit=CLOSE)
    headers = (("trace", b"7"),)
    assert [running.put(key, "x", timestamp) for key, timestamp in (("b", 10), ("a", 9), ("a", 12), ("c", 25))] == [
        [],
        [],
        [],
        [],
    ]
    # At 28, sessions that end at 12 are closed: 12 + 5 + 10 < 28.
    assert running.put("c", "x", 28, headers) == [
        (at("b", 10, 10), Change(1, None), 10),
        (at("a", 9, 12), Change(2, None), 12),
    ]
    assert running.headers == [headers, headers]
    assert running.put("c", "x", 29) == []
