"""Reads the batches of a range of offsets from the segments of a partition.

The segments are looked up again during reading, because a broker may clean, merge or delete them between the plan and
the read, and during the read. An open file does not change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from broker_cy.core.errors import WireError
from broker_cy.wire.records import Batch, decode_batches
from spark_analytics.segments.errors import DamageError
from spark_analytics.segments.files import LISTINGS_MAX, OVERHEAD_BYTES, CountedFile, Header, SegmentFile, segments
from spark_analytics.segments.options import Options
from spark_analytics.segments.plan import Range
from spark_analytics.segments.report import Counters
from spark_analytics.segments.transactions import Hidden
from spark_analytics.segments.walk import Damage, backwards, limit_of, position_of

# Bytes of one read of a segment, and of a read whose length the index does not tell.
CHUNK_BYTES = 1 << 20
BEYOND_BYTES = 64 << 10
# The bytes that contain the length and the magic of a batch.
_FRAME_BYTES = 17


class Sink(Protocol):
    """Takes batches; wire.columns.Columns is one."""

    def begin(self, batch: Batch, first_offset: int, end_offset: int) -> None:
        """Begin a batch, from `first_offset` up to, but not including, `end_offset`. Raises WireError."""

    def fill(self) -> bool:
        """Take records of the begun batch. False: the sink is full, and is called again when it was emptied."""


def fill(wanted: Range, options: Options, sink: Sink, counters: Counters) -> Iterator[None]:
    """Give the batches of a range to a sink, without markers and, as the options say, aborted ones. Yields when the
    sink is full. Raises DamageError for damage if the options do not skip it.
    """
    return _Reader(wanted, options, sink, counters).batches()


class _Reader:
    def __init__(self, wanted: Range, options: Options, sink: Sink, counters: Counters) -> None:
        self._wanted = wanted
        self._counters = counters
        self._damage = Damage(options.skips, counters)
        self._hidden = Hidden(wanted.aborted)
        self._sink = sink
        # No record before this offset is still needed.
        self._next = wanted.start

    def batches(self) -> Iterator[None]:
        """Give the batches of one segment after the other."""
        done: tuple[int, int] | None = None
        while self._next < self._wanted.end:
            opened = self._open(done)
            if opened is None:
                break
            segment, file, done = opened
            with file:
                yield from self._segment(segment, file)

    def _open(self, done: tuple[int, int] | None) -> tuple[SegmentFile, CountedFile, tuple[int, int]] | None:
        """Open the segment that has the next offset, or the first one after it; None at the end of the log. `done` is
        the file (device, inode) that was read last: a file with its name may be another one, into which cleaning has
        merged more.
        """
        for _ in range(LISTINGS_MAX):
            found = segments(self._wanted.directory)
            number = sum(each.base_offset <= self._next for each in found) - 1
            if number < 0 and done is None:
                first = found[0].base_offset if found else self._wanted.end
                reason = f"segments before offset {first} were deleted after the read was planned"
                self._damage.note(self._wanted.directory, 0, self._next, reason)
                number = 0
            try:
                if number >= 0 and number < len(found) and done == _identity(found[number].path):
                    number += 1
                if number >= len(found):
                    break
                segment = found[max(0, number)]
                if segment.base_offset >= self._wanted.end:
                    return None
                file = CountedFile(segment.path, self._counters)
                self._next = max(self._next, segment.base_offset)
                return segment, file, file.identity
            except FileNotFoundError:
                continue
        else:
            raise DamageError(self._wanted.directory, 0, self._next, "the segments change too fast")
        reason = f"the log ends here, and the read was planned up to offset {self._wanted.end}"
        self._damage.note(self._wanted.directory, 0, self._next, reason)
        return None

    def _segment(self, segment: SegmentFile, file: CountedFile) -> Iterator[None]:
        end, sink = self._wanted.end, self._sink
        position = position_of(segment, file, self._next, self._counters) if self._next > segment.base_offset else 0
        limit = limit_of(segment, file.size, end, self._counters)
        expected = segment.base_offset
        least = 0
        while self._next < end:
            wanted = max(least, min(CHUNK_BYTES, limit - position) if limit > position else BEYOND_BYTES)
            data = file.read(position, wanted)
            used, fault, least = 0, None, 0
            batches = decode_batches(data)
            while True:
                try:
                    batch = next(batches, None)
                    if batch is None:
                        break
                    base, following = batch.base_offset, batch.last_offset + 1
                    if base != expected:
                        _check_order(batch, expected, file, position)
                    if base >= end:
                        self._next = end
                        return
                    if not batch.is_valid():
                        raise WireError(
                            f"the checksum of the batch of offsets {base} to {following - 1} is "
                            f"{batch.computed_crc():08x}, and {batch.crc:08x} is expected"
                        )
                    if following > self._next:
                        if not batch.is_control and not (
                            batch.is_transactional and self._hidden.has(batch.producer_id, base)
                        ):
                            sink.begin(batch, self._next, end)
                            while not sink.fill():
                                yield
                        self._next = following
                        self._counters.batches += 1
                except WireError as error:
                    fault = str(error)
                    break
                expected = following
                used = batch.position + batch.size_bytes
            position += used
            if fault is None and used == 0:
                if len(data) >= _FRAME_BYTES:
                    least = OVERHEAD_BYTES + int.from_bytes(data[8:12], "big", signed=True)
                if len(data) == wanted and position + max(least, _FRAME_BYTES) <= file.size:
                    least = max(least, _FRAME_BYTES)
                    continue
                if not data:
                    return
                fault = "the segment ends inside a batch"
            if fault is not None:
                if not any(file.read(position, _FRAME_BYTES)):
                    return  # a file that was allocated in advance ends in zeros
                position = self._damage.resume(segment, file, position, max(expected, self._next), fault)


def _check_order(batch: Batch, expected: int, file: CountedFile, position: int) -> None:
    """Raise WireError if the offsets of a batch do not continue the previous ones and its position is impossible. The
    checksum does not cover the base offset: a gap, such as compaction leaves, is only valid if the next batch has
    higher offsets.
    """
    if batch.base_offset < expected:
        raise WireError(backwards(batch.base_offset))
    following = file.header(position + batch.position + batch.size_bytes)
    if isinstance(following, Header) and expected <= following.base_offset <= batch.last_offset:
        raise WireError(
            f"the batch has the offsets {batch.base_offset} to {batch.last_offset}, and {following.base_offset} follows"
        )


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
