"""The buffer of `suppress` beside a list of changes."""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

import pytest

from broker_streams.kernel.stores.keys import MAX_LONG
from broker_streams.kernel.stores.suppression import NO_TIMESTAMP, VERSION_HEADERS
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import NO_HEADERS, Change, Headers, Record, RecordMetadata
from tests.broker_streams.kernel.stores.support import Opened

STORE = Store("rows", StoreKind.SUPPRESSION_BUFFER)


class Slow(NamedTuple):
    time: int
    key: str
    prior: int | None
    change: Change
    timestamp: int

    @property
    def size_bytes(self) -> int:
        # Time, key, context without headers, topic "input", and 8 bytes for each long.
        values = [self.prior, self.change.new] + ([] if self.change.old == self.prior else [self.change.old])
        return 8 + len(self.key) + 20 + 5 + 8 * sum(value is not None for value in values)


@pytest.mark.parametrize("seed", range(3))
def test_a_buffer_is_a_sorted_list(seed: int) -> None:
    """If this fails, suppressed results are missing, doubled, or come at another time than Kafka's."""
    draw = random.Random(seed)
    opened = Opened(STORE)
    buffer, slow = opened.store, list[Slow]()
    for step in range(600):
        opened.at(step)
        key, time = draw.choice(["a", "b", "bb", "c", "d"]), draw.randrange(50)
        if draw.random() < 0.7:
            change = Change(draw.choice([None, step]), draw.choice([None, 1, 2]))
            buffer.put(time, key, change)
            waits = next((row for row in slow if row.key == key), None)
            if waits is not None:
                slow.remove(waits)
                time = waits.time
            slow.append(Slow(time, key, change.old if waits is None else waits.prior, change, step))
        else:
            slow.sort(key=lambda row: (row.time, row.key))
            kept, seen = draw.randrange(4), list[Record]()
            buffer.evict_while(lambda kept=kept: buffer.num_records > kept, seen.append)
            assert seen == [Record(row.key, row.change, row.timestamp) for row in slow[: max(0, len(slow) - kept)]]
            del slow[: max(0, len(slow) - kept)]
        if draw.random() < 0.1:
            buffer.flush()
        assert buffer.num_records == len(slow)
        assert buffer.size_bytes == sum(row.size_bytes for row in slow)
        assert buffer.min_timestamp == min((row.time for row in slow), default=MAX_LONG)
        waits = next((row for row in slow if row.key == key), None)
        assert buffer.prior_value_for_buffered(key) == (waits is not None, waits and waits.prior)
    buffer.flush()

    restored = Opened(STORE)
    for _, data, value, timestamp in opened.log:
        assert timestamp == NO_TIMESTAMP
        restored.store.restore(data, value, timestamp, VERSION_HEADERS if value is not None else NO_HEADERS)
    assert list(restored.store.entries()) == list(buffer.entries())
    assert (restored.store.size_bytes, restored.store.min_timestamp) == (buffer.size_bytes, buffer.min_timestamp)


def test_the_changelog_has_kafkas_bytes() -> None:
    """If this fails, Kafka Streams cannot take over a buffer, and this engine cannot take over Kafka's."""
    opened = Opened(STORE)
    opened.at(7, (("h", b"x"), ("n", None)))
    opened.store.put(9, "k", Change(2, 1))
    opened.at(8)
    opened.store.put(9, "l", Change(None, None))
    assert opened.log == []
    opened.store.flush()
    opened.store.flush()
    context = "0000000000000007 0000000000000000 00000005 696e707574 00000000"
    headers = "00000002 00000001 68 00000001 78 00000001 6e ffffffff"
    values = "00000008 0000000000000001 fffffffe 00000008 0000000000000002"
    first = bytes.fromhex(f"{context} {headers} {values} 0000000000000009")
    context = "0000000000000008 0000000000000001 00000005 696e707574 00000000 00000000"
    second = bytes.fromhex(f"{context} ffffffff ffffffff ffffffff 0000000000000009")
    assert opened.log == [("rows", b"k", first, NO_TIMESTAMP), ("rows", b"l", second, NO_TIMESTAMP)]
    opened.store.evict_while(lambda: opened.store.num_records > 1, lambda record: None)
    opened.store.flush()
    assert opened.log[2:] == [("rows", b"k", None, NO_TIMESTAMP)]
    assert opened.log_headers == [VERSION_HEADERS, VERSION_HEADERS, NO_HEADERS]


def test_a_change_is_emitted_in_the_context_of_its_record() -> None:
    """If this fails, suppressed results have the headers, timestamp or position of another record."""
    opened = Opened(STORE)
    opened.at(7, (("h", b"x"),))
    opened.store.put(0, "k", Change(2, 1))
    opened.at(8)
    seen: list[tuple[int, Headers, RecordMetadata | None]] = []
    task = opened.task
    opened.store.evict_while(lambda: True, lambda record: seen.append((task.timestamp, task.headers, task.metadata)))
    assert seen == [(7, (("h", b"x"),), RecordMetadata("input", 0, 0))]
    assert (task.timestamp, task.headers, task.metadata) == (8, NO_HEADERS, RecordMetadata("input", 0, 1))


def test_changelogs_of_older_versions_are_restored() -> None:
    """If this fails, an application of an older Kafka Streams loses what waited when it moves here."""
    context = struct.pack(">qqi", 5, 6, 1) + b"t" + struct.pack(">ii", 0, 0)
    change = struct.pack(">iqiq", 8, 1, 8, 2)
    contextual = context + struct.pack(">i", len(change)) + change
    time = struct.pack(">q", 9)
    third = context + struct.pack(">iqiiq", 8, 1, -2, 8, 2) + time
    for version, value in (
        (None, time + change),
        (b"\x01", time + contextual),
        (b"\x02", contextual + struct.pack(">iq", 8, 1) + time),
        (b"\x02", third),
        (b"\x03", third),
    ):
        opened = Opened(STORE)
        opened.store.restore(b"k", value, 5, () if version is None else (("v", version),))
        seen: list[Record] = []
        assert opened.store.prior_value_for_buffered("k") == (True, 1)
        assert opened.store.min_timestamp == 9
        opened.store.evict_while(lambda: True, seen.append)
        assert [(record.key, record.value, record.timestamp) for record in seen] == [("k", (2, 1, True), 5)]
    with pytest.raises(ValueError, match="version b'\\\\x04'; 1, 2, 3, or none"):
        opened.store.restore(b"k", third, 5, (("v", b"\x04"),))
    with pytest.raises(ValueError, match="bytes begins at"):
        opened.store.restore(b"k", third[:-3], 5, VERSION_HEADERS)
    opened.store.restore(b"absent", None, 5)
