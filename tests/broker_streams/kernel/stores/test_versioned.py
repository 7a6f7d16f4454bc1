"""Versioned stores beside a dictionary of all versions."""

from __future__ import annotations

import random

import pytest

from broker_streams.kernel.stores.version_segment import Found, VersionSegment, times_of
from broker_streams.kernel.stores.versioned import IS_LATEST, NOT_PUT, version_interval
from broker_streams.plan.stores import Store, StoreKind
from tests.broker_streams.kernel.stores.support import LONG, Opened


class SlowVersions:
    """All versions by key and time; None is a tombstone."""

    def __init__(self, history_ms: int) -> None:
        self.history_ms = history_ms
        self.versions: dict[str, dict[int, int | None]] = {}
        self.stream_time = -1
        self.dropped = 0

    def put(self, key: str, value: int | None, timestamp: int) -> int:
        if timestamp < self.stream_time - self.history_ms:
            self.dropped += 1
            return NOT_PUT
        self.stream_time = max(self.stream_time, timestamp)
        versions = self.versions.setdefault(key, {})
        versions[timestamp] = value
        return min((other for other in versions if other > timestamp), default=IS_LATEST)

    def get_as_of(self, key: str, timestamp: int) -> tuple[int, int, int | None] | None:
        versions = self.versions.get(key, {})
        latest = max(versions, default=None)
        if timestamp < self.stream_time - self.history_ms and (latest is None or latest > timestamp):
            return None
        found = max((other for other in versions if other <= timestamp), default=None)
        value = None if found is None else versions[found]
        if found is None or value is None:
            return None
        return value, found, min((other for other in versions if other > found), default=None)

    def get_range(self, key: str, first: int, last: int) -> list[tuple[int, int, int | None]]:
        """Versions that are valid at one of these times."""
        rows: list[tuple[int, int, int | None]] = []
        valid_to = None
        for valid_from, value in sorted(self.versions.get(key, {}).items(), reverse=True):
            if value is not None and valid_from <= last and (valid_to is None or valid_to > first):
                rows.append((value, valid_from, valid_to))
            valid_to = valid_from
        return rows


@pytest.mark.parametrize(("interval_ms", "seed"), [(7, 0), (30, 1), (200, 2), (None, 3)])
def test_a_store_is_a_dictionary_of_versions(interval_ms: int | None, seed: int) -> None:
    """If this fails, a join with a versioned table sees a value of another time."""
    draw = random.Random(seed)
    history_ms = 100
    store_plan = Store(
        "rows",
        StoreKind.VERSIONED_KEY_VALUE,
        history_ms=history_ms,
        options={"segment_interval_ms": interval_ms} if interval_ms else {},
    )
    opened, slow = Opened(store_plan), SlowVersions(history_ms)
    store = opened.store
    for step in range(600):
        key = draw.choice("abc")
        timestamp = max(0, step - draw.choice([0, 0, 1, draw.randrange(150)]))
        value = draw.choice([None, step, step, step])
        latest = slow.get_as_of(key, 1 << 62)
        if latest is not None and latest[1] == timestamp:
            # A tombstone there leaves no trace: see the test below.
            value = step
        if draw.random() < 0.15 and value is None:
            late = timestamp < slow.stream_time - history_ms
            expected = None if late else slow.get_as_of(key, timestamp)
            assert store.delete(key, timestamp) == expected
            slow.put(key, None, timestamp)
        else:
            assert store.put(key, value, timestamp) == slow.put(key, value, timestamp)
        assert opened.log[-1] == ("rows", key.encode(), LONG.serialize("", value), timestamp)
        latest = slow.get_as_of(key, 1 << 62)
        assert store.get(key) == (None if latest is None else (*latest[:2], None))
        asked = max(0, timestamp - draw.randrange(200))
        assert store.get_as_of(key, asked) == slow.get_as_of(key, asked)
        first = max(slow.stream_time - history_ms, timestamp - draw.randrange(50))
        last = first + draw.randrange(80)
        assert list(store.get_range(key, first, last)) == slow.get_range(key, first, last)
        assert list(store.get_range(key, first, last, True)) == slow.get_range(key, first, last)[::-1]
    assert opened.task.dropped_records == slow.dropped > 0

    restored = Opened(store_plan)
    for _, data, changed, timestamp in opened.log:
        restored.store.restore(data, changed, timestamp)
    assert list(restored.store.entries()) == list(store.entries())
    assert (restored.log, restored.task.dropped_records) == ([], 0)


def test_a_tombstone_at_the_time_of_the_first_value_leaves_no_trace() -> None:
    """If this fails, a record before such a tombstone is valid for another time than in Kafka Streams."""
    store = Opened(Store("rows", StoreKind.VERSIONED_KEY_VALUE, history_ms=100)).store
    store.put("a", 1, 10)
    assert store.put("a", None, 10) == IS_LATEST
    assert store.put("a", 2, 5) == IS_LATEST
    assert store.get_as_of("a", 10) == (2, 5, None)
    # The end of an earlier version stays.
    store.put("b", 1, 10)
    store.put("b", 2, 5)
    store.put("b", None, 10)
    assert store.get_as_of("b", 10) is None
    assert store.put("b", 3, 7) == 10


def test_the_layout_of_a_segment() -> None:
    """If this fails, state files of versioned stores are read as other versions."""
    segment = VersionSegment(b"a", 1, 3)
    segment.add_latest(b"bc", 5, 9)
    data = segment.data()
    assert data == bytes.fromhex(
        "0000000000000009 0000000000000001"
        "0000000000000005 00000002  0000000000000003 ffffffff  0000000000000001 00000001"
        "61 6263"
    )
    assert times_of(data) == (9, 1)
    again = VersionSegment.of(data)
    assert [again.find(time)[1:] for time in (1, 4, 8)] == [(1, 3, b"a"), (3, 5, None), (5, 9, b"bc")]
    assert again.between(0, 4) == [Found(2, 1, 3, b"a")]
    assert again.data() == data
    with pytest.raises(ValueError, match="no version is valid at 0; the earliest one begins at 1"):
        again.find(0)


def test_a_version_that_was_half_written_is_replaced() -> None:
    """If this fails, a batch that is put again after a failure leaves versions of the failed try."""
    segment = VersionSegment(b"a", 1, 3)
    segment.add_latest(b"b", 3, 9)
    segment.add_latest(b"c", 3, 8)
    assert (segment.versions, segment.next_timestamp) == ([(3, b"c"), (1, b"a")], 8)
    segment.add_latest(b"d", 1, 2)
    assert (segment.versions, segment.next_timestamp) == ([(1, b"d")], 2)


def test_the_interval_of_segments_is_kafkas_and_the_history_is_needed() -> None:
    """If this fails, versions are forgotten at another time than Kafka's."""
    assert [version_interval(ms) for ms in (3_000, 60_000, 300_000, 3_600_000, 86_400_000)] == [
        2_000,
        20_000,
        60_000,
        300_000,
        3_600_000,
    ]
    with pytest.raises(ValueError, match="versioned store rows has no history_ms"):
        Opened(Store("rows", StoreKind.VERSIONED_KEY_VALUE))
