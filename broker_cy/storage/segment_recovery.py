"""Recovering the segments of one log, which log_loader.py loads: each batch after an offset is checked, indexes are
repaired, and files and bytes after the end of the log are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker_cy.core.classes import dataclass
from broker_cy.core.logs import facts
from broker_cy.storage import disk, log_deletion, recovery
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.batch_reader import ScanResult
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.errors import CorruptSegment
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_files import NEVER, LogFiles
from broker_cy.storage.segment import Segment

logger = logging.getLogger(__name__)

MISSING_OR_WRONG = "an index is missing or wrong"
EMPTY = "an index has no entries"
# Whether a segment may be truncated; the arguments are the segment and a scan that ended at the damage.
MayCut = Callable[[Segment, ScanResult], bool]


def drop_damaged(segments: list[Segment], files: LogFiles, log_start_offset: int, *, is_compacted: bool) -> None:
    """Remove segments before the log start offset, up to the last one of them that is damaged or does not end at the
    start of the next one. They were deleted, and perhaps never synced: this implies nothing about later segments.
    Whole ones stay, because their producers count (log_truncation.reload_producers).
    """
    count = 0
    for number, segment in enumerate(segments[:-1]):
        following = segments[number + 1].base_offset
        if following > log_start_offset:
            break
        if not _is_whole(segment, following, is_compacted=is_compacted):
            count = number + 1
    if count == 0:
        return
    logger.warning(
        "removed deleted segments that are damaged",
        extra=facts(path=segments[0].directory, segments=count, log_start_offset=log_start_offset),
    )
    for segment in segments[:count]:
        del files.log_sizes[segment.base_offset]
        files.txn_indexes.discard(segment.base_offset)
    remove_for_good(segments[:count])
    del segments[:count]


def _is_whole(segment: Segment, following: int, *, is_compacted: bool) -> bool:
    """Whether every batch of a segment is valid, and before `following`, where the next segment begins; all offsets up
    to there have to be present in a log that was not compacted.
    """
    path, base, size = segment.path, segment.base_offset, segment.size
    if is_compacted:
        return recovery.verify_part(path, base, 0, size, size, following)[1] is None
    result, gap = recovery.verify_contiguous(path, base, size)
    return result.problem is None and not gap and result.next_offset == following


@dataclass(slots=True, frozen=True)
class SegmentRecovery:
    """Checks the records of one log at or after the offset `check_from`, and repairs the indexes.

    After a power loss, all segments after the first damaged one are removed, as in Kafka: no part of them was synced.
    Segments after one that ends too early, or is missing, are also removed, unless compaction may have left that gap by
    `may_have_gap` (with the offset, and whether records follow); Kafka keeps them. A gap within a segment is damage
    unless `keeps_gaps`. Records that reach into the next segment always are: in Kafka a consumer receives the
    offsets twice, or never. For `may_cut` see MayCut.
    """

    files: LogFiles
    config: LogConfig
    check_from: int
    epochs: LeaderEpochs
    power_lost: bool
    may_have_gap: Callable[[int, bool], bool]
    keeps_gaps: bool
    may_cut: MayCut
    # The number of segments that are still to be checked, by directory, while that is done. Other threads read it.
    left: dict[str, int]

    def run(self, segments: list[Segment]) -> int:
        """Recover the segments of a log; returns its end offset.

        Segments after the one in which the log ends are removed from `segments`. Raises CorruptSegment if the log
        cannot be served, StorageError, OSError.
        """
        try:
            filled, filled_end = self._check_all(segments)
        finally:
            self.left.pop(segments[0].directory, None)
        behind = segments[segments.index(filled) + 1 :]
        if behind and filled_end < behind[-1].base_offset and not self.may_have_gap(filled_end, False):
            remove_for_good(behind)
            del segments[-len(behind) :]
        return self._check_end(segments[-1])

    def _check_all(self, segments: list[Segment]) -> tuple[Segment, int]:
        """Check the segments up to the one in which the log ends, and remove those after it; returns the last one with
        records, and the offset at which that ends (NEVER if it was not checked).
        """
        last = max((i for i, segment in enumerate(segments) if segment.size > 0), default=0)
        limits = _limits(segments)
        filled, filled_end = segments[0], NEVER
        hiding = []
        bases = [*(segment.base_offset for segment in segments[1:]), NEVER]
        self.left[filled.directory] = sum(following > self.check_from for following in bases)
        for number, (segment, limit) in enumerate(zip(segments, limits, strict=True)):
            if segment.size == 0 and segment.base_offset < filled_end < NEVER:
                # Its removal was lost with the power: it would hide the records of the previous one from there on.
                hiding.append(segment)
                continue
            following = segments[number + 1].base_offset if number + 1 < len(segments) else NEVER
            if following > self.check_from:
                was_cut, end = self._check(segment, self.power_lost or number == last, self.check_from, limit)
                self.left[segment.directory] -= 1
                if segment.size > 0 or number == 0:
                    filled, filled_end = segment, end
                if was_cut or (end < limit < NEVER and not self.may_have_gap(end, True)):
                    if not was_cut:
                        logger.warning(
                            "removed the segments after a gap in the log: the missing records were never on disk",
                            extra=facts(path=segment.path, log_end_offset=end, next_offset=limit),
                        )
                    remove_for_good(segments[number + 1 :])
                    del segments[number + 1 :]
                    break
                continue
            if segment.size > 0:
                filled, filled_end = segment, following
                if following == self.check_from < NEVER and self.power_lost:
                    self._cut_again(segment, following)
            end = self._mend_indexes(segment, limit, is_last=number == last)
            filled_end = min(filled_end, end)
        remove_for_good(hiding)
        for segment in hiding:
            segments.remove(segment)
        return filled, filled_end

    def _cut_again(self, segment: Segment, end: int) -> None:
        """Cut a segment that ends at the recovery point, `end`, if it has bytes after that: the log was truncated to
        `end`, where it began the next segment, and the power loss has undone the cut. Damage before `end` is not looked
        for, as in other segments before the recovery point.
        """
        result = recovery.rebuild_indexes(segment, end, end, self.config.index_interval_bytes, limit=end)
        if result.problem is not None and result.next_offset == end:
            self._cut(segment, result)

    def _mend_indexes(self, segment: Segment, limit: int, *, is_last: bool) -> int:
        """Rebuild the indexes of a segment that is not checked, if they are missing or wrong; returns the offset at
        which its end was truncated, otherwise NEVER.
        """
        problem = _index_problem(segment, self.files, self.config)
        if not problem:
            return NEVER
        # A log that grew in small steps over many starts has no entries either, so that needs no warning.
        level = logging.INFO if problem == EMPTY else logging.WARNING
        logger.log(level, "rebuilding the indexes of a segment", extra=facts(path=segment.path, reason=problem))
        if is_last:
            # As in Kafka, a torn tail is truncated even after a clean stop.
            was_cut, end = self._check(segment, True, segment.base_offset, limit)
            return end if was_cut else NEVER
        result = recovery.rebuild_indexes(segment, 0, NEVER, self.config.index_interval_bytes, limit=limit)
        if result.problem is not None:
            raise CorruptSegment(segment.path, result.position, result.problem)
        return NEVER

    def _check_end(self, tail: Segment) -> int:
        """The offset at which the log ends, whose last segment is `tail`."""
        clean = self.check_from == NEVER
        result = recovery.next_offset(tail, clean)
        if result.problem is not None and clean:
            # The stop was clean, but the data after the last index entry is damaged, or that entry itself is. The data
            # before it is still trusted at first; if that does not help, the whole segment is checked.
            for checked in (recovery.last_indexed_offset(tail), tail.base_offset):
                self._check(tail, True, checked, NEVER)
                result = recovery.next_offset(tail, clean)
                if result.problem is None:
                    break
        if result.problem is not None:
            raise CorruptSegment(tail.path, result.position, result.problem)
        return max(result.next_offset, tail.base_offset)

    def _check(self, segment: Segment, is_last: bool, check_from: int, limit: int) -> tuple[bool, int]:
        """Check one segment from offset `check_from` on; the next one with records begins at `limit`. Returns whether
        its end was truncated, and the offset at which it ends. Raises CorruptSegment if that is not allowed: other
        segments with data follow, or see MayCut.
        """
        interval = self.config.index_interval_bytes
        result = recovery.rebuild_indexes(
            segment, check_from, check_from, interval, self.epochs, limit, self.keeps_gaps
        )
        if result.problem is None:
            return False, result.next_offset
        if not is_last or not self.may_cut(segment, result):
            raise CorruptSegment(segment.path, result.position, result.problem)
        self._cut(segment, result)
        return True, result.next_offset

    def _cut(self, segment: Segment, result: ScanResult) -> None:
        """Cut a segment where a scan of it has ended, and sync that."""
        logger.warning(
            "truncated the damaged end of a log",
            extra=facts(
                path=segment.path,
                cut_bytes=segment.size - result.position,
                position=result.position,
                log_end_offset=result.next_offset,
                reason=result.problem,
            ),
        )
        recovery.cut(segment, result.position)
        # Otherwise the next power loss could bring back the truncated records here, after records written since.
        disk.sync_file(segment.path)


def _limits(segments: list[Segment]) -> list[int]:
    """For each segment the base offset of the next one with records, NEVER without one. An empty file proves nothing
    about the records before it.
    """
    limits = []
    limit = NEVER
    for segment in reversed(segments):
        limits.append(limit)
        if segment.size > 0:
            limit = segment.base_offset
    return limits[::-1]


def remove_for_good(segments: list[Segment]) -> None:
    """Remove files of segments, so that no power loss brings them back among records that were written since."""
    for segment in segments:
        log_deletion.remove_segment(segment.directory, segment.base_offset)
    if segments:
        sync_directory(segments[0].directory)


def _index_problem(segment: Segment, files: LogFiles, config: LogConfig) -> str | None:
    """The problem of a segment's indexes: one is missing, has no entries or a partial one, or points past the end of
    the segment. None if they seem intact.
    """
    size = files.index_sizes.get(segment.base_offset)
    time_size = files.time_index_sizes.get(segment.base_offset)
    if size is None or time_size is None or size % 8 or time_size % 12:
        return MISSING_OR_WRONG if segment.size > 0 or size is not None else None
    if segment.size > 0 and (size == 0 or time_size == 0):
        # An empty offset index is right only if no batch begins after the first interval, an empty time index only if
        # no batch up to there has a timestamp.
        timestamp, due = recovery.index_need(segment, config.index_interval_bytes)
        if (size == 0 and due) or (time_size == 0 and timestamp >= 0):
            return EMPTY
    return None if segment.indexes_fit() else MISSING_OR_WRONG
