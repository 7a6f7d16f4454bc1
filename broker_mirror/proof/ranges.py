"""The offsets of a partition that are compared on both sides, and the counts and checksums of their ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker_cy.wire.digest import folded, joined
from broker_mirror.translation import Range


class Extent(NamedTuple):
    """A partition in its cluster: the log start offset, and the last stable offset."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Window:
    """The offsets to compare: from each `start` up to, but not including, each `end`. The first records of both sides
    belong together.

    Records of the source before the offset `reached` must be in the target; later ones may still be on their way.
    `removed` are the offsets of each side before its start: the other side has removed them, or never had them.
    """

    source: Extent
    target: Extent
    reached: int
    removed_in_source: int = 0
    removed_in_target: int = 0


class Unaligned(ValueError):
    """No pair of offsets is known at which both sides have the same record; the message says why."""


def linked(source: Extent, target: Extent) -> Window:
    """Return the window of a link flow: offsets are equal on both sides."""
    start = max(source.start, target.start)
    return Window(
        Extent(start, max(start, source.end)),
        Extent(start, max(start, target.end)),
        target.end,
        max(0, source.start - target.start),
        max(0, target.start - source.start),
    )


def copied(source: Extent, target: Extent, pairs: Sequence[Range], reached: int | None) -> Window:
    """Return the window of a copy flow. `pairs` are the ranges of its offset syncs, in the order of their offsets;
    `reached` is the next offset that the flow will copy, None if it is not known.

    The topic of offset syncs is compacted, so only the newest pairs may be known. If both logs still have their first
    records, these belong together. Raises Unaligned.
    """
    found = _first_pair(source, target, pairs)
    if found is None:
        if source.start or target.start:
            raise Unaligned(
                f"the logs start at the offsets {source.start} and {target.start}, and no offset sync is known for "
                "records that both have"
            )
        found = 0, 0
    elif not source.start and not target.start and found[0] and found[1]:
        found = 0, 0
    first, remote = found
    return Window(
        Extent(first, max(first, source.end)),
        Extent(remote, max(remote, target.end)),
        source.start if reached is None else reached,
        max(0, remote - target.start),
        max(0, first - source.start),
    )


def _first_pair(source: Extent, target: Extent, pairs: Iterable[Range]) -> tuple[int, int] | None:
    """Return the first pair of offsets that both logs have."""
    for each in pairs:
        skipped = max(0, source.start - each.source, target.start - each.target)
        if skipped < each.length:
            return each.source + skipped, each.target + skipped
    return None


@dataclass(slots=True)
class Counted:
    """Records and their digest (broker_cy/wire/digest.pyx); `digest` is only meaningful where each was added."""

    records: int = 0
    digest: int = 0

    def add(self, hashes: bytes | memoryview) -> None:
        self.records += len(hashes) // 8
        self.digest = folded(self.digest, hashes)

    def join(self, later: Counted) -> None:
        """Add the records of the next range."""
        self.digest = joined(self.digest, later.digest, later.records)
        self.records += later.records


@dataclass(slots=True)
class RangeCounts:
    """A range of offsets of the source from `start` up to, but not including, `end`, and the records of the target that
    belong to it. Checksums are None unless they were asked for: most batches are compared as bytes.
    """

    start: int
    end: int
    source: Counted
    target: Counted
    differences: int = 0

    @property
    def is_equal(self) -> bool:
        return self.differences == 0


class Ranges:
    """The ranges of a window by offsets of the source: each begins at a multiple of `offsets`, except the first one.

    At most `ranges_max` are kept; then each two of them become one.
    """

    def __init__(self, start: int, offsets: int, ranges_max: int = 1_024) -> None:
        self._offsets = offsets
        self._max = ranges_max
        first = offsets * (start // offsets)
        self._ranges = [RangeCounts(start, first + offsets, Counted(), Counted())]

    def at(self, offset: int) -> RangeCounts:
        """Return the range with an offset of the source; offsets only grow."""
        last = self._ranges[-1]
        if offset < last.end:
            return last
        if len(self._ranges) >= self._max:
            self._merge()
        start = offset - offset % self._offsets
        found = RangeCounts(max(start, self._ranges[-1].end), start + self._offsets, Counted(), Counted())
        if offset < self._ranges[-1].end:
            return self._ranges[-1]
        self._ranges.append(found)
        return found

    def found(self) -> list[RangeCounts]:
        return list(self._ranges)

    def _merge(self) -> None:
        self._offsets *= 2
        merged: list[RangeCounts] = []
        for each in self._ranges:
            if merged and merged[-1].start // self._offsets == each.start // self._offsets:
                last = merged[-1]
                last.end = each.end
                last.source.join(each.source)
                last.target.join(each.target)
                last.differences += each.differences
            else:
                merged.append(each)
        self._ranges = merged
