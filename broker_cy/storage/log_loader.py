"""Loading a Log from a partition's directory, as Kafka's LogLoader does, but reading only after the recovery point, or
after the written point if the machine has not restarted since (storage.written_points).

After an unclean stop everything before that point is assumed to be intact. From there on each batch is checked. The
first batch that is not intact ends the log if it is in the last segment that has data. In an earlier segment it takes
the partition offline (the records after it may have been acknowledged, so nothing is deleted).
"""

from __future__ import annotations

import logging
import os
from dataclasses import field, replace
from uuid import UUID

from broker_cy.core.classes import dataclass
from broker_cy.core.errors import WireError
from broker_cy.core.logs import facts
from broker_cy.storage import (
    damage,
    disk,
    log_truncation,
    noted_state,
    recovery,
    segment_recovery,
    snapshots,
    syncs,
    txn_index,
)
from broker_cy.storage.atomic import sync_directory
from broker_cy.storage.batch_reader import ScanResult
from broker_cy.storage.checkpoints import Entries
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_files import NEVER, LogFiles
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.producer_state import ProducerState
from broker_cy.storage.segment import OpenFiles, Segment
from broker_cy.storage.segment_recovery import SegmentRecovery

logger = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class LoadContext:
    """The input of loading apart from the directory: facts about the broker, not about one log."""

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
    # Segments that are still to be checked, by directory of the logs that are being loaded.
    segments_left: dict[str, int] = field(default_factory=dict)

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
    first_base_max: int = NEVER,
) -> Log:
    """Load the log in `directory`. `recovery_point`, `log_start_offset` and `written_point` are those of the data
    directory's checkpoints (0 if they have none), `topic_id` is that of the topic (None if it is not known). If the
    first segment begins after `first_base_max`, the start of the log is lost: the log begins again, empty, at that
    offset (log_loading.py). Raises CorruptSegment and StorageError if the partition cannot be served, OSError.
    """
    had_failed = syncs.has_failed(directory)
    if had_failed:
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
    if bases and bases[0] > first_base_max:
        if note is not None and note.synced_offset > first_base_max:
            lost = f"has no records before offset {bases[0]}, but had records up to offset {note.synced_offset}"
            raise StorageError(f"{directory} {lost}")
        logger.warning(
            "removed the rest of a log whose first segments were lost: it begins again, empty, and has other replicas",
            extra=facts(path=directory, first_offset=bases[0], log_start_offset=first_base_max),
        )
        files.remove_all()
        LeaderEpochs(directory).write()
        log_start_offset = first_base_max
        bases = []
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
    # A kill leaves no gap. As in Kafka, a gap may still come from a compaction that left no other trace.
    keeps_gaps = is_compacted or (note is None and (context.clean or not context.power_lost))

    def may_have_gap(end: int, records_follow: bool) -> bool:
        """Whether the segments after a gap that begins at `end` are kept. In a damaged log they are not kept if the gap
        is in a part that a power loss may take, or that a failed write left. Raises StorageError if it is in
        acknowledged records: the log is still damaged.
        """
        if is_compacted:
            return True
        if note is not None and records_follow and end < whole_to:
            raise StorageError(f"{directory} has no records from offset {end} on, but it had records up to {whole_to}")
        return records_follow and keeps_gaps

    def may_cut(segment: Segment, found: ScanResult) -> bool:
        return found.next_offset >= whole_to and context.may_cut(topic, segment, found.position)

    if context.power_lost and not context.clean:
        segment_recovery.drop_damaged(segments, files, log_start_offset, is_compacted=is_compacted)
    end_offset = SegmentRecovery(
        files, config, check_from, epochs, context.power_lost, may_have_gap, keeps_gaps, may_cut, context.segments_left
    ).run(segments)
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
        segment_recovery.remove_for_good(segments)
        segments = [Segment(directory, log_start_offset, context.open_files, 0, False, context.now_ms, interval)]
        segments[0].create(context.now_ms)
        end_offset = log_start_offset
        epochs = LeaderEpochs(directory)
    start_offset = max(log_start_offset, segments[0].base_offset)
    changed = False
    if not epochs_known:
        epochs = recovery.find_epochs(directory, segments)
    elif epochs.epochs and epochs.starts[0] > start_offset:
        # Records may have been deleted, the epochs truncated with them, and then the deletion itself was lost. The
        # known epochs stay: a compaction may have left no batch of them. It is also why the first one may begin later.
        changed = epochs.add_older(recovery.find_epochs(directory, segments, epochs.starts[0]))
    changed |= epochs.truncate_from_end(end_offset)
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
        log_truncation.reload_producers(log, context.now_ms, expiration_ms, files.snapshots, noted, synced)
    if note is not None and note.is_end and end_offset > note.end_offset:
        # A failed write could not be truncated. Its producers received an error, and may have sent the records again.
        log_truncation.truncate_to(log, max(note.end_offset, start_offset), context.now_ms)
        disk.sync_file(log.active.path)
    if note is not None:
        logger.warning("removing a damage note: the log is intact now", extra=facts(path=directory))
        damage.remove(directory)
    if had_failed:
        syncs.forget_failed(directory)
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
