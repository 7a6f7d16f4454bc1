"""Aggregations with caches of any size: what they pass on adds up to what they pass on without one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker_streams.plan.steps.aggregates import Aggregate, Count, StoredFold
from broker_streams.plan.steps.windows import SessionAggregate, SlidingAggregate, WindowAggregate
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.windows import SessionWindows, SlidingWindows, TimeWindows
from broker_streams.records import Change
from tests.broker_streams.kernel.processors.running import Running
from tests.broker_streams.kernel.stores.support import LONG

WINDOW, SESSION = StoreKind.TIMESTAMPED_WINDOW, StoreKind.SESSION
HOPPING = WindowAggregate("rows", Count(), True, windows=TimeWindows.of(10).advance_by(4).grace(20))
SLIDING = SlidingAggregate("rows", Count(), True, windows=SlidingWindows.of(7).grace(20))
SESSIONS = SessionAggregate("rows", Count(), True, windows=SessionWindows.of(3).grace(20))

STEPS: list[tuple[StoredFold, dict[str, Any]]] = [
    (Aggregate("rows", Count(), True), {"kind": StoreKind.TIMESTAMPED_KEY_VALUE}),
    (HOPPING, {"kind": WINDOW, "retention_ms": 30, "window_ms": 10}),
    (SLIDING, {"kind": WINDOW, "retention_ms": 34, "window_ms": 7}),
    (SESSIONS, {"kind": SESSION, "retention_ms": 23}),
]


def table(changes: list[tuple[Any, Change, int]], checks_old: bool) -> dict[Any, tuple[Any, int]]:
    """The rows after all changes, with their times. Raises AssertionError: an old value was not passed on before."""
    rows: dict[Any, tuple[Any, int]] = {}
    for key, change, timestamp in changes:
        if checks_old:
            assert change.old == rows.get(key, (None, 0))[0], "an old value was never passed on"
        if change.new is None:
            rows.pop(key, None)
        else:
            rows[key] = change.new, timestamp
    return rows


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cache_bytes", [200, 2_000, 100_000])
@pytest.mark.parametrize(("step", "options"), STEPS, ids=[type(step).__name__ for step, _ in STEPS])
def test_changes_of_a_cache_add_up_to_the_table(
    step: StoredFold, options: dict[str, Any], cache_bytes: int, seed: int
) -> None:
    """If this fails, a sum below a cached aggregation subtracts values that it never added, or has rows too many."""
    made = random.Random(seed)
    plain = Running(step, Store("rows", value_serde=LONG, **options))
    cached = Running(step, Store("rows", value_serde=LONG, caching=True, **options), cache_bytes=cache_bytes)
    time_ms = 30
    for _ in range(150):
        time_ms += made.choice((0, 1, 1, 2, 9))
        record = made.choice("abcde"), "x", max(0, time_ms - made.choice((0, 0, 0, 5, 15, 40)))
        plain.put(*record)
        cached.put(*record)
        if made.random() < 0.1:
            cached.opened.store.flush()
    cached.opened.store.flush()
    # Without a cache, the initial value is an old value too, and a session that is replaced has none, as in Kafka.
    assert table(cached.out, checks_old=True) == table(plain.out, checks_old=False)
    assert cached.dropped == plain.dropped
    assert 0 < len(cached.out) <= len(plain.out)
