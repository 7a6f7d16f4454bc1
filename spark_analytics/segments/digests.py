"""Counts and digests of the committed records in segments (broker_cy/wire/digest.pyx), on an executor.

Records are numbered in their order in the log, from 0, so that a log and its copy with other offsets have equal
numbers. A chunk is a number of consecutive records.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from broker_cy.wire.digest import folded, joined, record_hashes
from broker_cy.wire.records import Batch
from spark_analytics.segments.batches import fill
from spark_analytics.segments.options import Options
from spark_analytics.segments.plan import Range
from spark_analytics.segments.report import Counters

_BYTES = 8


class Part(NamedTuple):
    """Consecutive records of one chunk: their number, their digest, and the offsets of the first and the last one."""

    chunk: int
    records: int
    digest: int
    first: int
    last: int

    def joined(self, later: Part) -> Part:
        """Return this part with the one that follows it."""
        records = self.records + later.records
        return Part(self.chunk, records, joined(self.digest, later.digest, later.records), self.first, later.last)


class _Counting:
    """Counts records; only batches at the ends of a range are decoded."""

    def __init__(self) -> None:
        self.records = 0

    def begin(self, batch: Batch, first_offset: int, end_offset: int) -> None:
        if batch.base_offset >= first_offset and batch.last_offset < end_offset:
            self.records += batch.count
        else:
            self.records += len(record_hashes(batch, first_offset, end_offset)[0]) // _BYTES

    def fill(self) -> bool:
        return True


class _Hashing:
    """Has the offsets and hashes of one batch after the other, of `most` records."""

    def __init__(self, most: int, *, with_times: bool) -> None:
        self.left = most
        self._with_times = with_times
        self.offsets = array("q")
        self.hashes = b""

    def begin(self, batch: Batch, first_offset: int, end_offset: int) -> None:
        if self.left <= 0:
            return
        offsets, hashes, _ = record_hashes(batch, first_offset, end_offset, self._with_times)
        most = self.left * _BYTES
        self.offsets.frombytes(offsets[:most])
        self.hashes += hashes[:most]
        self.left -= len(hashes) // _BYTES

    def fill(self) -> bool:
        return not self.hashes


def count(wanted: Range, options: Options) -> int:
    """Return the number of records of a range. Raises DamageError."""
    sink = _Counting()
    for _ in fill(wanted, options, sink, Counters()):
        pass
    return sink.records


def parts(
    wanted: Range, options: Options, number: int, most: int, chunk_records: int, *, with_times: bool
) -> list[Part]:
    """Return the digests of the first `most` records of a range; `number` is that of its first record. Raises
    DamageError.
    """
    found: list[Part] = []
    sink = _Hashing(most, with_times=with_times)
    for _ in _emptied(wanted, options, sink):
        at, count_ = 0, len(sink.offsets)
        while at < count_:
            chunk = number // chunk_records
            size = min(count_ - at, (chunk + 1) * chunk_records - number)
            hashes = sink.hashes[at * _BYTES : (at + size) * _BYTES]
            part = Part(chunk, size, folded(0, hashes), sink.offsets[at], sink.offsets[at + size - 1])
            if found and found[-1].chunk == chunk:
                found[-1] = found[-1].joined(part)
            else:
                found.append(part)
            at += size
            number += size
    return found


def hashes_of(wanted: Range, options: Options, skipped: int, most: int, *, with_times: bool) -> tuple[bytes, bytes]:
    """Return the offsets and hashes of `most` records of a range after the first `skipped` ones. Raises DamageError."""
    sink = _Hashing(skipped + most, with_times=with_times)
    offsets, hashes = array("q"), b""
    for _ in _emptied(wanted, options, sink):
        first = min(skipped, len(sink.offsets))
        skipped -= first
        offsets += sink.offsets[first:]
        hashes += sink.hashes[first * _BYTES :]
    return offsets.tobytes(), hashes


def _emptied(wanted: Range, options: Options, sink: _Hashing) -> Iterator[None]:
    """Yield after each batch, and then empty the sink."""
    for _ in fill(wanted, options, sink, Counters()):
        yield
        del sink.offsets[:]
        sink.hashes = b""
