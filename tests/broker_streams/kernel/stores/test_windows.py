"""Window stores of all orders and layers beside a list of rows."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from broker_streams.kernel.stores.keys import window_key
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import Record, ValueAndTimestamp, Window, Windowed
from tests.broker_streams.kernel.stores.support import LONG, Opened

RETENTION_MS, INTERVAL_MS, WINDOW_MS = 130_000, 65_000, 10_000
# Options of a store, and its order: by segment and key, by time and key.
ORDERS: dict[str, dict[str, Any]] = {
    "key": {},
    "time": {"options": {"time_ordered": True}},
    "indexed": {"options": {"time_ordered": True, "indexed": True}},
    "memory": {"persistent": False},
}
Row = tuple[str, int]


class SlowWindows:
    """Rows of a dictionary under key and start, that are sorted and filtered each time."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.rows: dict[Row, int] = {}
        # Rows stay in the cache when they were flushed.
        self.cached: dict[Row, int | None] = {}
        self.dirty: dict[Row, None] = {}
        self.stream_time = -1
        self.dropped = 0

    def put(self, key: str, value: int | None, start: int) -> None:
        self.stream_time = max(self.stream_time, start)
        if self.order == "memory":
            late = start <= self.stream_time - RETENTION_MS
        else:
            late = start // INTERVAL_MS < max(0, self.stream_time - RETENTION_MS) // INTERVAL_MS
        if late:
            self.dropped += 1
        elif value is None:
            self.rows.pop((key, start), None)
        else:
            self.rows[key, start] = value

    def flush(self) -> None:
        for row in self.dirty:
            self.put(row[0], self.cached[row], row[1])
            if self.cached[row] is None:
                del self.cached[row]
        self.dirty.clear()

    def put_cached(self, key: str, value: int | None, start: int) -> None:
        self.dirty.pop((key, start), None)
        self.dirty[key, start] = None
        self.cached[key, start] = value

    def shown(self) -> dict[Row, int]:
        """The rows that are not too old; the cache knows no age."""
        oldest = self.stream_time - RETENTION_MS + (0 if self.order in ("time", "indexed") else 1)
        rows: dict[Row, int | None] = {row: value for row, value in self.rows.items() if row[1] >= oldest}
        rows |= self.cached
        return {row: value for row, value in rows.items() if value is not None}

    def place(self, row: Row, by_time: bool) -> Any:
        key, start = row
        if self.order == "memory" or (by_time and self.order != "key") or self.order == "time":
            return start, key.encode()
        return start // INTERVAL_MS, window_key(key.encode(), start)

    def select(self, low: str | None, high: str | None, first: int, last: int, by_time: bool) -> list[tuple[Row, int]]:
        rows = [
            (row, value)
            for row, value in self.shown().items()
            if first <= row[1] <= last and (low is None or low <= row[0]) and (high is None or row[0] <= high)
        ]
        return sorted(rows, key=lambda row: self.place(row[0], by_time))


def plain(rows: Any) -> list[tuple[Row, int]]:
    found = []
    for windowed, value in rows:
        assert windowed.window.end_ms == windowed.window.start_ms + WINDOW_MS
        found.append(((windowed.key, windowed.window.start_ms), value))
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cached", [False, True])
def test_a_store_is_a_list_of_rows(order: str, cached: bool) -> None:
    """If this fails, windows are missing, expire at another time, or come in another order than Kafka's."""
    draw = random.Random(len(order) + cached)
    opened = Opened(
        Store(
            "rows",
            StoreKind.WINDOW,
            caching=cached,
            retention_ms=RETENTION_MS,
            window_ms=WINDOW_MS,
            **ORDERS[order],
        ),
        cache_bytes=1_000_000,
    )
    store, slow = opened.store, SlowWindows(order)
    names = ["a", "aa", "ab", "b", "bb\x7f", "c"]
    for step in range(700):
        opened.at(step)
        key = draw.choice(names)
        start = max(0, step * 700 - draw.randrange(0, 250_000, 5_000))
        action = draw.random()
        if action < 0.6:
            value = draw.choice([None, step, step])
            store.put(key, value, start)
            (slow.put_cached if cached else slow.put)(key, value, start)
        elif action < 0.63:
            store.flush()
            slow.flush()
        assert store.fetch(key, start) == slow.shown().get((key, start))
        if action > 0.8:
            first = max(0, start - draw.randrange(100_000))
            last = start + draw.choice([0, 10_000, 1 << 62])
            low, high = draw.choice([None, *names]), draw.choice([None, *names])
            rows = slow.select(key, key, first, last, False)
            assert list(store.fetch_range(key, first, last)) == [(row[1], value) for row, value in rows]
            assert list(store.backward_fetch_range(key, first, last)) == [(row[1], value) for row, value in rows[::-1]]
            rows = slow.select(low, high, first, last, False)
            assert plain(store.fetch_keys(low, high, first, last)) == rows
            assert plain(store.backward_fetch_keys(low, high, first, last)) == rows[::-1]
            rows = slow.select(None, None, first, last, True)
            assert plain(store.fetch_all(first, last)) == rows
            assert plain(store.backward_fetch_all(first, last)) == rows[::-1]
            rows = slow.select(None, None, 0, 1 << 62, True)
            assert plain(store.all()) == rows
            assert plain(store.backward_all()) == rows[::-1]
    store.flush()
    slow.flush()
    assert opened.task.dropped_records == slow.dropped > 0

    restored = Opened(Store("rows", StoreKind.WINDOW, retention_ms=RETENTION_MS, window_ms=WINDOW_MS, **ORDERS[order]))
    for _, data, changed, timestamp in opened.log:
        restored.store.restore(data, changed, timestamp)
    assert list(restored.store.entries()) == list(store.entries())
    assert restored.log == []


@pytest.mark.parametrize("order", ORDERS)
def test_duplicates_are_all_kept(order: str) -> None:
    """If this fails, a stream-stream join loses records of equal keys and times, or loses them when a task moves."""
    plan = Store(
        "rows",
        StoreKind.WINDOW,
        caching=True,
        retention_ms=RETENTION_MS,
        window_ms=WINDOW_MS,
        retain_duplicates=True,
        **ORDERS[order],
    )
    opened = Opened(plan, cache_bytes=1000)
    opened.at(3)
    store = opened.store
    assert not store.set_flush_listener(lambda record: None, False)
    for value in (1, 2, 3):
        store.put("k", value, 5)
    store.put("k", None, 5)
    assert list(store.fetch_range("k", 0, 9)) == [(5, 1), (5, 2), (5, 3)]
    assert list(store.backward_fetch_range("k", 0, 9)) == [(5, 3), (5, 2), (5, 1)]
    assert opened.log == [
        *(("rows", window_key(b"k", 5, number), struct.pack(">q", number), 3) for number in (1, 2, 3)),
        ("rows", window_key(b"k", 5, 4), None, 3),
    ]

    restored = Opened(plan)
    for _, data, changed, timestamp in opened.log:
        restored.store.restore(data, changed, timestamp)
    assert list(restored.store.entries()) == list(store.entries())
    restored.store.put("k", 9, 5)
    assert list(restored.store.fetch_range("k", 0, 9)) == [(5, 1), (5, 2), (5, 3), (5, 9)]
    assert restored.log == [("rows", window_key(b"k", 5, 5), struct.pack(">q", 9), -1)]


def test_changes_are_passed_on_under_their_windows() -> None:
    """If this fails, results of windowed aggregates have another window, value or timestamp than Kafka's."""
    opened = Opened(
        Store("rows", StoreKind.TIMESTAMPED_WINDOW, caching=True, retention_ms=RETENTION_MS, window_ms=WINDOW_MS),
        cache_bytes=10_000,
    )
    store = opened.store
    seen: list[Record] = []
    assert store.set_flush_listener(seen.append, True)
    for step, (key, start, number) in enumerate([("a", 0, 1), ("b", 10_000, 2), ("a", 0, 3), ("c", 0, None)]):
        opened.at(step, (("h", b"%d" % step),))
        store.put(key, None if number is None else ValueAndTimestamp(number, step + 50), start)
    assert (seen, opened.log) == ([], [])
    store.flush()
    assert seen == [
        Record(Windowed("b", Window(10_000, 20_000)), (2, None, True), 51, (("h", b"1"),)),
        Record(Windowed("a", Window(0, 10_000)), (3, None, True), 52, (("h", b"2"),)),
    ]
    assert opened.log == [
        ("rows", window_key(b"b", 10_000), LONG.serialize("", 2), 51),
        ("rows", window_key(b"a", 0), LONG.serialize("", 3), 52),
    ]
    seen.clear()
    opened.at(9)
    store.put("a", None, 0)
    assert store.fetch("a", 0) is None
    store.flush()
    assert seen == [Record(Windowed("a", Window(0, 10_000)), (None, 3, True), 9)]
    assert opened.log[-1] == ("rows", window_key(b"a", 0), None, 9)


def test_a_window_store_needs_its_times() -> None:
    """If this fails, a store without retention is found when the first row expires."""
    with pytest.raises(ValueError, match="window store rows has no retention_ms or no window_ms"):
        Opened(Store("rows", StoreKind.WINDOW, retention_ms=5))
    with pytest.raises(ValueError, match="keeps rows for 5 ms, but its windows have 6 ms"):
        Opened(Store("rows", StoreKind.WINDOW, retention_ms=5, window_ms=6))
