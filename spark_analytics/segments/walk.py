"""Walks over the headers of a segment's batches, positions in a segment by its indexes, and the handling of damage."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from broker_cy.storage.log_files import NEVER
from spark_analytics.segments.errors import DamageError
from spark_analytics.segments.files import CountedFile, Header, SegmentFile
from spark_analytics.segments.report import PLACES_MAX, Counters

logger = logging.getLogger(__name__)


@dataclass
class Damage:
    """Stops at damage, or counts and logs it and finds the next valid batch of the segment."""

    skips: bool
    counters: Counters

    def note(self, path: str, position: int, offset: int, reason: str, lost_bytes: int = 0) -> None:
        """Note damage after which reading continues elsewhere. Raises DamageError if damage stops the read."""
        error = DamageError(path, position, offset, reason)
        if not self.skips:
            raise error
        self.counters.damaged += 1
        self.counters.damaged_bytes += lost_bytes
        if len(self.counters.places) < PLACES_MAX:
            self.counters.places.append(error.place)
        logger.warning("left out %d bytes of %s: %s", lost_bytes, path, error.place)

    def resume(self, segment: SegmentFile, file: CountedFile, position: int, offset: int, reason: str) -> int:
        """Note damage of the batch at `position`; return the position of a later batch whose checksum is correct, or
        the end of the file. Raises DamageError if damage stops the read.
        """
        if not self.skips:
            raise DamageError(file.path, position, offset, reason)
        following = self._following(segment, file, position)
        self.note(file.path, position, offset, reason, following - position)
        return following

    def _following(self, segment: SegmentFile, file: CountedFile, position: int) -> int:
        size = file.size
        found = file.header(position)
        with segment.offset_index(self.counters) as index:
            number = index.before(lambda entry: entry[1] <= position)
            known = index.at(number)[1] if number < index.count else size
            # The checksum does not cover the length: it is trusted only if a batch follows, and no batch is skipped.
            if isinstance(found, Header) and found.end <= known and (found.end == size or _is_batch(file, found.end)):
                return found.end
            for each in range(number, index.count):
                place = index.at(each)[1]
                if _is_batch(file, place):
                    return place
        return size


def _is_batch(file: CountedFile, position: int) -> bool:
    found = file.header(position)
    return isinstance(found, Header) and file.is_whole(found)


def position_of(segment: SegmentFile, file: CountedFile, offset: int, counters: Counters) -> int:
    """Return a position before which no record at or after `offset` is: by the index, or 0 if that does not fit the
    segment, for example while cleaning replaces both.
    """
    with segment.offset_index(counters) as index:
        number = index.before(lambda entry: segment.base_offset + entry[0] <= offset)
        if number == 0:
            return 0
        last_offset, position = index.at(number - 1)
    found = file.header(position)
    if not isinstance(found, Header) or found.last_offset != segment.base_offset + last_offset:
        return 0
    return found.position if found.last_offset >= offset else found.end


def limit_of(segment: SegmentFile, size: int, end_offset: int, counters: Counters) -> int:
    """Return a position up to which the segment has all batches that begin before `end_offset`, as far as the index
    tells: more may have to be read.
    """
    with segment.offset_index(counters) as index:
        # The batch of the first such entry may begin before `end_offset`, that of the next one does not.
        number = index.before(lambda entry: segment.base_offset + entry[0] < end_offset - 1) + 1
        return index.at(number)[1] if number < index.count else size


def headers(
    segment: SegmentFile, file: CountedFile, position: int, damage: Damage, end_offset: int = NEVER
) -> Iterator[Header]:
    """Yield the headers of the batches from `position` on that begin before `end_offset`."""
    expected = segment.base_offset
    while (found := file.header(position)) is not None:
        if isinstance(found, Header) and found.base_offset < expected:
            found = backwards(found.base_offset)
        if isinstance(found, str):
            position = damage.resume(segment, file, position, expected, found)
            continue
        if found.base_offset >= end_offset:
            return
        yield found
        expected = found.last_offset + 1
        position = found.end


def backwards(offset: int) -> str:
    """Return the error of a batch whose offset is lower than that of the previous batch."""
    return f"the batch has the base offset {offset}, which is not after the batch before it"
