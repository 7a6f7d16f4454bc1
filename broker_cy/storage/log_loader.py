"""Loading a Log from a partition's directory, as Kafka's LogLoader does, but reading only after the recovery point, or
after the written point if the machine has not restarted since (storage.written_points).

After an unclean stop everything before that point is assumed to be intact. From there on each batch is checked. The
first batch that is not intact ends the log if it is in the last segment that has data. In an earlier segment it takes
the partition offline (the records after it may have been acknowledged, so nothing is deleted).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from broker_cy.core.errors import WireError
from broker_cy.core.logs import facts
from broker_cy.storage import damage, disk, maintenance, noted_state, recovery, snapshots, syncs, txn_index
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.checkpoints import Entries
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.errors import CorruptSegment, StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_files import NEVER, LogFiles
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.producer_state import ProducerState
from broker_cy.storage.segment import OpenFiles, Segment

logger = logging.getLogger(__name__)

MISSING_OR_WRONG = "an index is missing or wrong"
EMPTY = "an index has no entries"
# Whether a segment may be truncated; the arguments are the segment and a scan that ended at the damage.
MayCut = Callable[[Segment, recovery.ScanResult], bool]


@dataclass(slots=True, frozen=True)
class LoadContext:
    """What loading needs to know apart from the directory: about the broker, not about one log."""

    open_files: OpenFiles
    totals: LogTotals
    clean: bool
    now_ms: int
    producer_expiration_ms: int
    # The machine may have stopped since the logs were written: any part of the data that was not synced may be missing.
    power_lost: bool = False
    # Content of the cleaner's checkpoint: a log that was compacted may have gaps between its segments.
    cleaned: Entries = field(default_factory=lambda: Entries({}, {}))
    # Topics whose logs are not truncated if the damage cannot come from an interrupted write: without the lost records
    # the broker would use an older state of everything in them.
    kept_whole: frozenset[str] = frozenset()
    # Bytes that were cut off the ends of logs while loading, by directory name (topic-partition).
    cuts: dict[str, int] = field(default_factory=dict)

    def may_cut(self, topic: str, segment: Segment, position: int) -> bool:
        """Whether the damaged end of a log, from `position` of its last segment on, may be cut off."""
        if topic not in self.kept_whole or (self.power_lost and not self.clean):
            return True
        return not self.clean and recovery.is_torn(segment, position)


def load_log(
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    recovery_point: int,
    log_start_offset: int,
    context: LoadContext,
    written_point: int = 0,
    topic_id: UUID | None = None,
) -> Log:
    """Load the log in `directory`. `recovery_point`, `log_start_offset` and `written_point` are those of the data
    directory's checkpoints (0 if they have none), `topic_id` is that of the topic (None if it is not known). Raises
    CorruptSegment and StorageError if the partition cannot be served, OSError.
    """
    if syncs.has_failed(directory):
        syncs.write_again(directory, recovery_point)
        # Pages that were evicted from the page cache before are lost, as in a power loss.
        context = replace(context, clean=False, power_lost=True)
        written_point = 0
    if written_point > 0 and not noted_state.has(directory, written_point):
        # The partition was restored from a copy, which need not be complete up to there.
        written_point = 0
    files = LogFiles(directory)
    note = damage.read(directory)
    if note is not None and note.is_end:
        files.remove_behind(note.end_offset)
    bases = sorted(files.log_sizes)
    interval = config.index_interval_bytes
    segments = [
        Segment(directory, base, context.open_files, files.log_sizes[base], True, context.now_ms, interval)
        for base in bases
    ]
    epochs, epochs_known = _load_epochs(directory, context.power_lost)
    if not segments:
        log_start_offset = max(log_start_offset, files.deleted_end())
        segments = [Segment(directory, log_start_offset, context.open_files, 0, False, context.now_ms, interval)]
        segments[0].create(context.now_ms)
        if log_start_offset > 0:
            sync_directory(directory)
    files.remove_deleted()
    check_from = NEVER if context.clean else max(recovery_point, written_point)
    if context.power_lost and not context.clean and recovery_point <= log_start_offset:
        # A deletion moved it past data that was never synced, which may be the beginning of a segment that stays.
        check_from = 0
    whole_to = 0
    if note is not None:
        check_from = 0
        whole_to = note.synced_offset if context.power_lost else note.end_offset
        for segment in segments:
            damage.forget_cached(segment.path)
    is_compacted = config.compact or context.cleaned.offset_of((topic, partition), topic_id) is not None

    def may_have_gap(end: int, records_follow: bool) -> bool:
        """Whether the segments after a gap that begins at `end` are kept. In a log that was found damaged they are not
        where the gap is in what a power loss may take, or in what a failed write left. Raises StorageError if it is
        in acknowledged records: the log is still damaged.
        """
        if is_compacted:
            return True
        if note is not None and records_follow and end < whole_to:
            raise StorageError(f"{directory} has no records from offset {end} on, but it had records up to {whole_to}")
        return records_follow and note is None and not context.power_lost

    def may_cut(segment: Segment, found: recovery.ScanResult) -> bool:
        return found.next_offset >= whole_to and context.may_cut(topic, segment, found.position)

    if context.power_lost and not context.clean:
        _drop_damaged(segments, files, log_start_offset, is_compacted=is_compacted)
    end_offset = _recover(segments, files, config, check_from, epochs, context.power_lost, may_have_gap, may_cut)
    if end_offset < whole_to:
        raise StorageError(f"{directory} ends at offset {end_offset}, but had records up to offset {whole_to}")
    cut_bytes = sum(files.log_sizes.values()) - sum(segment.size for segment in segments)
    if cut_bytes:
        context.cuts[f"{topic}-{partition}"] = cut_bytes
    if end_offset < log_start_offset:
        logger.warning(
            "log ended before its start offset: recreated it, empty, at that offset",
            extra=facts(path=directory, log_end_offset=end_offset, log_start_offset=log_start_offset),
        )
        for segment in segments:
            segment.close()
        _remove_for_good(segments)
        segments = [Segment(directory, log_start_offset, context.open_files, 0, False, context.now_ms, interval)]
        segments[0].create(context.now_ms)
        end_offset = log_start_offset
        epochs = LeaderEpochs(directory)
    start_offset = max(log_start_offset, segments[0].base_offset)
    if epochs.epochs and epochs.starts[0] > start_offset:
        # Records were deleted, the epochs were truncated with them, and then the deletion itself was lost.
        epochs_known = False
    if not epochs_known:
        epochs = recovery.find_epochs(directory, segments)
    changed = epochs.truncate_from_end(end_offset)
    if epochs.truncate_from_start(start_offset) or changed or not epochs_known:
        epochs.write()
    log = Log(
        directory,
        topic,
        partition,
        config,
        segments,
        start_offset,
        end_offset,
        end_offset if context.clean else max(min(recovery_point, end_offset), start_offset),
        ProducerState(directory, f"{topic}-{partition}"),
        epochs,
        context.open_files,
        context.totals,
    )
    log.last_flush_ms = context.now_ms
    log.written_point = max(log.recovery_point, min(written_point, end_offset))
    if log.recovery_point < end_offset:
        context.totals.dirty.add(log)
    _mend_txn_indexes(log, files)
    if context.clean and not files.snapshots:
        # As in Kafka, a whole log is not read for producer state if a clean stop left none.
        log.producers.clear(end_offset)
    else:
        noted = 0 if context.clean else written_point
        # Group commit syncs the batches, but not the transaction indexes.
        synced = check_from if context.power_lost else NEVER
        expiration_ms = context.producer_expiration_ms
        maintenance.reload_producers(log, context.now_ms, expiration_ms, files.snapshots, noted, synced)
    if note is not None and note.is_end and end_offset > note.end_offset:
        # A failed write could not be truncated. Its producers received an error, and may have sent the records again.
        maintenance.truncate_to(log, max(note.end_offset, start_offset), context.now_ms)
        disk.sync_file(log.active.path)
    if note is not None:
        logger.warning("removing a damage note: the log is intact now", extra=facts(path=directory))
        damage.remove(directory)
    return log


def _mend_txn_indexes(log: Log, files: LogFiles) -> None:
    """Rebuild torn or damaged transaction indexes. Otherwise readers of committed records would receive an error, or
    aborted records; and entries left from truncated records would hide committed records that are given their offsets.
    Reads the log from the snapshot before the first damaged index. Raises CorruptSegment, StorageError, OSError.
    """
    damaged = []
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        base = segment.base_offset
        if base in files.txn_indexes and (problem := txn_index.problem_of(log.directory, base, end)):
            logger.warning("rebuilt a damaged transaction index from the log", extra=facts(reason=problem))
            os.unlink(txn_index.path_of(log.directory, base))
            damaged.append(base)
    if not damaged:
        return
    producers = ProducerState(log.directory, f"{log.topic}-{log.partition}")
    producers.clear(log.log_start_offset)
    for offset in sorted(files.snapshots, reverse=True):
        if log.log_start_offset <= offset <= damaged[0]:
            try:
                producers.load(disk.read_whole(snapshots.path_of(log.directory, offset)), offset)
                break
            except (WireError, ValueError):
                # It is logged, and removed, when the log's own state is loaded.
                producers.clear(log.log_start_offset)
    for segment, end in zip(log.segments, ends, strict=True):
        if producers.end_offset < end and segment.base_offset <= damaged[-1]:
            recovery.replay_producers(segment, producers)
    # Entries before the recovery point are trusted after the next power loss.
    for base in damaged:
        path = txn_index.path_of(log.directory, base)
        if os.path.exists(path):
            disk.sync_file(path)
    sync_directory(log.directory)


def _load_epochs(directory: str, may_be_lost: bool) -> tuple[LeaderEpochs, bool]:
    """Leader epochs, and whether their file was valid. With `may_be_lost`, a file without epochs is not."""
    try:
        epochs = LeaderEpochs.load(directory)
        return epochs, not may_be_lost or bool(epochs.epochs)
    except ValueError as error:
        logger.warning("rebuilt damaged leader epochs from the batches", extra=facts(reason=error))
        return LeaderEpochs(directory), False


def _drop_damaged(segments: list[Segment], files: LogFiles, log_start_offset: int, *, is_compacted: bool) -> None:
    """Remove segments before the log start offset, up to the last one of them that is damaged or does not reach to the
    next segment. They were deleted, and perhaps never synced: this says nothing about the segments that follow. Whole
    ones stay, because their producers count (maintenance.reload_producers).
    """
    count = 0
    for number, segment in enumerate(segments[:-1]):
        following = segments[number + 1].base_offset
        if following > log_start_offset:
            break
        path, base, size = segment.path, segment.base_offset, segment.size
        _, problem = recovery.verify_part(path, base, 0, size, size)
        # The second look is at the headers alone, and only where a gap matters.
        if problem is not None or (not is_compacted and recovery.next_offset_of_file(path, base, size) < following):
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
    _remove_for_good(segments[:count])
    del segments[:count]


def _recover(
    segments: list[Segment],
    files: LogFiles,
    config: LogConfig,
    check_from: int,
    epochs: LeaderEpochs,
    power_lost: bool,
    may_have_gap: Callable[[int, bool], bool],
    may_cut: MayCut,
) -> int:
    """Check the records at or after `check_from`, and repair the indexes; returns the offset at which the log ends.

    Empty segments after the one in which the log ends are removed from `segments`. After a power loss, all segments
    after the first damaged one are removed, as in Kafka: nothing of them was synced. So are segments after one that
    ends too early, or is missing, unless `may_have_gap` (with whether records follow) says that compaction may have
    left that gap (Kafka keeps them).
    """
    last = max((i for i, segment in enumerate(segments) if segment.size > 0), default=0)
    filled, filled_end = 0, NEVER
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else NEVER
        if following > check_from:
            was_cut, end = _check(segment, power_lost or number == last, check_from, config, epochs, may_cut)
            if segment.size > 0 or number == 0:
                filled, filled_end = number, end
            if was_cut or (end < following < NEVER and not may_have_gap(end, True)):
                if not was_cut:
                    logger.warning(
                        "removed the segments after a gap in the log: the missing records were never on disk",
                        extra=facts(path=segment.path, log_end_offset=end, next_offset=following),
                    )
                _remove_for_good(segments[number + 1 :])
                del segments[number + 1 :]
                break
            continue
        if segment.size > 0:
            filled, filled_end = number, following
        if problem := _index_problem(segment, files, config):
            # A log that grew in small steps over many starts has no entries either, so that needs no warning.
            level = logging.INFO if problem == EMPTY else logging.WARNING
            logger.log(level, "rebuilding the indexes of a segment", extra=facts(path=segment.path, reason=problem))
            if number == last:
                # As in Kafka, a torn tail is truncated even after a clean stop.
                was_cut, end = _check(segment, True, segment.base_offset, config, epochs, may_cut)
                filled_end = end if was_cut else filled_end
                continue
            result = recovery.rebuild_indexes(segment, 0, NEVER, config.index_interval_bytes)
            if result.problem is not None:
                raise CorruptSegment(segment.path, result.position, result.problem)
    if filled_end < NEVER and filled_end < segments[-1].base_offset and not may_have_gap(filled_end, False):
        _remove_for_good(segments[filled + 1 :])
        del segments[filled + 1 :]
    tail = segments[-1]
    clean = check_from == NEVER
    result = recovery.next_offset(tail, clean)
    if result.problem is not None and clean:
        # The stop was clean, but the data after the last index entry is damaged, or that entry itself is. The data
        # before it is still trusted at first; if that does not help, the whole segment is checked.
        for checked in (recovery.last_indexed_offset(tail), tail.base_offset):
            _check(tail, True, checked, config, epochs, may_cut)
            result = recovery.next_offset(tail, clean)
            if result.problem is None:
                break
    if result.problem is not None:
        raise CorruptSegment(tail.path, result.position, result.problem)
    return max(result.next_offset, tail.base_offset)


def _check(
    segment: Segment, is_last: bool, check_from: int, config: LogConfig, epochs: LeaderEpochs, may_cut: MayCut
) -> tuple[bool, int]:
    """Check one segment from offset `check_from` on; returns whether its end was truncated, and the offset at which it
    ends. Raises CorruptSegment if that is not allowed: other segments with data follow, or see
    LoadContext.may_cut.
    """
    size = segment.size
    result = recovery.rebuild_indexes(segment, check_from, check_from, config.index_interval_bytes, epochs)
    if result.problem is None:
        return False, result.next_offset
    if not is_last or not may_cut(segment, result):
        raise CorruptSegment(segment.path, result.position, result.problem)
    logger.warning(
        "truncated the damaged end of a log",
        extra=facts(
            path=segment.path,
            cut_bytes=size - result.position,
            position=result.position,
            log_end_offset=result.next_offset,
            reason=result.problem,
        ),
    )
    recovery.cut(segment, result.position)
    # Otherwise the next power loss could bring back what is truncated here, after records that were written since.
    disk.sync_file(segment.path)
    return True, result.next_offset


def _remove_for_good(segments: list[Segment]) -> None:
    """Remove files of segments, so that no power loss brings them back among records that were written since."""
    for segment in segments:
        maintenance.remove_segment(segment.directory, segment.base_offset)
    if segments:
        sync_directory(segments[0].directory)


def _index_problem(segment: Segment, files: LogFiles, config: LogConfig) -> str | None:
    """What is wrong with the indexes of a segment: one is missing, has no entries or a partial one, or points past the
    end of the segment. None if they seem intact.
    """
    size = files.index_sizes.get(segment.base_offset)
    time_size = files.time_index_sizes.get(segment.base_offset)
    if size is None or time_size is None or size % 8 or time_size % 12:
        return MISSING_OR_WRONG if segment.size > 0 or size is not None else None
    if segment.size > 0 and (size == 0 or time_size == 0):
        # An empty offset index is right only if no batch begins after the first interval, an empty time index only if
        # no batch up to there has a timestamp.
        timestamp, due = recovery.index_need(segment, config.index_interval_bytes)
        return EMPTY if (size == 0 and due) or (time_size == 0 and timestamp >= 0) else None
    return None if segment.indexes_fit() else MISSING_OR_WRONG
