"""The buffer of a stream-table join with a grace period beside a list of records."""

from __future__ import annotations

import random

import pytest

from broker_streams.kernel.stores.keys import MAX_LONG, time_first_window_key
from broker_streams.kernel.stores.suppression import NO_TIMESTAMP
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import Record, RecordMetadata
from tests.broker_streams.kernel.stores.support import Opened

GRACE_MS = 20
STORE = Store("rows", StoreKind.JOIN_BUFFER, options={"grace_ms": GRACE_MS})


def test_a_buffer_is_a_sorted_list() -> None:
    """If this fails, records are joined with a table of another time, or are lost."""
    draw = random.Random(1)
    opened = Opened(STORE)
    buffer = opened.store
    waiting: list[tuple[int, str, int]] = []
    latest = -1
    for step in range(500):
        timestamp, key = max(0, step - draw.randrange(30)), draw.choice(["a", "b"])
        opened.at(timestamp, (("h", b"%d" % step),))
        kept = timestamp >= latest - GRACE_MS
        assert buffer.put(Record(key, step, timestamp)) == kept
        if kept:
            waiting.append((timestamp, key, step))
            latest = max(latest, timestamp)
        if draw.random() < 0.3:
            opened.at(1000)
            seen: list[Record] = []
            buffer.evict(seen.append)
            over = sorted(row for row in waiting if row[0] <= latest - GRACE_MS)
            assert seen == [Record(key, value, at, (("h", b"%d" % value),)) for at, key, value in over]
            waiting = [row for row in waiting if row not in over]
        assert buffer.num_records == len(waiting)
        assert buffer.min_timestamp == min((row[0] for row in waiting), default=MAX_LONG)

    restored = Opened(STORE)
    for _, data, value, timestamp in opened.log:
        restored.store.restore(data, value, timestamp)
    assert list(restored.store.entries()) == list(buffer.entries())
    assert restored.store.size_bytes == buffer.size_bytes > 0
    restored.store.put(Record("a", 1, latest))
    buffer.put(Record("a", 1, latest))
    assert [data for data, _ in restored.store.entries()] == [data for data, _ in buffer.entries()]


def test_the_changelog_has_kafkas_bytes_and_the_context_comes_back() -> None:
    """If this fails, Kafka Streams cannot take over a buffer, or joined records lose their place."""
    opened = Opened(STORE)
    opened.at(7)
    opened.store.put(Record("k", 2, 7))
    key = time_first_window_key(b"k", 7, 1)
    context = "0000000000000007 0000000000000000 00000005 696e707574 00000000 00000000"
    value = bytes.fromhex(f"{context} ffffffff ffffffff 00000008 0000000000000002 0000000000000000")
    assert opened.log == [("rows", key, value, NO_TIMESTAMP)]
    opened.at(100)
    opened.store.put(Record("k", 3, 100))
    seen = []
    opened.store.evict(lambda record: seen.append((record, opened.task.metadata, opened.task.timestamp)))
    assert seen == [(Record("k", 2, 7), RecordMetadata("input", 0, 0), 7)]
    assert opened.log[-1] == ("rows", key, None, NO_TIMESTAMP)
    assert opened.task.timestamp == 100


def test_a_buffer_needs_a_grace_period_and_its_records_need_values() -> None:
    """If this fails, a wrong plan joins at other times without a word."""
    with pytest.raises(ValueError, match="buffer rows has no grace_ms"):
        Opened(Store("rows", StoreKind.JOIN_BUFFER))
    with pytest.raises(ValueError, match="a record of buffer rows has no value"):
        Opened(STORE).store.put(Record("k", None, 1))
