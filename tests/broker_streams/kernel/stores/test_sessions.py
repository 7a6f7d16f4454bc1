"""Session stores of all orders and layers beside a list of rows."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker_streams.kernel.stores.keys import session_key
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import Record, Window, Windowed
from tests.broker_streams.kernel.stores.support import LONG, Opened

RETENTION_MS, INTERVAL_MS = 130_000, 65_000
ORDERS: dict[str, dict[str, Any]] = {
    "key": {},
    "time": {"options": {"time_ordered": True}},
    "memory": {"persistent": False},
}
# Key, start, end.
Row = tuple[str, int, int]


class SlowSessions:
    """Rows of a dictionary under key, start and end, that are sorted and filtered each time."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.rows: dict[Row, int] = {}
        # Rows stay in the cache when they were flushed.
        self.cached: dict[Row, int | None] = {}
        self.dirty: dict[Row, None] = {}
        self.stream_time = -1
        self.dropped = 0

    def put(self, row: Row, value: int | None) -> None:
        end = row[2]
        self.stream_time = max(self.stream_time, end)
        if self.order == "memory":
            late = end <= self.stream_time - RETENTION_MS
        else:
            late = end // INTERVAL_MS < max(0, self.stream_time - RETENTION_MS) // INTERVAL_MS
        if late:
            self.dropped += 1
        elif value is None:
            self.rows.pop(row, None)
        else:
            self.rows[row] = value

    def put_cached(self, row: Row, value: int | None) -> None:
        self.dirty.pop(row, None)
        self.dirty[row] = None
        self.cached[row] = value

    def flush(self) -> None:
        for row in self.dirty:
            self.put(row, self.cached[row])
            if self.cached[row] is None:
                del self.cached[row]
        self.dirty.clear()

    def shown(self) -> dict[Row, int]:
        oldest = self.stream_time - RETENTION_MS + 1
        rows: dict[Row, int | None] = {row: value for row, value in self.rows.items() if row[2] >= oldest}
        rows |= self.cached
        return {row: value for row, value in rows.items() if value is not None}

    def select(self, low: str | None, high: str | None, first: int, last: int, reverse: bool) -> list[tuple[Row, int]]:
        rows = [
            (row, value)
            for row, value in self.shown().items()
            if row[2] >= first
            and row[1] <= last
            and (low is None or low <= row[0])
            and (high is None or row[0] <= high)
        ]
        if self.order == "memory":
            # Starts run against the order of ends and keys.
            return sorted(
                sorted(rows, key=lambda row: row[0][1], reverse=not reverse),
                key=lambda row: (row[0][2], row[0][0].encode()),
                reverse=reverse,
            )
        return sorted(
            rows,
            key=lambda row: (row[0][2] // INTERVAL_MS, session_key(row[0][0].encode(), row[0][1], row[0][2])),
            reverse=reverse,
        )


def plain(rows: Any) -> list[tuple[Row, int]]:
    return [((session.key, session.window.start_ms, session.window.end_ms), value) for session, value in rows]


@pytest.mark.parametrize(("order", "cached"), [("key", False), ("time", False), ("memory", False), ("key", True)])
def test_a_store_is_a_list_of_rows(order: str, cached: bool) -> None:
    """If this fails, sessions are not merged, expire at another time, or come in another order than Kafka's."""
    draw = random.Random(len(order) + cached)
    opened = Opened(
        Store("rows", StoreKind.SESSION, caching=cached, retention_ms=RETENTION_MS, **ORDERS[order]),
        cache_bytes=1_000_000,
    )
    store, slow = opened.store, SlowSessions(order)
    names = ["a", "aa", "ab", "b", "bb\x7f", "c"]
    for step in range(700):
        opened.at(step)
        key = draw.choice(names)
        end = max(0, step * 700 - draw.randrange(0, 250_000, 10_000))
        start = max(0, end - draw.choice([0, 5_000, 20_000]))
        session = Windowed(key, Window(start, end))
        action = draw.random()
        if action < 0.6:
            value = draw.choice([None, step, step])
            if value is None and cached:
                store.remove(session)
            else:
                store.put(session, value)
            (slow.put_cached if cached else slow.put)((key, start, end), value)
        elif action < 0.63:
            store.flush()
            slow.flush()
        assert store.fetch_session(key, start, end) == slow.shown().get((key, start, end))
        if action > 0.8:
            first = max(0, start - draw.randrange(100_000))
            last = end + draw.choice([0, 10_000, 1 << 62])
            low, high = draw.choice([None, *names]), draw.choice([None, *names])
            assert plain(store.find_sessions(key, first, last)) == slow.select(key, key, first, last, False)
            assert plain(store.backward_find_sessions(key, first, last)) == slow.select(key, key, first, last, True)
            assert plain(store.find_sessions_of_keys(low, high, first, last)) == slow.select(
                low, high, first, last, False
            )
            assert plain(store.backward_find_sessions_of_keys(low, high, first, last)) == slow.select(
                low, high, first, last, True
            )
            assert plain(store.fetch(key)) == slow.select(key, key, 0, 1 << 62, False)
            assert plain(store.backward_fetch_keys(low, high)) == slow.select(low, high, 0, 1 << 62, True)
    store.flush()
    slow.flush()
    assert opened.task.dropped_records == slow.dropped > 0

    restored = Opened(Store("rows", StoreKind.SESSION, retention_ms=RETENTION_MS, **ORDERS[order]))
    for _, data, changed, timestamp in opened.log:
        restored.store.restore(data, changed, timestamp)
    assert list(restored.store.entries()) == list(store.entries())
    assert restored.log == []


def test_a_cache_above_sessions_in_memory_hides_and_shows_the_same_rows() -> None:
    """If this fails, a session in memory is counted twice, or not at all, before a commit."""
    draw = random.Random(5)
    opened = Opened(
        Store("rows", StoreKind.SESSION, caching=True, retention_ms=RETENTION_MS, persistent=False),
        cache_bytes=1_000_000,
    )
    store, slow = opened.store, SlowSessions("memory")
    for step in range(400):
        opened.at(step)
        # No two sessions of a key share an end.
        key, start = draw.choice(["a", "b"]), max(0, step - draw.randrange(40))
        value = draw.choice([None, step, step])
        store.put(Windowed(key, Window(start, start * 2)), value)
        slow.put_cached((key, start, start * 2), value)
        if draw.random() < 0.1:
            store.flush()
            slow.flush()
        assert sorted(plain(store.fetch(key))) == sorted(slow.select(key, key, 0, 1 << 62, False))


def test_sessions_are_found_by_their_ends() -> None:
    """If this fails, sessions that closed are not emitted, or in another order than Kafka's."""
    rows = [("b", 5, 20), ("a", 10, 20), ("a", 5, 20), ("c", 0, 70_000), ("d", 0, 90_000)]
    for order, expected in (
        ("time", [("a", 5, 20), ("b", 5, 20), ("a", 10, 20), ("c", 0, 70_000)]),
        ("memory", [("a", 10, 20), ("a", 5, 20), ("b", 5, 20), ("c", 0, 70_000)]),
    ):
        opened = Opened(Store("rows", StoreKind.SESSION, retention_ms=RETENTION_MS, **ORDERS[order]))
        for key, start, end in rows:
            opened.store.put(Windowed(key, Window(start, end)), 1)
        assert [row for row, _ in plain(opened.store.find_sessions_by_end(20, 70_000))] == expected
        assert plain(opened.store.find_sessions_by_end(21, 69_999)) == []
    opened = Opened(Store("rows", StoreKind.SESSION, retention_ms=RETENTION_MS))
    with pytest.raises(NotImplementedError, match="emit when windows close"):
        opened.store.find_sessions_by_end(0, 1)


def test_changes_are_passed_on_with_the_end_of_the_session() -> None:
    """If this fails, results of sessions have another key, value or timestamp than Kafka's."""
    opened = Opened(Store("rows", StoreKind.SESSION, caching=True, retention_ms=RETENTION_MS), cache_bytes=10_000)
    store = opened.store
    seen: list[Record] = []
    assert store.set_flush_listener(seen.append, True)
    opened.at(7, (("h", b"1"),))
    store.put(Windowed("a", Window(0, 10)), 1)
    opened.at(8)
    store.remove(Windowed("gone", Window(0, 10)))
    assert (seen, opened.log) == ([], [])
    store.flush()
    assert seen == [Record(Windowed("a", Window(0, 10)), (1, None, True), 10, (("h", b"1"),))]
    opened.at(9)
    store.remove(Windowed("a", Window(0, 10)))
    store.flush()
    assert seen[1:] == [Record(Windowed("a", Window(0, 10)), (None, 1, True), 10)]
    assert opened.log == [
        ("rows", session_key(b"a", 0, 10), LONG.serialize("", 1), 7),
        ("rows", session_key(b"a", 0, 10), None, 9),
    ]


def test_sessions_that_emit_when_they_close_have_no_cache_and_all_need_a_retention() -> None:
    """If this fails, such sessions are emitted late, or a store without retention is found when a row expires."""
    store = Store("rows", StoreKind.SESSION, caching=True, retention_ms=5, options={"time_ordered": True})
    assert not Opened(store, cache_bytes=1000).store.set_flush_listener(lambda record: None, False)
    with pytest.raises(ValueError, match="session store rows has no retention_ms"):
        Opened(Store("rows", StoreKind.SESSION))
