"""Aggregations in tumbling, hopping and unlimited windows, and results of windows that closed."""

from __future__ import annotations

from typing import Any

from broker_streams.plan.steps.aggregates import Count, Reduce
from broker_streams.plan.steps.windows import WindowAggregate
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.windows import MAX_MS, EmitStrategy, FixedWindows, TimeWindows, UnlimitedWindows
from broker_streams.records import Change, ValueAndTimestamp, Window, Windowed
from tests.broker_streams.kernel.processors.running import Running, function
from tests.broker_streams.kernel.stores.support import LONG, TEXT

CLOSE = EmitStrategy.ON_WINDOW_CLOSE


def rows_of(windows: FixedWindows, **options: Any) -> Store:
    size_ms, grace_ms = windows.size_ms, windows.grace_ms
    given = {"value_serde": LONG, "retention_ms": size_ms + grace_ms, "window_ms": size_ms, **options}
    return Store("rows", StoreKind.TIMESTAMPED_WINDOW, **given)


def counting(windows: FixedWindows, cache_bytes: int = 0, **options: Any) -> Running:
    stored = {"time_ordered": True} if options.get("emit") is CLOSE else {}
    store = rows_of(windows, caching=cache_bytes > 0, options=stored)
    return Running(WindowAggregate("rows", Count(), windows=windows, **options), store, cache_bytes=cache_bytes)


def at(key: str, start_ms: int, end_ms: int) -> Windowed:
    return Windowed(key, Window(start_ms, end_ms))


def test_hopping_windows_get_each_record_of_their_time() -> None:
    """If this fails, counts of overlapping windows are wrong."""
    running = counting(TimeWindows.of(10).advance_by(5).grace(100), send_old_values=True)
    assert running.put("a", "x", 7) == [(at("a", 0, 10), Change(1, 0), 7), (at("a", 5, 15), Change(1, 0), 7)]
    # The result of a window has the largest timestamp of its records.
    assert running.put("a", "x", 6) == [(at("a", 0, 10), Change(2, 1), 7), (at("a", 5, 15), Change(2, 1), 7)]
    assert running.opened.store.fetch("a", 5) == ValueAndTimestamp(2, 7)


def test_a_value_of_none_is_a_record_and_a_key_of_none_is_not() -> None:
    """If this fails, a windowed count differs from Kafka's on tombstones."""
    running = counting(TimeWindows.of(10))
    assert running.put("a", None, 3) == [(at("a", 0, 10), Change(1, None), 3)]
    assert running.put(None, "x", 4) == []
    assert running.dropped == 1


def test_a_window_is_closed_at_its_end_and_grace() -> None:
    """If this fails, a late record changes a window whose result was final."""
    running = counting(TimeWindows.of(10).grace(5))
    running.put("b", "x", 14)
    assert running.put("a", "x", 9) == [(at("a", 0, 10), Change(1, None), 9)]
    # Records of any key move the time: at 15, the window from 0 to 10 and 5 ms of grace are over.
    running.put("b", "x", 15)
    assert running.put("a", "x", 9) == []
    assert running.dropped == 1


def test_a_late_record_of_hopping_windows_counts_where_it_may() -> None:
    """If this fails, a record that is too late for one of its windows is lost for all of them."""
    running = counting(TimeWindows.of(10).advance_by(5))
    running.put("b", "x", 12)
    assert running.put("a", "x", 7) == [(at("a", 5, 15), Change(1, None), 7)]
    assert running.dropped == 1


def test_an_unlimited_window_begins_and_never_ends() -> None:
    """If this fails, records before the start are counted, or an old window is forgotten."""
    running = counting(UnlimitedWindows.of().start_on(5))
    assert running.put("a", "x", 4) == []
    assert running.put("a", "x", 1 << 50) == [(at("a", 5, MAX_MS), Change(1, None), 1 << 50)]
    assert running.put("a", "x", 6) == [(at("a", 5, MAX_MS), Change(2, None), 1 << 50)]
    assert running.dropped == 0


def test_a_reduced_window_begins_with_its_first_value() -> None:
    """If this fails, the reducer is called with a missing aggregate."""
    windows = TimeWindows.of(10)
    step = WindowAggregate("rows", Reduce(function(lambda one, other: one + other)), windows=windows)
    running = Running(step, rows_of(windows, value_serde=TEXT))
    running.put("a", "x", 3)
    running.put("a", "y", 4)
    assert running.out == [(at("a", 0, 10), Change("x", None), 3), (at("a", 0, 10), Change("xy", None), 4)]


def test_a_cache_passes_one_change_on_for_many() -> None:
    """If this fails, each record of a burst writes a result."""
    running = counting(TimeWindows.of(10), cache_bytes=1_000, send_old_values=True)
    running.put("a", "x", 3)
    running.put("a", "x", 2)
    assert running.out == []
    running.opened.store.flush()
    running.put("a", "x", 4)
    running.opened.store.flush()
    assert running.out == [(at("a", 0, 10), Change(2, None), 3), (at("a", 0, 10), Change(3, 2), 4)]


def test_results_are_passed_on_once_when_windows_close() -> None:
    """If this fails, a final result comes early, twice or never."""
    running = counting(TimeWindows.of(10).grace(5), emit=CLOSE)
    assert running.put("b", "x", 8) == []
    assert running.put("a", "x", 3) == []
    assert running.put("a", "x", 14) == []
    # In the order of time, and then of keys, with the headers of the record that closed the windows.
    headers = (("trace", b"7"),)
    assert running.put("c", "x", 15, headers) == [
        (at("a", 0, 10), Change(1, None), 3),
        (at("b", 0, 10), Change(1, None), 8),
    ]
    assert running.headers == [headers, headers]
    assert running.put("c", "x", 19) == []
    assert running.put("c", "x", 25) == [(at("a", 10, 20), Change(1, None), 14), (at("c", 10, 20), Change(2, None), 19)]


def test_closed_windows_are_looked_for_at_intervals_of_the_clock() -> None:
    """If this fails, each record of a busy partition reads the store."""
    running = counting(TimeWindows.of(10), emit=CLOSE)
    task = running.opened.task
    task.window_emit_interval_ms, task.system_time_ms = 100, 1_000
    running.put("a", "x", 3)
    assert running.put("a", "x", 10) == []
    task.system_time_ms = 1_099
    assert running.put("a", "x", 11) == []
    task.system_time_ms = 1_100
    assert running.put("a", "x", 12) == [(at("a", 0, 10), Change(1, None), 3)]


def test_a_task_goes_on_after_the_windows_that_it_passed_on() -> None:
    """If this fails, a restart passes all closed windows of the store on again."""
    running = counting(TimeWindows.of(10).grace(30), emit=CLOSE)
    for timestamp in (3, 50):
        running.put("a", "x", timestamp)
    assert running.opened.task.emitted_ms == {"rows": 20}
    running.processor.init(running.context)
    # The time starts again with this record, so it counts; results of its window were passed on already.
    assert running.put("a", "x", 8) == []
    assert running.put("a", "x", 95) == [(at("a", 50, 60), Change(1, None), 50)]
