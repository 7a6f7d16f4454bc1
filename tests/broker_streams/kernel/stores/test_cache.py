"""The cache beside a list of rows that does each step as Kafka's NamedCache describes it."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.cache import Cache, Entry, StoreCache
from broker_streams.records import Headers, RecordMetadata

Flushed = tuple[bytes, bytes | None, int]


@dataclass
class Row:
    key: bytes
    value: bytes | None
    timestamp: int
    topic: str
    dirty: bool
    change: int

    @property
    def size_bytes(self) -> int:
        # Node: key and three references; entry: flag, value, timestamp, offset, topic, partition.
        return len(self.key) + 24 + 1 + len(self.value or b"") + 8 + 8 + len(self.topic) + 4


class SlowCache:
    """Rows in the order of their use, the oldest first."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.rows: list[Row] = []
        self.flushed: list[Flushed] = []
        self.changes = 0

    def find(self, key: bytes) -> Row | None:
        return next((row for row in self.rows if row.key == key), None)

    def get(self, key: bytes) -> Row | None:
        row = self.find(key)
        if row is not None:
            self.rows.remove(row)
            self.rows.append(row)
        return row

    def put(self, key: bytes, value: bytes | None, timestamp: int, topic: str, dirty: bool) -> None:
        self.changes += 1
        previous = self.find(key)
        if previous is not None:
            self.rows.remove(previous)
        self.rows.append(Row(key, value, timestamp, topic, dirty, self.changes))
        while sum(row.size_bytes for row in self.rows) > self.max_bytes and self.rows:
            eldest = self.rows.pop(0)
            if eldest.dirty:
                self.flushed.append((eldest.key, eldest.value, eldest.timestamp))
                self.flush()

    def flush(self) -> None:
        for row in sorted(self.rows, key=lambda row: row.change):
            if row.dirty:
                self.flushed.append((row.key, row.value, row.timestamp))
                row.dirty = False
                if row.value is None:
                    self.rows.remove(row)


@pytest.mark.parametrize("max_bytes", [60, 200, 400, 100_000])
def test_rows_leave_the_cache_in_kafkas_order(max_bytes: int) -> None:
    """If this fails, results of a full cache come in another order than Kafka Streams gives them."""
    draw = random.Random(max_bytes)
    task = TaskState("app", (0, 0))
    flushed: list[Flushed] = []

    def flush_entry(key: bytes, entry: Entry) -> None:
        assert task.timestamp == entry.timestamp
        assert task.metadata == entry.metadata
        flushed.append((key, entry.value, entry.timestamp))

    cache = Cache(max_bytes)
    rows, slow = StoreCache(cache, task, flush_entry), SlowCache(max_bytes)
    for step in range(3000):
        key = b"k%d" % draw.randrange(12)
        topic = draw.choice(["t", "topic"])
        task.timestamp = step
        task.metadata = RecordMetadata(topic, 0, step)
        action = draw.random()
        if action < 0.3:
            entry, row = rows.get(key), slow.get(key)
            assert (entry and entry.value) == (row and row.value)
        elif action < 0.8:
            value = draw.choice([None, draw.randbytes(draw.randrange(20))])
            rows.put(key, value)
            slow.put(key, value, step, topic, True)
        elif action < 0.9:
            if slow.find(key) is None:
                rows.put_read(key, b"read")
                slow.put(key, b"read", -1, "", False)
        elif action < 0.95:
            rows.flush()
            slow.flush()
        else:
            shown = list(rows.items(b"k1", b"k5"))
            assert shown == [
                (row.key, row.value) for row in sorted(slow.rows, key=lambda row: row.key) if b"k1" <= row.key <= b"k5"
            ]
            for key, _ in shown:
                slow.get(key)
        assert flushed == slow.flushed
        assert cache.size_bytes == sum(row.size_bytes for row in slow.rows)
        assert task.timestamp == step
    assert len(flushed) > 100


def test_headers_count_and_come_back() -> None:
    """If this fails, a cache of records with headers grows beyond its bound, or results lose their headers."""
    task = TaskState("app", (0, 0))
    seen: list[Headers] = []
    cache = Cache(10_000)
    rows = StoreCache(cache, task, lambda key, entry: seen.append(task.headers))
    task.headers = (("né", b"12"), ("none", None))
    rows.put(b"k", b"v")
    assert cache.size_bytes == 1 + 24 + 1 + 1 + 20 + 2 + 2 + 4
    task.headers = ()
    rows.flush()
    assert seen == [(("né", b"12"), ("none", None))]
    assert task.headers == ()
    rows.clear()
    assert (cache.size_bytes, len(rows)) == (0, 0)
