"""The offsets that a read covers, and their division into ranges, one for each task."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_analytics.segments.extent import Extent, extent_of, offset_at
from spark_analytics.segments.files import CountedFile, Header, PartitionFolder, partitions
from spark_analytics.segments.options import Options
from spark_analytics.segments.transactions import Aborted, committed_extent
from spark_analytics.segments.walk import Damage, limit_of, position_of

# Tasks of one read: ranges become larger instead.
RANGES_MAX = 10_000


@dataclass(frozen=True)
class Range:
    """Offsets of a partition that one task reads, and the aborted transactions among them that it leaves out."""

    topic: str
    partition: int
    directory: str
    start: int
    end: int
    aborted: tuple[Aborted, ...] = ()

    @property
    def name(self) -> str:
        """Return a name for files about this range."""
        return f"{self.topic}-{self.partition}-{self.start:020d}"


@dataclass(frozen=True)
class Wanted:
    """The filters of a query: records that they exclude are not read, as far as indexes allow, and Spark applies them
    to rows.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start: int = 0
    end: int = 1 << 63
    # Records before the first one with this time have earlier times. An upper bound does not exist, because times of
    # producers may be in any order.
    since_ms: int | None = None

    def has(self, folder: PartitionFolder) -> bool:
        """Return whether any record of a partition may be wanted."""
        return (self.topics is None or folder.topic in self.topics) and (
            self.partitions is None or folder.partition in self.partitions
        )


def folders(options: Options, wanted: Wanted | None = None) -> list[PartitionFolder]:
    """Return the partitions to read. Raises SegmentsError if a topic has none."""
    found = partitions(options.path, options.topic)
    return [each for each in found if wanted is None or wanted.has(each)]


def bounded(folder: PartitionFolder, options: Options, damage: Damage) -> tuple[Extent, tuple[Aborted, ...]]:
    """Return the readable part of a partition now, ignoring the bounds of the options, and its aborted transactions."""
    extent = extent_of(folder, damage)
    if not options.committed_only or not extent.segments:
        return extent, ()
    stable, aborted = committed_extent(extent, damage)
    return replace(extent, end=max(extent.start, stable)), tuple(aborted)


def start_of(extent: Extent, options: Options, damage: Damage) -> int:
    """Return the first offset that the bounds of the options allow."""
    start = max(extent.start, options.starting_offset or 0)
    if options.starting_timestamp is not None:
        found = offset_at(extent, options.starting_timestamp, damage)
        start = max(start, extent.end if found is None else found)
    return start


def end_of(extent: Extent, options: Options, damage: Damage) -> int:
    """Return the offset before which the bounds of the options end."""
    end = extent.end if options.ending_offset is None else min(extent.end, options.ending_offset)
    if options.ending_timestamp is not None:
        found = offset_at(extent, options.ending_timestamp, damage)
        end = end if found is None else min(end, found)
    return end


def batch_ranges(options: Options, wanted: Wanted, damage: Damage) -> list[Range]:
    """Return the ranges of a batch read. Raises SegmentsError and DamageError."""
    found: list[tuple[Extent, int, int, tuple[Aborted, ...]]] = []
    for folder in folders(options, wanted):
        extent, aborted = bounded(folder, options, damage)
        start = max(start_of(extent, options, damage), wanted.start)
        end = min(end_of(extent, options, damage), wanted.end)
        if wanted.since_ms is not None and start < end:
            since = offset_at(extent, wanted.since_ms, damage)
            start = end if since is None else max(start, since)
        if start < end:
            found.append((extent, start, end, aborted))
    return _divided(found, options, damage)


def stream_ranges(
    options: Options, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]], damage: Damage
) -> list[Range]:
    """Return the ranges of a micro-batch. A partition that `start` does not have is read from its first offset.

    Raises SegmentsError and DamageError, the latter for offsets that retention has deleted since `start`.
    """
    found: list[tuple[Extent, int, int, tuple[Aborted, ...]]] = []
    for folder in folders(options):
        last = end.get(folder.topic, {}).get(str(folder.partition))
        if last is None:
            continue
        first = start.get(folder.topic, {}).get(str(folder.partition))
        if first is not None and first >= last:
            continue
        extent, aborted = bounded(folder, options, damage)
        if first is not None and first < extent.start:
            damage.note(folder.directory, 0, first, f"offsets up to {extent.start} were deleted before they were read")
        if last > extent.log_end:
            damage.note(
                folder.directory, 0, last, f"the log ends at {extent.log_end}: was the topic deleted and created again?"
            )
        first = max(extent.start, first or 0)
        last = min(last, extent.log_end)
        if first < last:
            found.append((extent, first, last, aborted))
    return _divided(found, options, damage)


def limited(
    starts: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int], most: int
) -> dict[tuple[str, int], int]:
    """Return ends with at most `most` offsets before them, in proportion to the offsets of each partition. Each
    partition with offsets gets at least one, so that none waits forever behind a large one. A partition without a start
    begins at 0.
    """
    sizes = {key: max(0, end - starts.get(key, 0)) for key, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(ends)
    parts = {key: min(size, max(1, most * size // total)) for key, size in sizes.items()}
    return {key: end - sizes[key] + parts[key] for key, end in ends.items()}


def _divided(
    found: list[tuple[Extent, int, int, tuple[Aborted, ...]]], options: Options, damage: Damage
) -> list[Range]:
    pieces = [(each, _pieces(each[0], each[1], each[2], damage)) for each in found]
    total = sum(size for _, parts in pieces for _, _, _, size in parts)
    range_bytes = max(options.range_bytes, total // RANGES_MAX)
    ranges: list[Range] = []
    for (extent, start, end, aborted), parts in pieces:
        edges = [start, *_cuts(extent, start, end, parts, range_bytes, damage), end]
        for low, high in itertools.pairwise(edges):
            hidden = tuple(each for each in aborted if each[1] < high and each[2] >= low)
            folder = extent.folder
            ranges.append(Range(folder.topic, folder.partition, folder.directory, low, high, hidden))
    return ranges


# Number of a segment, the positions in it, and the bytes between them.
_Piece = tuple[int, int, int, int]


def _pieces(extent: Extent, start: int, end: int, damage: Damage) -> list[_Piece]:
    """Return the parts of segments that have the offsets from `start` to `end`."""
    found: list[_Piece] = []
    for number, segment in enumerate(extent.segments):
        following = extent.segments[number + 1].base_offset if number + 1 < len(extent.segments) else 1 << 63
        if following <= start or segment.base_offset >= end:
            continue
        try:
            with CountedFile(segment.path, damage.counters) as file:
                low = position_of(segment, file, start, damage.counters) if start > segment.base_offset else 0
                high = file.size if following <= end else limit_of(segment, file.size, end, damage.counters)
        except FileNotFoundError:
            continue
        found.append((number, low, high, max(0, high - low)))
    return found


def _cuts(extent: Extent, start: int, end: int, pieces: list[_Piece], range_bytes: int, damage: Damage) -> list[int]:
    """Return offsets that divide `start` to `end` into ranges of about `range_bytes`: base offsets of segments, and of
    batches in the index.
    """
    cuts: list[int] = []
    filled = 0
    for number, low, high, size in pieces:
        segment = extent.segments[number]
        if filled + size // 2 > range_bytes and segment.base_offset > (cuts[-1] if cuts else start):
            cuts.append(segment.base_offset)
            filled = 0
        if filled + size <= range_bytes * 3 // 2:
            filled += size
            continue
        try:
            with CountedFile(segment.path, damage.counters) as file, segment.offset_index(damage.counters) as index:
                while high - low > (range_bytes - filled) * 3 // 2:
                    target = low + range_bytes - filled
                    entry = index.before(lambda each, target=target: each[1] < target)  # type: ignore[misc]
                    header = file.header(index.at(entry)[1]) if entry < index.count else None
                    if not isinstance(header, Header) or not (cuts[-1] if cuts else start) < header.base_offset < end:
                        break
                    cuts.append(header.base_offset)
                    low, filled = header.position, 0
        except FileNotFoundError:
            pass
        filled += high - low
    return cuts


def offsets_of(values: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, int], int]:
    """Return offsets by partition from the form of a stream's checkpoint."""
    return {(topic, int(partition)): each for topic, parts in values.items() for partition, each in parts.items()}


def offsets_json(values: Mapping[tuple[str, int], int]) -> dict[str, dict[str, int]]:
    """Return offsets by partition in the form of a stream's checkpoint: {topic: {partition: offset}}."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(values.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found
