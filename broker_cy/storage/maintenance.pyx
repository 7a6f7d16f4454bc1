"""What happens to a log outside of the data path: truncation, deletion of old records, flushing, closing.

These functions change the C attributes of a log, as friends of its class; the file is long because they share the helpers
that end a log at an offset and collect what a flush or a sync includes.
"""

import logging
import os

from libc.stdint cimport int64_t

from broker_cy.core.logs import facts
from broker_cy.storage.log cimport Log
from broker_cy.storage.log_config cimport LogConfig
from broker_cy.storage.segment cimport Segment
from broker_cy.wire.batch cimport BatchHeader

from broker_cy.core.errors import WireError
from broker_cy.storage import noted_state, recovery, snapshots, txn_index
from broker_cy.storage.atomic import read_whole, sync_directory
from broker_cy.storage.checkpoints import encode_pairs
from broker_cy.storage.data_directory import PARTITION_METADATA
from broker_cy.storage.errors import OffsetOutOfRange, StorageError
from broker_cy.storage.flush_job import FlushJob
from broker_cy.storage.segment_files import DATA_SUFFIXES, SEGMENT_SUFFIXES
from broker_cy.storage.sync_job import SyncJob

logger = logging.getLogger(__name__)

DELETED = ".deleted"
# More than a log can have.
SEGMENTS_ANY = 1 << 60
cdef int64_t OFFSET_ANY = 0x7FFFFFFFFFFFFFFF


cdef int refuse_staged(Log log) except -1:
    if log.staged_batches > 0:
        raise RuntimeError(f"{log!r} has staged batches")
    return 0


# --- producer state


def reload_producers(Log log not None, int64_t now_ms, int64_t expiration_ms, snapshot_offsets=None, int64_t noted_offset=0,
                     int64_t synced_offset=OFFSET_ANY):
    """Producer state at the log end offset: the newest usable snapshot, and the batches after it. Snapshots that are damaged or
    lie behind the log's end are removed. `snapshot_offsets` is what the directory has, where that is known; `noted_offset` is the
    checkpointed written point. Raises OSError, StorageError.

    The transaction indexes may lack what lies at or after `synced_offset`: a snapshot of a later offset is not used, so that
    reading the batches makes them complete again.

    What lies before the log start offset and is still in a file counts, too: of a producer whose last batch was deleted, and the
    marker behind it was not, the rest would tell the epoch and no sequence, and its next batch would be out of order for good.
    """
    cdef Segment segment = log.segments[0]
    cdef int64_t first = segment.base_offset
    cdef bint lost = False
    cdef int64_t known = -1
    log.producers.clear(first)
    if snapshot_offsets is None:
        snapshot_offsets = snapshots.offsets(log.directory)
    if first <= noted_offset <= log.written_end_offset and noted_offset > 0:
        log.noted_slot = noted_state.load(log.producers, log.directory, noted_offset, now_ms, expiration_ms)
        if log.noted_slot < 0:
            log.producers.clear(first)
        else:
            known = noted_offset
    for offset in sorted(snapshot_offsets, reverse=True):
        if offset > log.written_end_offset:
            snapshots.remove(log.directory, offset)
            lost = True
            continue
        if offset < first or offset <= known:
            break
        if offset > synced_offset:
            continue
        try:
            log.producers.load(
                read_whole(snapshots.path_of(log.directory, offset), snapshots.SIZE_MAX_BYTES), offset, now_ms, expiration_ms
            )
            break
        except (WireError, ValueError) as error:
            logger.warning("damaged producer state removed", extra=facts(path=snapshots.path_of(log.directory, offset), reason=error))
            snapshots.remove(log.directory, offset)
    if lost:
        # Else a power cut may bring them back, once other records lie before their offsets.
        sync_directory(log.directory)
    if log.producers.end_offset < log.written_end_offset:
        for segment in log.segments[log.segment_number(log.producers.end_offset):]:
            recovery.replay_producers(segment, log.producers)
    log.producers.end_offset = log.written_end_offset
    log.producers.commit()
    keep_newest_stray(log, snapshot_offsets)


cdef int keep_newest_stray(Log log, snapshot_offsets) except -1:
    """Of the snapshots that no segment begins with (each flush leaves one) only the newest is of use, as in Kafka: the next
    flush takes its place."""
    cdef set strays = set(snapshot_offsets) - base_offsets(log)
    log.flushed_snapshot = -1
    for offset in sorted(strays):
        if log.flushed_snapshot >= 0 and offset <= log.written_end_offset:
            snapshots.remove(log.directory, log.flushed_snapshot)
        if offset <= log.written_end_offset:
            log.flushed_snapshot = offset
    return 0


cdef set base_offsets(Log log):
    cdef Segment segment
    cdef set found = set()
    for segment in log.segments:
        found.add(segment.base_offset)
    return found


# --- truncation


def truncate_to(Log log not None, int64_t offset, int64_t now_ms):
    """Drop everything at or after `offset`; returns False if there is nothing. For a follower whose leader has other records.

    A batch that `offset` lies in goes as a whole. Raises OffsetOutOfRange below the log start offset, OSError, StorageError.
    """
    cdef Segment segment
    cdef BatchHeader header
    cdef int64_t position = 0
    refuse_staged(log)
    if offset >= log.log_end_offset:
        return False
    if offset < log.log_start_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
    log.generation += 1
    while len(log.segments) > 1 and (<Segment>log.segments[len(log.segments) - 1]).base_offset > offset:
        segment = log.segments.pop()
        drop_unflushed(log, segment.size)
        segment.close()
        remove_segment(log.directory, segment.base_offset)
    segment = <Segment>log.segments[len(log.segments) - 1]
    log.active = segment
    if segment.locate(offset, &position, &header):
        drop_unflushed(log, segment.size - position)
        segment.offsets.truncate_to(offset)
        segment.times.truncate_to(offset)
        segment.aborts = None
        txn_index.truncate_to(log.directory, segment.base_offset, offset)
        recovery.cut(segment, position)
        recovery.refresh_timestamps(segment)
        if segment.size == 0:
            segment.created_ms = now_ms
    end_at(log, offset)
    # Other records may be written in place of those that it speaks of.
    noted_state.forget(log.directory)
    log.noted_slot = -1
    reload_producers(log, -1, 0)
    return True


cdef int drop_unflushed(Log log, int64_t size) except -1:
    """`size` bytes will never need flushing: they are gone. What is counted never falls below zero, since part of them may have
    been flushed before."""
    if size > log.unflushed_bytes:
        size = log.unflushed_bytes
    log.unflushed_bytes -= size
    log.totals.unflushed_bytes -= size
    return 0


cdef int end_at(Log log, int64_t offset) except -1:
    log.log_end_offset = offset
    log.written_end_offset = offset
    if log.recovery_point > offset:
        log.recovery_point = offset
    if log.synced_end_offset > offset:
        log.synced_end_offset = offset
    if log.written_point > offset:
        log.written_point = offset
    log.drop_hints()
    if log.epochs.truncate_from_end(offset):
        log.epochs.write()
    log.leader_epoch = log.epochs.latest_epoch
    return 0


def remove_segment(directory, int64_t base_offset):
    """Remove a segment's files, except the producer state taken where it begins; raises OSError."""
    for suffix in DATA_SUFFIXES:
        try:
            os.unlink(f"{directory}/{base_offset:020d}{suffix}")
        except FileNotFoundError:
            continue


# --- deletion of old records


def delete_records_before(Log log not None, int64_t offset, int64_t now_ms, Py_ssize_t segments_max=SEGMENTS_ANY):
    """Move the log start offset up to `offset` and take away the segments that lie before it as a whole, at most `segments_max` of
    them (drop_old_segments takes the others).

    Returns the paths of their files, renamed to `.deleted`, for the caller to unlink later (file.delete.delay.ms). Raises
    OffsetOutOfRange above what is written, OSError.
    """
    cdef Py_ssize_t count
    if offset > log.written_end_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.written_end_offset)
    if offset > log.log_start_offset:
        log.log_start_offset = offset
        if log.recovery_point < offset:
            log.recovery_point = offset
        if log.epochs.truncate_from_start(offset):
            try:
                log.epochs.write()
            except OSError as error:
                # The next start does it. What matters more: on a full disk this deletion is what makes room again.
                logger.warning("old leader epochs stay for now", extra=facts(path=log.directory, log_start_offset=offset, reason=error))
    count = len(log.segments)
    renamed = drop_old_segments(log, segments_max)
    count -= len(log.segments)
    if offset == log.log_end_offset and log.active.size > 0:
        # Everything goes: the segment that is written to has to be another one first.
        try:
            log.begin_segment(now_ms)
        except OSError as error:
            if not renamed:
                raise
            logger.warning("last segment stays for now", extra=facts(path=log.directory, reason=error))
        renamed += drop_old_segments(log, segments_max - count)
    return renamed


def has_old_segments(Log log not None):
    """Whether a segment lies before the log start offset as a whole."""
    return len(log.segments) > 1 and (<Segment>log.segments[1]).base_offset <= log.log_start_offset


def drop_old_segments(Log log not None, Py_ssize_t segments_max):
    """Take away up to `segments_max` of the segments that lie before the log start offset as a whole; the new paths of their files.
    None while batches are staged: one of them may be the segment that a failed write returns to. Raises OSError if not even one
    could be renamed; those that cannot stay for the next time."""
    cdef Segment segment
    cdef list renamed = []
    cdef Py_ssize_t count = 0
    if log.staged_batches > 0:
        return renamed
    while (
        count < segments_max and count + 1 < len(log.segments)
        and (<Segment>log.segments[count + 1]).base_offset <= log.log_start_offset
    ):
        segment = log.segments[count]
        try:
            renamed += mark_deleted(log.directory, segment.base_offset)
        except OSError as error:
            if count == 0:
                raise
            logger.warning("old segment stays for now", extra=facts(path=segment.path, reason=error))
            break
        drop_flushed_with(log, segment)
        segment.close()
        count += 1
    del log.segments[:count]
    return renamed


cdef int drop_flushed_with(Log log, Segment segment) except -1:
    # Only what lies behind the recovery point counts as unflushed.
    if segment.base_offset >= log.recovery_point:
        drop_unflushed(log, segment.size)
    return 0


def mark_deleted(directory, int64_t base_offset):
    """Rename a segment's files so that no start loads them again; their new paths. Raises OSError if its records cannot be
    renamed; another file that cannot is left for the next start."""
    renamed = []
    for suffix in SEGMENT_SUFFIXES:
        path = f"{directory}/{base_offset:020d}{suffix}"
        try:
            os.rename(path, path + DELETED)
        except FileNotFoundError:
            continue
        except OSError as error:
            if not renamed:
                raise
            logger.warning("file of a deleted segment stays", extra=facts(path=path, reason=error))
            continue
        renamed.append(path + DELETED)
    return renamed


def retention_start_offset(Log log not None, int64_t high_watermark, int64_t now_ms):
    """Where the log may begin by retention.ms and retention.bytes: an offset for delete_records_before; log_start_offset where
    nothing is old or large enough. Whole segments below `high_watermark`, oldest first (Kafka's deleteOldSegments). Raises
    StorageError."""
    cdef Segment segment
    cdef LogConfig config = log.config
    cdef int64_t start = log.log_start_offset, end, surplus, newest
    cdef Py_ssize_t i
    if not config.delete:
        return start
    surplus = log.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else 0
    for i in range(len(log.segments)):
        segment = <Segment>log.segments[i]
        end = (<Segment>log.segments[i + 1]).base_offset if i + 1 < len(log.segments) else log.written_end_offset
        # Compaction leaves empty segments; the last one is where the next record goes.
        if (segment.size == 0 and i + 1 == len(log.segments)) or end > high_watermark:
            break
        segment.ensure_timestamps()
        newest = segment.max_timestamp
        if newest < 0:
            newest = int(os.stat(segment.path).st_mtime * 1000)
        surplus -= segment.size
        if not (config.retention_ms >= 0 and now_ms - newest > config.retention_ms) and not (
            config.retention_bytes >= 0 and surplus >= 0
        ):
            break
        if end > start:
            start = end
    return start


# --- flushing and closing


def begin_flush(Log log not None):
    """What has to be brought to disk so that the recovery point may move to what is written now: a FlushJob, or None if it is
    there already. Raises StorageError if the indexes cannot be written."""
    cdef Segment segment
    if log.recovery_point >= log.written_end_offset or log.offline is not None:
        # Deleting records moves the recovery point past what was never flushed, and never needs to be. What a roll wrote of the
        # batches that are staged counts still: it may be undone.
        if log.staged_batches == 0 or log.offline is not None:
            drop_unflushed(log, log.unflushed_bytes)
            log.totals.dirty.discard(log)
        return None
    job = begin_job(log, log.recovery_point, log.flushed_snapshot)
    for segment in log.segments[log.segment_number(log.recovery_point):]:
        job.paths += [
            segment.path, segment.offsets.path, segment.times.path,
            txn_index.path_of(log.directory, segment.base_offset),
        ]
        if (segment.base_offset >= log.recovery_point or log.syncs.names_are_due) and not job.directories:
            add_new_files(log, job)
    job.epochs = encode_pairs(log.epochs.entries)
    return job


cdef object begin_job(Log log, int64_t from_offset, int64_t snapshot):
    """A job for everything from `from_offset` up to what is written now, whose producer state takes the place of that at `snapshot`.
    Writes the index entries that wait in memory. Raises StorageError."""
    cdef Segment segment
    job = FlushJob(log, log.written_end_offset, log.generation, log.unflushed_bytes)
    for segment in log.segments[log.segment_number(from_offset):]:
        try:
            segment.offsets.write()
            segment.times.write()
        except OSError as error:
            raise StorageError(f"cannot write the indexes of {segment.path}: {error.strerror}") from error
    job.snapshot = log.producers.encode(committed=True)
    if snapshot not in base_offsets(log):
        job.superseded_snapshot = snapshot
    return job


def begin_note(Log log not None):
    """What has to be written, without a sync, so that the written point may move to what is written now: a FlushJob. Raises
    StorageError if the indexes cannot be written."""
    log.unnoted_bytes = 0
    job = begin_job(log, log.written_point, -1)
    job.slot = (log.noted_slot + 1) % noted_state.SLOTS
    job.forgets_other = log.noted_slot < 0
    return job


def complete_note(Log log not None, job):
    """Take the result of a FlushJob whose `note` has run: the written point moves, unless that failed."""
    if log.closed:
        return
    if job.error is not None or job.generation != log.generation:
        log.noted_slot = -1
    elif log.written_point < job.end_offset:
        log.written_point = job.end_offset
        log.noted_slot = job.slot


def complete_flush(Log log not None, job):
    """Take the result of a FlushJob that has run: the recovery point moves. Raises StorageError if it failed."""
    if log.closed:
        return
    notice_failed_sync(log)
    if job.error is not None:
        raise StorageError(f"cannot flush {log.directory}: {job.error.strerror}") from job.error
    if job.generation != log.generation:
        return
    log.syncs.names_synced = max(log.syncs.names_synced, job.names)
    drop_unflushed(log, job.unflushed_bytes)
    if log.recovery_point < job.end_offset:
        log.recovery_point = job.end_offset
    if log.written_point < job.end_offset:
        log.written_point = job.end_offset
    if log.synced_end_offset < job.end_offset:
        log.synced_end_offset = job.end_offset
    if log.recovery_point == log.written_end_offset and log.unflushed_bytes == 0:
        # Else a roll wrote some of what is staged: with that the log came to the dirty ones already, and no more.
        log.totals.dirty.discard(log)
    log.last_flush_ms = max(log.last_flush_ms, log.last_append_ms, <int64_t>job.begun_ms)
    log.flushed_snapshot = job.end_offset


def notice_failed_sync(Log log not None):
    """Where a sync of the log failed, in any thread, it goes offline for good, and this raises StorageError: what was to be brought to
    disk may be gone, and a later sync does not report it again (storage.syncs). The recovery point stays."""
    if log.syncs.error is None:
        return
    if not log.sync_failed:
        log.sync_failed = True
        log.mark_offline(f"a sync failed: {log.syncs.error}")
    raise StorageError(f"cannot sync {log.directory}: {log.syncs.error.strerror}") from log.syncs.error


def begin_sync(Log log not None):
    """What flush.messages asks for: a SyncJob of the data files with something new, for a worker. Indexes and producer state can
    be made again, so the recovery point stays, and a crash reads what was synced."""
    cdef Segment segment
    job = SyncJob(log.syncs, log.written_end_offset, log.generation)
    for segment in log.segments[log.segment_number(log.synced_end_offset):]:
        job.paths.append(segment.path)
        if (segment.base_offset >= log.synced_end_offset or log.syncs.names_are_due) and not job.directories:
            add_new_files(log, job)
    return job


cdef int add_new_files(Log log, job) except -1:
    """A file is not there after a power loss until its directory is synced; nor is a directory, and what names the topic."""
    job.paths.append(f"{log.directory}/{PARTITION_METADATA}")
    job.directories += [log.directory, os.path.dirname(log.directory)]
    job.names = log.syncs.names_changed
    return 0


def complete_sync(Log log not None, job):
    """Take the result of a SyncJob that has run. Raises StorageError if it failed, or any sync of the log before: then the log is
    offline."""
    notice_failed_sync(log)
    if job.error is not None:
        log.mark_offline(f"a sync failed: {job.error}")
        raise StorageError(f"cannot sync {log.directory}: {job.error.strerror}") from job.error
    log.syncs.names_synced = max(log.syncs.names_synced, job.names)
    if job.generation == log.generation and log.synced_end_offset < job.end_offset:
        log.synced_end_offset = job.end_offset


def mark_closed(Log log not None):
    """Refuse every operation and let go of the files; slices that are in use stay readable."""
    cdef Segment segment
    log.offline = "closed"
    log.closed = True
    for segment in log.segments:
        segment.close()
    drop_unflushed(log, log.unflushed_bytes)
    log.totals.dirty.discard(log)


def complete_active(Log log not None):
    """Give the active segment the index entries of a completed one, as Kafka does when it stops; raises OSError, StorageError."""
    refuse_staged(log)
    log.active.complete()


def close(Log log not None):
    """Complete the files of a log and let go of them; what is written is not necessarily on disk (see begin_flush). Raises
    OSError, StorageError."""
    cdef Segment segment
    refuse_staged(log)
    if log.offline is None:
        complete_active(log)
        if log.log_end_offset > log.log_start_offset and not os.path.exists(
            snapshots.path_of(log.directory, log.log_end_offset)
        ):
            # Where a flush had nothing to do, and so wrote none. A start after a clean stop asks for no more than this.
            snapshots.write(log.directory, log.log_end_offset, log.producers.encode(), sync=True)
    for segment in log.segments:
        segment.close()
    log.offline = "closed"
    log.closed = True
    log.totals.dirty.discard(log)
