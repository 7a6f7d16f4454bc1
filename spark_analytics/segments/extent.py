"""The start and end of a partition, and the offsets of times."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker_cy.core.errors import WireError
from broker_cy.wire.records import decode_batches
from spark_analytics.segments.errors import SegmentsError
from spark_analytics.segments.files import (
    LISTINGS_MAX,
    CountedFile,
    Header,
    PartitionFolder,
    SegmentFile,
    segments,
)
from spark_analytics.segments.walk import Damage, backwards, headers, position_of

# Entries of an index, from its end backwards, that are tried before a segment is walked from its start.
ENTRIES_MAX = 64


@dataclass(frozen=True)
class Extent:
    """A partition's records: from `start` up to, but not including, `end`. `log_end` is the end of its files."""

    folder: PartitionFolder
    segments: tuple[SegmentFile, ...]
    start: int
    end: int
    log_end: int


def extent_of(folder: PartitionFolder, damage: Damage) -> Extent:
    """Return the extent of a partition now: up to the high watermark that the broker noted, otherwise to the end of the
    last complete batch. Raises DamageError, and SegmentsError if the folder cannot be read.
    """
    for attempt in range(LISTINGS_MAX):
        try:
            found = segments(folder.directory)
            if not found:
                return Extent(folder, (), 0, 0, 0)
            end = log_end_of(found[-1], folder.high_watermark, damage)
            break
        except FileNotFoundError as error:
            # Retention, or a rename by the cleaner, was faster: list again.
            if attempt + 1 == LISTINGS_MAX:
                raise SegmentsError(f"{folder.directory} changes too fast: {error}") from None
        except OSError as error:
            raise SegmentsError(f"{folder.directory} cannot be read: {error}") from None
    marked = end if folder.high_watermark is None else min(end, folder.high_watermark)
    start = max(found[0].base_offset, folder.start_offset or 0)
    return Extent(folder, tuple(found), start, max(start, marked), end)


def log_end_of(segment: SegmentFile, high_watermark: int | None, damage: Damage) -> int:
    """Return the offset after the last complete batch of the last segment. Bytes after it are not damage if they may be
    a batch that the broker is writing, and are not below the high watermark.
    """
    end, position = segment.base_offset, 0
    with CountedFile(segment.path, damage.counters) as file:
        with segment.offset_index(damage.counters) as index:
            for number in range(index.count - 1, max(-1, index.count - 1 - ENTRIES_MAX), -1):
                last_delta, place = index.at(number)
                first = file.header(place)
                if isinstance(first, Header) and first.last_offset == segment.base_offset + last_delta:
                    position = place
                    break
        while isinstance(found := file.header(position), Header):
            if found.base_offset < end:
                found = backwards(found.base_offset)
                break
            end, position = found.last_offset + 1, found.end
        if found is None and high_watermark is not None and end < high_watermark:
            found = f"the log ends here, and the high watermark is {high_watermark}"
        if isinstance(found, str):
            damage.note(file.path, position, end, found, file.size - position)
    return end


def holes_of(extent: Extent, damage: Damage) -> Iterator[tuple[int, int]]:
    """Yield the offsets, from the first to before the second, that no segment has: a file is missing there, or
    compaction has removed the records at the end of a segment.
    """
    for segment, following in itertools.pairwise(extent.segments):
        try:
            end = log_end_of(segment, None, damage)
        except FileNotFoundError:
            # Retention has deleted it, or cleaning has moved its records to the previous segment.
            continue
        if end < following.base_offset:
            yield end, following.base_offset


def offset_at(extent: Extent, timestamp_ms: int, damage: Damage) -> int | None:
    """Return the offset of the first record with this or a later timestamp; None without one. Only the records of the
    batch that contains it are read: the time index gives the start, and batch headers suffice for the rest.
    """
    for segment, end in _with_ends(extent.segments):
        if end <= extent.start or segment.base_offset >= extent.end:
            continue
        try:
            with CountedFile(segment.path, damage.counters) as file:
                found = _offset_in(segment, file, extent, timestamp_ms, damage)
        except FileNotFoundError:
            # Retention has deleted it, or cleaning has moved its records to the previous segment.
            continue
        if found is not None:
            return found
    return None


def _with_ends(found: Sequence[SegmentFile]) -> list[tuple[SegmentFile, int]]:
    """Return each segment with the base offset of the next one."""
    ends = [each.base_offset for each in found[1:]]
    return list(zip(found, [*ends, 1 << 63], strict=True))


def _offset_in(
    segment: SegmentFile, file: CountedFile, extent: Extent, timestamp_ms: int, damage: Damage
) -> int | None:
    first = extent.start
    with segment.time_index(damage.counters) as times:
        number = times.before(lambda entry: entry[0] < timestamp_ms)
        if number > 0:
            # No record up to that offset has such a late timestamp.
            first = max(first, segment.base_offset + times.at(number - 1)[1] + 1)
    position = position_of(segment, file, first, damage.counters) if first > segment.base_offset else 0
    for header in headers(segment, file, position, damage, extent.end):
        if header.last_offset < first or header.max_timestamp < timestamp_ms or header.is_control:
            continue
        try:
            (batch,) = decode_batches(file.read(header.position, header.size))
            if not batch.is_valid():
                raise WireError(f"the checksum of the batch at offset {batch.base_offset} is wrong")
            records = batch.records()
        except (ValueError, WireError) as error:
            damage.note(file.path, header.position, header.base_offset, str(error), header.size)
            continue
        for record in records:
            if record.timestamp >= timestamp_ms and first <= record.offset < extent.end:
                return record.offset
    return None
