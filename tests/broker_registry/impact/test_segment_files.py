"""The newest records from segments, as a broker leaves them on a disk."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.wire.records import Record, encode_batch
from broker_registry.impact.groups import Range
from broker_registry.impact.sample import Limits
from broker_registry.impact.segment_files import read_files, topics_in

KEY = TopicPartition("orders", 0)


def batch(first: int, count: int = 5, **more: bool) -> bytes:
    records = [Record(0, 1_000 + first + at, None, b"%d" % (first + at), ()) for at in range(count)]
    return encode_batch(records, base_offset=first, **more)


def segment(directory: Path, base: int, *batches: bytes, tail: bytes = b"", index: bool = True) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{base:020}.log"
    path.write_bytes(b"".join(batches) + tail)
    if index:
        entries: list[bytes] = []
        position = 0
        for each in batches[:-1]:
            position += len(each)
            (first,) = struct.unpack_from(">q", batches[len(entries) + 1])
            entries.append(struct.pack(">ii", first - base, position))
        # As an index that the broker has open: it is longer than its entries.
        path.with_suffix(".index").write_bytes(b"".join(entries) + b"\0" * 16)
    return path


def values(directory: Path, count: int) -> list[bytes | None]:
    return [row.record.value for row in read_files([directory], ["orders"], Limits(count)).rows]


@pytest.mark.parametrize("index", [True, False])
def test_the_newest_records_are_read_over_segments(tmp_path: Path, index: bool) -> None:
    """If this fails, a trial reads old records, or reads each log from its begin."""
    log = tmp_path / "orders-0"
    segment(log, 10, batch(10), batch(15), index=index)
    segment(log, 20, batch(20), batch(25), batch(30), index=index)
    assert values(tmp_path, 3) == [b"32", b"33", b"34"]
    assert values(tmp_path, 17) == [b"%d" % each for each in range(18, 35)]
    sample = read_files([tmp_path], ["orders"], Limits(1_000))
    assert [row.record.offset for row in sample.rows] == list(range(10, 35))
    assert sample.ranges == {KEY: Range(10, 35, 10, 35)}
    assert {row.partition for row in sample.rows} == {KEY}


@pytest.mark.parametrize("tail", [batch(20)[:-7], b"\0" * 1_000, b"\0\0\0", batch(20)[:11]])
def test_what_is_not_whole_at_the_end_is_left_out(tmp_path: Path, tail: bytes) -> None:
    """If this fails, a broker that writes ends the trial with an error."""
    segment(tmp_path / "orders-0", 10, batch(10), batch(15), tail=tail)
    assert values(tmp_path, 4) == [b"16", b"17", b"18", b"19"]


def test_markers_and_damaged_batches_have_no_records(tmp_path: Path) -> None:
    """If this fails, markers of transactions count as records that break."""
    damaged = bytearray(batch(15))
    damaged[-1] ^= 1
    marker = encode_batch([Record(0, 1, b"\0\0\0\1", b"\0" * 6, ())], base_offset=20, transactional=True, control=True)
    segment(tmp_path / "orders-0", 10, batch(10), bytes(damaged), marker, batch(21))
    assert values(tmp_path, 100) == [b"%d" % each for each in (*range(10, 15), *range(21, 26))]


def test_only_the_partitions_of_the_topics_are_read(tmp_path: Path) -> None:
    """If this fails, records of other topics are tried."""
    for name in ("orders-0", "orders-1", "orders-x-0", "other-0"):
        segment(tmp_path / name, 0, batch(0))
    (tmp_path / "meta.properties").write_text("")
    (tmp_path / "orders-2").mkdir()
    assert topics_in([tmp_path]) == {"orders", "orders-x", "other"}
    sample = read_files([tmp_path], ["orders"], Limits(4))
    assert [(row.partition.partition, row.record.offset) for row in sample.rows] == [(0, 3), (0, 4), (1, 3), (1, 4)]
    with pytest.raises(OSError, match="absent"):
        topics_in([tmp_path / "absent"])


def test_bounds_end_the_reading(tmp_path: Path) -> None:
    """If this fails, a topic of large records fills the memory."""
    segment(tmp_path / "orders-0", 0, *(batch(first) for first in range(0, 50, 5)))
    sample = read_files([tmp_path], ["orders"], Limits(50, bytes=7))
    assert sample.stopped == "stopped after 10 bytes"
    assert sample.ranges[KEY].reached == 10
