"""Compares the committed records of a partition on both sides, in their order.

Batches that are equal byte for byte, apart from their headers, are not decoded. Others are compared as columns of
hashes: the first records that differ are found by bisection, and the records after them give the reason. At most one
answer of each side is kept, and the hashes of LOOKAHEAD records.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from broker_cy.core.errors import WireError
from broker_cy.wire.digest import is_same_payload, record_hashes
from broker_cy.wire.records import Batch
from broker_mirror.merged import Side
from broker_mirror.proof.ranges import Extent, RangeCounts, Ranges, Window

LOOKAHEAD: Final = 4_096
"""Records of each side that decide the reason of a difference: 64 KiB of offsets and hashes. Records that were sent in
another order, or again, are at most the five batches away that a producer has in flight.
"""
DIFFERENCES_MAX: Final = 100
"""Differences that are kept for a partition; comparing ends with the last one."""
RANGE_OFFSETS: Final = 1_000_000
_SURE: Final = 8
_HASH_BYTES: Final = 8


class Reason(Enum):
    """Why both sides differ. ADDED records are only in the target, and are no second copy of earlier ones."""

    MISSING = "missing"
    TWICE = "twice"
    CONTENT = "other content"
    ORDER = "order"
    ADDED = "added"
    OFFSET = "other offset"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Difference:
    """`count` records from these offsets on. An offset is None if its side has no such record."""

    reason: Reason
    source_offset: int | None
    target_offset: int | None
    count: int = 1
    text: str = ""


class _Queue:
    """The batches of one side that were not compared yet. `offsets` and `hashes` are those of decoded records."""

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        self.batches: deque[Batch] = deque()
        self.offsets = array("q")
        self.hashes = b""
        self.ended = False
        self.damage: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self.offsets)

    def whole(self) -> Batch | None:
        """Return the next batch, if none of its records was decoded and all of them are compared."""
        if self.offsets or not self.batches:
            return None
        found = self.batches[0]
        return found if found.base_offset >= self.extent.start and found.last_offset < self.extent.end else None

    def decode(self, *, with_times: bool) -> None:
        """Decode the next batch."""
        batch = self.batches.popleft()
        try:
            if not batch.is_valid():
                raise WireError("the checksum of the batch is wrong")
            offsets, hashes, _ = record_hashes(batch, self.extent.start, self.extent.end, with_times)
        except WireError as error:
            self.damage.append((batch.base_offset, str(error)))
            return
        self.offsets.frombytes(offsets)
        self.hashes += hashes

    def drop(self, count: int) -> bytes:
        """Drop the first decoded records; return their hashes."""
        dropped = self.hashes[: count * _HASH_BYTES]
        del self.offsets[:count]
        self.hashes = self.hashes[count * _HASH_BYTES :]
        return dropped

    def remove(self, index: int) -> bytes:
        """Remove one decoded record; return its hash."""
        at = index * _HASH_BYTES
        removed = self.hashes[at : at + _HASH_BYTES]
        del self.offsets[index]
        self.hashes = self.hashes[:at] + self.hashes[at + _HASH_BYTES :]
        return removed


class Pairing:
    """Give `feed` the batches of the side that `wanted` names, until it names none. Batches are those of committed
    records, without markers. The result is the same however the batches are cut.
    """

    def __init__(
        self,
        window: Window,
        *,
        with_times: bool = True,
        with_offsets: bool = False,
        with_checksums: bool = False,
        range_offsets: int = RANGE_OFFSETS,
        differences_max: int = DIFFERENCES_MAX,
    ) -> None:
        """Without `with_times`, timestamps may differ, such as those that the target sets itself. `with_offsets`:
        offsets must be equal, as in link flows. `with_checksums`: decode each batch.
        """
        self._window = window
        self._with_times, self._with_offsets, self._with_checksums = with_times, with_offsets, with_checksums
        self._max = differences_max
        self._queues = {Side.SOURCE: _Queue(window.source), Side.TARGET: _Queue(window.target)}
        self._ranges = Ranges(window.source.start, range_offsets)
        self._at = window.source.start
        # The last LOOKAHEAD records of the target, or more: their hashes, or batches that were not decoded.
        self._recent: deque[bytes | Batch] = deque()
        self._recent_records = 0
        self.differences: list[Difference] = []
        self.paired = 0
        self.behind = 0
        self.bytes_as_they_are = 0
        self.is_cut = False

    @property
    def ranges(self) -> list[RangeCounts]:
        return self._ranges.found()

    def feed(self, side: Side, batches: Iterable[Batch], *, ended: bool = False) -> None:
        """Take the next batches of a side; `ended`: they are its last ones."""
        queue = self._queues[side]
        queue.batches.extend(each for each in batches if _overlaps(each, queue.extent))
        queue.ended = queue.ended or ended
        self._advance()

    def wanted(self) -> Side | None:
        """Return the side whose next batches are needed; None if the result is complete."""
        if self.is_cut:
            return None
        open_sides = [side for side, queue in self._queues.items() if not queue.ended]
        needed = [side for side in open_sides if not self._queues[side].batches]
        return min(needed, key=lambda side: len(self._queues[side]), default=None)

    # ------------------------------------------------------------------------------------------------ equal records

    def _advance(self) -> None:
        source, target = self._queues[Side.SOURCE], self._queues[Side.TARGET]
        while not self.is_cut:
            if self._skip_equal(source, target):
                continue
            short = [queue for queue in (source, target) if not queue]
            if any(not queue.batches and not queue.ended for queue in short):
                # Its next batch may be equal to that of the other side as it is.
                return
            if short:
                if not self._decoded(short):
                    self._end(source, target)
                    if not source.batches and not target.batches:
                        return
                continue
            count = min(len(source), len(target))
            equal = _common(source.hashes, target.hashes, count)
            self._count(source, target, equal)
            if equal == count:
                continue
            short = [queue for queue in (source, target) if len(queue) < LOOKAHEAD and not _is_whole(queue)]
            if short and not self._decoded(short):
                return
            if not short:
                self._explain(source, target)

    def _skip_equal(self, source: _Queue, target: _Queue) -> bool:
        """Skip a batch that is equal on both sides as it is."""
        if self._with_checksums:
            return False
        one, other = source.whole(), target.whole()
        if one is None or other is None or not is_same_payload(one, other, self._with_times):
            return False
        in_range = self._ranges.at(one.base_offset)
        if one.last_offset >= in_range.end or (self._with_offsets and one.base_offset != other.base_offset):
            return False
        in_range.source.records += one.count
        in_range.target.records += other.count
        self.paired += one.count
        self.bytes_as_they_are += one.size_bytes
        self._remember(other, other.count)
        self._at = one.last_offset + 1
        source.batches.popleft()
        target.batches.popleft()
        return True

    def _decoded(self, queues: Sequence[_Queue]) -> bool:
        """Decode a batch of each of the queues that has one; return whether there was one."""
        done = False
        for queue in queues:
            if queue.batches:
                queue.decode(with_times=self._with_times)
                done = True
                for offset, text in queue.damage:
                    of_source = queue is self._queues[Side.SOURCE]
                    source, target = (offset, None) if of_source else (None, offset)
                    self._note(Difference(Reason.DAMAGED, source, target, text=text))
                queue.damage.clear()
        return done

    def _count(self, source: _Queue, target: _Queue, count: int) -> None:
        """Drop records that are equal on both sides, and count them in their ranges."""
        while count:
            in_range = self._ranges.at(source.offsets[0])
            last = min(count, len(source))
            if source.offsets[last - 1] >= in_range.end:
                last = _before(source.offsets, in_range.end, last)
            self._at = source.offsets[last - 1] + 1
            if self._with_offsets and source.offsets[:last] != target.offsets[:last]:
                self._note(Difference(Reason.OFFSET, source.offsets[0], target.offsets[0], last))
            hashes = source.drop(last)
            target.drop(last)
            in_range.source.add(hashes)
            in_range.target.add(hashes)
            self._remember(hashes, last)
            self.paired += last
            count -= last

    # ------------------------------------------------------------------------------------------------ differences

    def _note(self, found: Difference) -> None:
        """Keep a difference; one that continues the last one makes it longer."""
        self._ranges.at(self._at).differences += found.count
        last = self.differences[-1] if self.differences else None
        if last is not None and _continues(last, found):
            self.differences[-1] = Difference(
                last.reason, last.source_offset, last.target_offset, last.count + found.count, last.text
            )
            return
        self.differences.append(found)
        if len(self.differences) >= self._max:
            self.is_cut = True

    def _explain(self, source: _Queue, target: _Queue) -> None:
        """Find the reason for the difference of the first two records, and skip the records it concerns."""
        # A window of the same size, however the batches are cut.
        one, other = _window(source.hashes), _window(target.hashes)
        there = _index(other, one[0])
        here = _index(one, other[0])
        if there is not None and here is not None and one.count(one[0]) == 1 and other.count(other[0]) == 1:
            self._moved(source, target, here, there)
            return
        lengths = {
            Reason.CONTENT: (_agreed(one[1:], other[1:]), min(len(one), len(other)) - 1),
            Reason.MISSING: (_agreed(one[1:], other), min(len(one) - 1, len(other))),
            Reason.ADDED: (_agreed(one, other[1:]), min(len(one), len(other) - 1)),
        }
        reason, (agreed, possible) = max(lengths.items(), key=lambda each: each[1][0])
        if agreed < min(possible, _SURE) or not agreed:
            reason = _likely(here, there, other[0] in self._recent_hashes())
        if reason is Reason.MISSING:
            self._skip_source(source, Reason.MISSING)
        elif reason is Reason.ADDED:
            self._skip_target(target, Reason.TWICE if other[0] in self._recent_hashes() else Reason.ADDED)
        else:
            self._note(Difference(Reason.CONTENT, source.offsets[0], target.offsets[0]))
            self._take(source, target, source.remove(0), target.remove(0))

    def _moved(self, source: _Queue, target: _Queue, here: int, there: int) -> None:
        """Two records are on both sides at different places: report the one that is further away from its place."""
        index, other = (here, 0) if here > there else (0, there)
        self._note(Difference(Reason.ORDER, source.offsets[index], target.offsets[other]))
        self._take(source, target, source.remove(index), target.remove(other))

    def _take(self, source: _Queue, target: _Queue, of_source: bytes, of_target: bytes) -> None:
        in_range = self._ranges.at(self._at)
        in_range.source.add(of_source)
        in_range.target.add(of_target)

    def _skip_source(self, source: _Queue, reason: Reason) -> None:
        offset = source.offsets[0]
        if offset >= self._window.reached and self._queues[Side.TARGET].ended and not self._queues[Side.TARGET]:
            self.behind += 1
            source.drop(1)
            return
        self._note(Difference(reason, offset, None))
        self._at = max(self._at, offset)
        self._ranges.at(self._at).source.add(source.drop(1))

    def _skip_target(self, target: _Queue, reason: Reason) -> None:
        self._note(Difference(reason, None, target.offsets[0]))
        hashes = target.drop(1)
        self._ranges.at(self._at).target.add(hashes)
        self._remember(hashes, 1)

    def _end(self, source: _Queue, target: _Queue) -> None:
        """Skip the records that only one side has at its end."""
        while source and not self.is_cut:
            self._skip_source(source, Reason.MISSING)
        while target and not self.is_cut:
            is_known = _numbers(target.hashes[:_HASH_BYTES])[0] in self._recent_hashes()
            self._skip_target(target, Reason.TWICE if is_known else Reason.ADDED)

    def _remember(self, records: bytes | Batch, count: int) -> None:
        self._recent.append(records)
        self._recent_records += count
        while self._recent_records - (oldest := _count_of(self._recent[0])) >= LOOKAHEAD:
            self._recent.popleft()
            self._recent_records -= oldest

    def _recent_hashes(self) -> frozenset[int]:
        hashes = b"".join(each if isinstance(each, bytes) else self._hashes(each) for each in self._recent)
        self._recent = deque([hashes])
        self._recent_records = len(hashes) // _HASH_BYTES
        return frozenset(_numbers(hashes[-LOOKAHEAD * _HASH_BYTES :]))

    def _hashes(self, batch: Batch) -> bytes:
        try:
            return record_hashes(batch, batch.base_offset, batch.last_offset + 1, self._with_times)[1]
        except WireError:
            return b""


def _count_of(records: bytes | Batch) -> int:
    return len(records) // _HASH_BYTES if isinstance(records, bytes) else records.count


def _overlaps(batch: Batch, extent: Extent) -> bool:
    return batch.count > 0 and batch.last_offset >= extent.start and batch.base_offset < extent.end


def _is_whole(queue: _Queue) -> bool:
    """Whether no more records will come."""
    return queue.ended and not queue.batches


def _numbers(hashes: bytes) -> array[int]:
    return array("Q", hashes)


def _window(hashes: bytes) -> array[int]:
    return array("Q", hashes[: LOOKAHEAD * _HASH_BYTES])


def _index(numbers: array[int], wanted: int) -> int | None:
    try:
        return numbers.index(wanted)
    except ValueError:
        return None


def _common(one: bytes, other: bytes, most: int) -> int:
    """Return how many records at the beginning are equal, at most `most`, by bisection."""
    if one[: most * _HASH_BYTES] == other[: most * _HASH_BYTES]:
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        part = slice(low * _HASH_BYTES, middle * _HASH_BYTES)
        if one[part] == other[part]:
            low = middle
        else:
            high = middle
    return low


def _before(offsets: array[int], end: int, count: int) -> int:
    """Return how many of the first `count` offsets are before `end`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] < end:
            low = middle + 1
        else:
            high = middle
    return low


def _agreed(one: array[int], other: array[int]) -> int:
    most = min(len(one), len(other), LOOKAHEAD)
    return _common(one.tobytes(), other.tobytes(), most)


def _likely(here: int | None, there: int | None, is_known: bool) -> Reason:
    """Return the reason for two records without agreement after them. `here` and `there` are the places of the other
    side's record.
    """
    if here is not None and there is None:
        return Reason.MISSING
    if there is not None or is_known:
        return Reason.ADDED
    return Reason.CONTENT


def _continues(last: Difference, found: Difference) -> bool:
    if last.reason is not found.reason or found.reason not in (Reason.MISSING, Reason.TWICE, Reason.ADDED):
        return False
    # Offsets of the copies of a transaction have a gap for its marker.
    before, now = (
        (last.source_offset, found.source_offset)
        if found.source_offset is not None
        else (last.target_offset, found.target_offset)
    )
    return before is not None and now is not None and now == before + last.count
