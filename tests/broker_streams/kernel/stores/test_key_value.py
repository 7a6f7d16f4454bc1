"""Key-value stores of all layers beside a dictionary."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import NO_HEADERS, Record, ValueAndTimestamp
from tests.broker_streams.kernel.stores.support import LONG, TEXT, Opened

KINDS = [StoreKind.KEY_VALUE, StoreKind.TIMESTAMPED_KEY_VALUE]


def value_of(kind: StoreKind, number: int | None, timestamp: int) -> Any:
    return number if number is None or kind is StoreKind.KEY_VALUE else ValueAndTimestamp(number, timestamp)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cache_bytes", [0, 150, 100_000])
def test_a_store_is_a_sorted_dictionary(kind: StoreKind, cache_bytes: int) -> None:
    """If this fails, a table or an aggregate holds other rows than its records say."""
    draw = random.Random(cache_bytes)
    opened = Opened(Store("rows", kind, caching=True), cache_bytes=cache_bytes)
    store, twin = opened.store, dict[str, Any]()
    for step in range(1500):
        opened.at(step)
        key = f"k{draw.randrange(20)}"
        value = value_of(kind, draw.choice([None, step]), step * 2)
        match draw.randrange(8):
            case 0 | 1:
                store.put(key, value)
                twin[key] = value
            case 2:
                assert store.put_if_absent(key, value) == twin.get(key)
                twin[key] = twin[key] if twin.get(key) is not None else value
            case 3:
                assert store.delete(key) == twin.pop(key, None)
            case 4:
                rows = [(f"k{draw.randrange(20)}", value_of(kind, step + at, step)) for at in range(3)]
                store.put_all(rows)
                twin.update(rows)
            case 5:
                store.flush()
            case 6:
                low, high = draw.choice([None, "k1", "k3"]), draw.choice([None, "k12", "k5"])
                rows = sorted(
                    (key, value)
                    for key, value in twin.items()
                    if value is not None and (low is None or low <= key) and (high is None or key <= high)
                )
                assert list(store.range(low, high)) == rows
                assert list(store.reverse_range(low, high)) == rows[::-1]
            case 7:
                rows = sorted((key, value) for key, value in twin.items() if value is not None)
                assert list(store.all()) == rows
                assert list(store.reverse_all()) == rows[::-1]
                assert list(store.prefix_scan("k1", TEXT)) == [row for row in rows if row[0].startswith("k1")]
        twin = {key: value for key, value in twin.items() if value is not None}
        assert store.get(key) == twin.get(key)
    store.flush()
    assert store.approximate_num_entries() == len(twin)

    restored = Opened(Store("rows", kind))
    for _, data, changed, timestamp in opened.log:
        restored.store.restore(data, changed, timestamp)
    assert list(restored.store.entries()) == list(store.entries())
    assert list(restored.store.all()) == sorted(twin.items())
    assert restored.log == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_changelog_has_kafkas_bytes(kind: StoreKind) -> None:
    """If this fails, Kafka Streams cannot take over a changelog, and neither can this engine."""
    opened = Opened(Store("rows", kind))
    opened.at(7, (("h", b"x"),))
    opened.store.put("a", value_of(kind, 1, 5))
    opened.store.put("a", None)
    opened.store.delete("absent")
    timestamp = 5 if kind is StoreKind.TIMESTAMPED_KEY_VALUE else 7
    assert opened.log == [
        ("rows", b"a", struct.pack(">q", 1), timestamp),
        ("rows", b"a", None, 7),
        ("rows", b"absent", None, 7),
    ]
    assert opened.log_headers == [NO_HEADERS] * 3
    opened.store.put("a", value_of(kind, 1, 5))
    stored = struct.pack(">qq", 5, 1) if kind is StoreKind.TIMESTAMPED_KEY_VALUE else struct.pack(">q", 1)
    assert list(opened.store.entries()) == [(b"a", stored)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("send_old_values", [False, True])
def test_changes_are_passed_on_when_rows_leave_the_cache(kind: StoreKind, send_old_values: bool) -> None:
    """If this fails, results of a table are missing, doubled, or have the timestamp of another record."""
    opened = Opened(Store("rows", kind, caching=True), cache_bytes=1000)
    seen: list[Record] = []
    assert opened.store.set_flush_listener(seen.append, send_old_values)
    for step, (key, number) in enumerate([("a", 1), ("b", 2), ("a", 3), ("gone", 4), ("gone", None)]):
        opened.at(step, (("h", b"%d" % step),))
        opened.store.put(key, value_of(kind, number, step + 10))
    assert (seen, opened.log) == ([], [])
    opened.store.flush()
    more = 10 if kind is StoreKind.TIMESTAMPED_KEY_VALUE else 0
    assert seen == [
        Record("b", (2, None, True), 1 + more, (("h", b"1"),)),
        Record("a", (3, None, True), 2 + more, (("h", b"2"),)),
    ]
    assert [(key, timestamp) for _, key, _, timestamp in opened.log] == [(b"b", 1 + more), (b"a", 2 + more)]
    seen.clear()
    opened.at(9)
    opened.store.put("a", None)
    opened.store.put("b", value_of(kind, 8, 9))
    opened.store.flush()
    old = send_old_values
    assert seen == [
        Record("a", (None, 3 if old else None, True), 9),
        Record("b", (8, 2 if old else None, True), 9),
    ]


def test_a_cache_without_bytes_is_no_cache() -> None:
    """If this fails, an application that switched the cache off gets no results before a commit."""
    opened = Opened(Store("rows", StoreKind.KEY_VALUE, caching=True))
    assert not opened.store.set_flush_listener(lambda record: None, True)
    opened.store.put("a", 1)
    assert len(opened.log) == 1


def test_equal_values_are_put_only_if_they_are_newer() -> None:
    """If this fails, a table without changes writes to its changelog, or loses a newer timestamp (KIP-557)."""
    opened = Opened(Store("rows", StoreKind.TIMESTAMPED_KEY_VALUE))
    store = opened.store
    store.put("a", ValueAndTimestamp(1, 5))
    value, data = store.get_with_binary("a")
    assert value == (1, 5)
    # The same value at a later time changes nothing; at an earlier or equal time it is put.
    assert not store.put_if_different_values("a", ValueAndTimestamp(1, 6), data)
    assert store.put_if_different_values("a", ValueAndTimestamp(1, 4), data)
    assert store.put_if_different_values("a", ValueAndTimestamp(2, 9), data)
    assert not store.put_if_different_values("b", ValueAndTimestamp(None, 9), None)
    assert store.get("a") == (2, 9)


def test_a_row_needs_a_key_and_a_store_needs_serdes() -> None:
    """If this fails, a wrong call ends in a text that does not say which store it was."""
    opened = Opened(Store("rows", StoreKind.KEY_VALUE))
    with pytest.raises(ValueError, match="a key of store rows is None"):
        opened.store.put(None, 1)
    with pytest.raises(ValueError, match="a prefix of store rows is None"):
        opened.store.prefix_scan(None, LONG)
    opened.store.put("a", 1)
    assert list(opened.store.range("b", "a")) == []
