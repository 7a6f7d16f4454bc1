"""Offsets of the source as offsets of the target, from ranges of records that follow one another on both sides.

MirrorMaker 2 keeps 64 offset syncs of a partition, at growing distances, so most translated offsets are too small: a
group reads records again after a failover. Here each sync is kept, and syncs that continue one another are one range.

The rules of a translation:

- an offset inside a range has an exact translation;
- an offset after a range, and before the next one, becomes the end of the range in the target. Records between the
  ranges were not copied, or are not known here, so no record is skipped;
- an offset before the first range has no translation, unless copying is known to have begun there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from broker_mirror.formats.offset_syncs import OffsetSync

PARTITION_RANGES_MAX: Final = 65_536
"""Ranges of one partition. A range has 24 bytes, so a partition has at most 1.5 MiB. In exactly-once flows, each
transaction ends a range, because its marker has an offset of the target.
"""
RANGES_MAX: Final = 1 << 20
"""Ranges of all partitions: 24 MiB."""


class Range(NamedTuple):
    """`length` records: the first one has the offset `source` in the source and `target` in the target."""

    source: int
    target: int
    length: int


class PartitionRanges:
    """The ranges of one partition, in the order of their offsets, which grow on both sides.

    A range that begins before the end of the ranges replaces the later part of them: the mirror has copied these
    records again, or the partition was deleted and created again on one side.
    """

    __slots__ = ("_counts", "_max", "_sources", "_targets", "begins")

    def __init__(self, ranges_max: int = PARTITION_RANGES_MAX) -> None:
        self._max = ranges_max
        self._sources = array("q")
        self._targets = array("q")
        self._counts = array("q")
        # Whether the first range has the first record that was copied.
        self.begins = False

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, source: int, target: int, count: int = 1, *, begins: bool = False) -> None:
        """Add a range. `begins`: no record before it was copied. With too many ranges, half of the older half are
        forgotten.
        """
        if not begins:
            if self._extended(source, target, count):
                return
            self._cut(source, target)
            if self._extended(source, target, count):
                return
        if begins or not self._sources:
            self._drop(len(self._sources))
            self.begins = begins
        self._sources.append(source)
        self._targets.append(target)
        self._counts.append(count)
        if len(self._sources) > self._max:
            self.thin()

    def translate(self, offset: int) -> int | None:
        """Return the offset in the target at which a group continues that has committed `offset`; None if it is not
        known. No copied record from `offset` on has a smaller offset in the target.
        """
        index = bisect_right(self._sources, offset) - 1
        if index < 0:
            return self._targets[0] if self.begins and self._sources else None
        return self._targets[index] + min(offset - self._sources[index], self._counts[index])

    def forget_before(self, offset: int) -> None:
        """Forget the ranges that end before an offset of the source, such as the start of its log. The last range
        remains.
        """
        index = max(bisect_right(self._sources, offset) - 1, 0)
        if index:
            self._drop(index)

    def thin(self) -> None:
        """Forget every second range of the older half: offsets in them become the end of the range before."""
        half = len(self._sources) // 2
        for column in (self._sources, self._targets, self._counts):
            column[:half] = column[:half:2]

    def ranges(self) -> list[Range]:
        return [Range(*each) for each in zip(self._sources, self._targets, self._counts, strict=True)]

    def _extended(self, source: int, target: int, count: int) -> bool:
        """Whether the range begins inside the last one or at its end, with the same distance between both sides: then
        it becomes the end of the last one.
        """
        if not self._sources:
            return False
        done = source - self._sources[-1]
        if not 0 <= done <= self._counts[-1] or target - self._targets[-1] != done:
            return False
        self._counts[-1] = done + count
        return True

    def _cut(self, source: int, target: int) -> None:
        """Remove the part of the ranges that begins at `source` in the source or at `target` in the target."""
        kept = min(bisect_left(self._sources, source), bisect_left(self._targets, target))
        for column in (self._sources, self._targets, self._counts):
            del column[kept:]
        if kept:
            most = min(source - self._sources[-1], target - self._targets[-1])
            self._counts[-1] = min(self._counts[-1], most)

    def _drop(self, count: int) -> None:
        for column in (self._sources, self._targets, self._counts):
            del column[:count]
        self.begins = False


class Translation:
    """The ranges of the partitions of one flow. `ranges_max` bounds them together, but each partition may have 3."""

    def __init__(self, ranges_max: int = RANGES_MAX) -> None:
        self._max = ranges_max
        self._partitions: dict[tuple[str, int], PartitionRanges] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self, topic: str, partition: int, source: int, target: int, count: int = 1, *, begins: bool = False
    ) -> None:
        """Add a range of a partition of the source; see PartitionRanges.add."""
        ranges = self._partitions.setdefault((topic, partition), PartitionRanges())
        before = len(ranges)
        ranges.add(source, target, count, begins=begins)
        self._count += len(ranges) - before
        if self._count > self._max:
            self._thin()

    def apply(self, sync: OffsetSync) -> None:
        """Add the range of an offset sync, such as one that was read from their topic."""
        first = sync.count - 1
        self.add(sync.topic, sync.partition, sync.source_offset - first, sync.target_offset - first, sync.count)

    def translate(self, topic: str, partition: int, offset: int) -> int | None:
        """Return the offset in the target; None if it is not known. See PartitionRanges.translate."""
        ranges = self._partitions.get((topic, partition))
        return None if ranges is None else ranges.translate(offset)

    def forget_before(self, topic: str, partition: int, offset: int) -> None:
        if (ranges := self._partitions.get((topic, partition))) is not None:
            before = len(ranges)
            ranges.forget_before(offset)
            self._count += len(ranges) - before

    def forget(self, topic: str, partition: int) -> None:
        """Forget a partition, because its mirroring has ended."""
        if (ranges := self._partitions.pop((topic, partition), None)) is not None:
            self._count -= len(ranges)

    def partition(self, topic: str, partition: int) -> PartitionRanges | None:
        return self._partitions.get((topic, partition))

    def _thin(self) -> None:
        """Thin the partitions that have at least as many ranges as the mean."""
        mean = self._count // len(self._partitions)
        for ranges in self._partitions.values():
            if len(ranges) >= mean:
                ranges.thin()
        self._count = sum(map(len, self._partitions.values()))
