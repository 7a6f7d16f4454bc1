"""Aggregations in sliding windows. Windows hold both their start and their end."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker_streams.plan.steps.aggregates import Fold, Reduce
from broker_streams.plan.steps.windows import SlidingAggregate
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.windows import EmitStrategy, SlidingWindows
from broker_streams.records import Change, Window, Windowed
from tests.broker_streams.kernel.processors.running import Running, function
from tests.broker_streams.kernel.stores.support import TEXT

CLOSE = EmitStrategy.ON_WINDOW_CLOSE
# The values of a window in their alphabetical order, as the order of their arrival does not matter.
SET = Fold(function(lambda: ""), function(lambda key, value, aggregate: "".join(sorted(aggregate + value))))


def sliding(windows: SlidingWindows, fold: Any = SET, cache_bytes: int = 0, **options: Any) -> Running:
    closes = options.get("emit") is CLOSE
    store = Store(
        "rows",
        StoreKind.TIMESTAMPED_WINDOW,
        value_serde=TEXT,
        retention_ms=2 * windows.difference_ms + windows.grace_ms,
        window_ms=windows.difference_ms,
        caching=cache_bytes > 0,
        options={"time_ordered": True, "indexed": True} if closes else {},
    )
    step = SlidingAggregate("rows", fold, windows=windows, **options)
    return Running(step, store, cache_bytes=cache_bytes)


def at(start_ms: int, end_ms: int) -> Windowed:
    return Windowed("a", Window(start_ms, end_ms))


def test_a_record_has_a_left_window_and_later_ones_make_its_right_window() -> None:
    """If this fails, a set of records that are close enough has no window, or two."""
    running = sliding(SlidingWindows.of(10).grace(100), send_old_values=True)
    assert running.put("a", "x", 20) == [(at(10, 20), Change("x", ""), 20)]
    assert running.put("a", "y", 25) == [
        # The right window of the first record, then the left window of the second, which begins with the first's.
        (at(21, 31), Change("y", ""), 25),
        (at(15, 25), Change("xy", "x"), 25),
    ]
    # An earlier record: it joins the left windows of both, and gets its own two.
    assert running.put("a", "z", 17) == [
        (at(15, 25), Change("xyz", "xy"), 25),
        (at(10, 20), Change("xz", "x"), 20),
        (at(7, 17), Change("z", ""), 17),
        (at(18, 28), Change("xy", None), 25),
    ]


def test_a_second_record_of_one_time_adds_no_window() -> None:
    """If this fails, records with equal timestamps make windows twice."""
    running = sliding(SlidingWindows.of(10))
    running.put("a", "x", 20)
    assert running.put("a", "y", 20) == [(at(10, 20), Change("xy", None), 20)]


def test_early_records_share_the_window_from_zero() -> None:
    """If this fails, windows begin before 1970, or records below the difference are lost."""
    running = sliding(SlidingWindows.of(10))
    assert running.put("a", "x", 3) == [(at(0, 10), Change("x", None), 3)]
    assert running.put("a", "y", 7) == [(at(4, 14), Change("y", None), 7), (at(0, 10), Change("xy", None), 7)]
    assert running.put("a", "z", 5) == [
        (at(4, 14), Change("yz", None), 7),
        (at(6, 16), Change("y", None), 7),
        (at(0, 10), Change("xyz", None), 7),
    ]


def expected(records: list[tuple[str, int]], difference_ms: int) -> dict[int, tuple[str, int]]:
    """Starts, values and last times of the windows of records in any order: each left one, each right one with a
    record.
    """
    times = {time for _, time in records}
    starts = {max(0, time - difference_ms) for time in times} | {time + 1 for time in times}
    found = {}
    for start_ms in starts:
        held = [(time, value) for value, time in records if start_ms <= time <= start_ms + difference_ms]
        if held:
            found[start_ms] = "".join(sorted(value for _, value in held)), max(time for time, _ in held)
    return found


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("cache_bytes", [0, 10_000])
def test_windows_do_not_depend_on_the_order_of_records(seed: int, cache_bytes: int) -> None:
    """If this fails, records that arrive in another order have other results."""
    made = random.Random(seed)
    difference_ms = made.choice((1, 3, 10))
    times = made.sample(range(80), made.randrange(1, 20))
    records = [(made.choice("abcdefgh"), time) for time in times]
    running = sliding(SlidingWindows.of(difference_ms).grace(1_000), cache_bytes=cache_bytes)
    for value, time in records:
        running.put("k", value, time)
    rows = {key.window.start_ms: (value, time) for key, (value, time) in running.opened.store.all()}
    assert rows == expected(records, difference_ms)


def test_late_records_and_missing_values_are_dropped() -> None:
    """If this fails, a record changes a window whose grace period is over."""
    running = sliding(SlidingWindows.of(10).grace(5))
    running.put("b", "x", 40)
    assert running.put("a", "y", 24) == []
    assert running.dropped == 1
    # The left window of 25 ended at 25, 10 ms too late; its record counts only for windows that end from 35 on.
    assert running.put("a", "y", 25) == []
    assert running.dropped == 2
    assert running.put("a", None, 40) == running.put(None, "y", 40) == []
    assert running.dropped == 4


def test_a_reduced_window_begins_with_its_first_value() -> None:
    """If this fails, the reducer is called with a missing aggregate."""
    running = sliding(SlidingWindows.of(10), Reduce(function(lambda one, other: f"{one}+{other}")))
    running.put("a", "x", 20)
    assert running.put("a", "y", 25) == [(at(21, 31), Change("y", None), 25), (at(15, 25), Change("x+y", None), 25)]


def test_a_cache_passes_one_change_on_for_many() -> None:
    """If this fails, each record of a burst writes a result."""
    running = sliding(SlidingWindows.of(10), cache_bytes=1_000)
    running.put("a", "x", 20)
    running.put("a", "y", 20)
    assert running.out == []
    running.opened.store.flush()
    assert running.out == [(at(10, 20), Change("xy", None), 20)]


def test_results_are_passed_on_once_when_windows_close() -> None:
    """If this fails, a final result comes early, twice or never."""
    running = sliding(SlidingWindows.of(10).grace(5), emit=CLOSE)
    headers = (("trace", b"7"),)
    assert running.put("a", "x", 20) == []
    assert running.put("a", "y", 25) == []
    # At 26, windows that end before 21 are closed: the one from 10 to 20.
    assert running.put("a", "z", 26, headers) == [(at(10, 20), Change("x", None), 20)]
    assert running.headers == [headers]
    assert running.put("a", "w", 30) == []
    assert running.put("a", "v", 31) == [(at(15, 25), Change("xy", None), 25)]
