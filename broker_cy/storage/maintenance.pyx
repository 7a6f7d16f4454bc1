"""Operations on a log outside of the data path: truncation, deletion of old records, flushing, closing.

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
                     int64_t synced_offset=OFFSET_ANY, bint sync=True):
    """Load the producer state at the log end offset from the newest usable snapshot, and from the batches after it. Removes
    snapshots that are damaged or after the log's end, and syncs that; without `sync`, the next sync of the log includes it.
    `snapshot_offsets` are those in the directory, if they are known; `noted_offset` is the checkpointed written point. Raises
    OSError, StorageError.

    The transaction indexes may lack entries at or after `synced_offset`: a snapshot taken at a later offset is not used, so that
    reading the batches makes the indexes complete again.

    Batches before the log start offset that are still in a file count, too. Otherwise, if the last batch of a producer were deleted
    but not the marker after it, the state would have its epoch but no sequence, and its next batch would be out of order for good.
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
            logger.warning("removed damaged producer state", extra=facts(path=snapshots.path_of(log.directory, offset), reason=error))
            snapshots.remove(log.directory, offset)
    if lost and sync:
        # Otherwise a power loss may bring them back when the log has other records before their offsets.
        sync_directory(log.directory)
    elif lost:
        log.syncs.names_changed += 1
    if log.producers.end_offset < log.written_end_offset:
        for segment in log.segments[log.segment_number(log.producers.end_offset):]:
            recovery.replay_producers(segment, log.producers)
    log.producers.end_offset = log.written_end_offset
    log.producers.commit()
    keep_newest_stray(log, snapshot_offsets)


cdef int keep_newest_stray(Log log, snapshot_offsets) except -1:
    """Keep only the newest of the snapshots at offsets where no segment begins (each flush leaves one), as in Kafka: the others are
    useless, and the next flush replaces this one."""
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


def truncate_to(Log log not None, int64_t offset, int64_t now_ms, remove=None):
    """Drop all records at or after `offset`; returns False without such records. For a follower whose leader has other records.

    A batch that contains `offset` is dropped as a whole, and the log then ends at the start of that batch. No file is synced.
    `remove(directory, base_offset)` takes away the files of a segment, see mark_deleted; without it they are removed immediately,
    which takes long if they are large. Raises OffsetOutOfRange below the log start offset, OSError, StorageError.
    """
    cdef Segment segment
    cdef BatchHeader header
    cdef int64_t position = 0
    refuse_staged(log)
    if offset >= log.log_end_offset:
        # A leader's epoch begins at the end of its log, before it has any records. If it stayed, the next leader would ask for
        # the same truncation again and again (KAFKA-10706).
        if log.epochs.truncate_from_end(offset):
            # A batch of the same epoch has to begin it again.
            log.leader_epoch = log.mark.leader_epoch = log.epochs.latest_epoch
            log.epochs.write()
        return False
    if offset < log.log_start_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
    log.generation += 1
    while len(log.segments) > 1 and (<Segment>log.segments[len(log.segments) - 1]).base_offset > offset:
        segment = log.segments.pop()
        drop_unflushed(log, segment.size)
        segment.close()
        (remove or remove_segment)(log.directory, segment.base_offset)
    segment = <Segment>log.segments[len(log.segments) - 1]
    log.active = segment
    # Slices that are not sent yet would be sent with the next appended records.
    segment.cuts += 1
    if segment.locate(offset, &position, &header):
        offset = max(min(offset, <int64_t>header.base_offset), log.log_start_offset)
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
    # Other records may be written in place of those that the noted state describes.
    noted_state.forget(log.directory)
    log.noted_slot = -1
    reload_producers(log, -1, 0, sync=False)
    return True


def restart_at(Log log not None, int64_t offset, int64_t now_ms, remove=None):
    """Replace the log by an empty one that begins at `offset`. For a follower that is behind the log start of its leader. `remove` is
    that of truncate_to.

    Raises OSError, StorageError; then the log is offline, because it may have lost a part of its segments.
    """
    cdef Segment segment, fresh
    refuse_staged(log)
    log.generation += 1
    fresh = Segment(log.directory, offset, log.open_files, 0, False, index_interval_bytes=log.config.index_interval_bytes)
    try:
        # From the newest to the oldest: a crash leaves a valid log, which is behind its leader again.
        while log.segments:
            segment = log.segments.pop()
            drop_unflushed(log, segment.size)
            segment.cuts += 1
            segment.close()
            (remove or remove_segment)(log.directory, segment.base_offset)
        for each in snapshots.offsets(log.directory):
            snapshots.remove(log.directory, each)
        noted_state.forget(log.directory)
        fresh.create(now_ms)
        log.epochs.clear()
        log.epochs.write()
    except OSError as error:
        log.mark_offline(f"cannot begin the log again at offset {offset}: {error}")
        raise
    finally:
        log.segments = [fresh]
        log.active = fresh
    log.noted_slot = -1
    log.flushed_snapshot = -1
    log.log_start_offset = offset
    log.producers.clear(offset)
    log.recovery_point = log.synced_end_offset = log.written_point = offset
    log.syncs.names_changed += 1
    end_at(log, offset)


cdef int drop_unflushed(Log log, int64_t size) except -1:
    """Stop counting `size` bytes as unflushed, because they never need to be flushed. The count does not fall below zero, since a
    part of them may have been flushed before."""
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
    """Remove a segment's files, except the producer state taken at its base offset; raises OSError."""
    for suffix in DATA_SUFFIXES:
        try:
            os.unlink(f"{directory}/{base_offset:020d}{suffix}")
        except FileNotFoundError:
            continue


# --- deletion of old records


def delete_records_before(Log log not None, int64_t offset, int64_t now_ms, Py_ssize_t segments_max=SEGMENTS_ANY):
    """Move the log start offset up to `offset` and remove the segments that are entirely before it, at most `segments_max` of them
    (drop_old_segments removes the others).

    Returns the paths of their files, renamed to `.deleted`, for the caller to unlink later (file.delete.delay.ms). Raises
    OffsetOutOfRange above the written end offset, OSError.
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
                # The next start does it. On a full disk it is more important that this deletion frees space.
                logger.warning(
                    "could not delete old leader epochs; will retry at the next start",
                    extra=facts(path=log.directory, log_start_offset=offset, reason=error),
                )
    count = len(log.segments)
    renamed = drop_old_segments(log, segments_max)
    count -= len(log.segments)
    if offset == log.log_end_offset and log.active.size > 0:
        # All records are deleted: before the active segment can be removed, there has to be another one.
        try:
            log.begin_segment(now_ms)
        except OSError as error:
            if not renamed and not has_old_segments(log):
                raise
            logger.warning("could not replace the last segment by an empty one", extra=facts(path=log.directory, reason=error))
        renamed += drop_old_segments(log, segments_max - count)
    return renamed


def has_old_segments(Log log not None):
    """Whether a segment is entirely before the log start offset."""
    return len(log.segments) > 1 and (<Segment>log.segments[1]).base_offset <= log.log_start_offset


def drop_old_segments(Log log not None, Py_ssize_t segments_max):
    """Remove up to `segments_max` of the segments that are entirely before the log start offset; return the new paths of their
    files. Removes none while batches are staged: one of them may be the segment that a failed write returns to. Raises OSError if
    not even the first could be renamed; a later one that cannot be renamed stays until the next call."""
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
            logger.warning("could not delete an old segment; will retry", extra=facts(path=segment.path, reason=error))
            break
        drop_flushed_with(log, segment)
        segment.close()
        count += 1
    del log.segments[:count]
    return renamed


def forget_old_segments(Log log not None):
    """Let the log no longer have the segments that are entirely before its start; return their base offsets. The caller removes the
    files in this order (mark_deleted), in any thread, because a log must not have a gap at the next start. Does nothing while
    batches are staged, as drop_old_segments."""
    cdef Segment segment
    cdef list base_offsets = []
    while log.staged_batches == 0 and has_old_segments(log):
        segment = log.segments[0]
        base_offsets.append(segment.base_offset)
        drop_flushed_with(log, segment)
        segment.close()
        del log.segments[0]
    return base_offsets


cdef int drop_flushed_with(Log log, Segment segment) except -1:
    # Only bytes after the recovery point count as unflushed.
    if segment.base_offset >= log.recovery_point:
        drop_unflushed(log, segment.size)
    return 0


def mark_deleted(directory, int64_t base_offset):
    """Rename a segment's files so that no start loads them again; return their new paths. Raises OSError if the file with the
    records cannot be renamed; another file that cannot be renamed is left for the next start."""
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
            logger.warning(
                "could not rename a file of a deleted segment; will retry at the next start", extra=facts(path=path, reason=error)
            )
            continue
        renamed.append(path + DELETED)
    return renamed


def retention_start_offset(Log log not None, int64_t high_watermark, int64_t now_ms):
    """The offset at which the log may begin by retention.ms and retention.bytes, for delete_records_before; log_start_offset if
    nothing is to be deleted. Considers whole segments below `high_watermark`, oldest first (Kafka's deleteOldSegments). Raises
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
        # Compaction leaves empty segments, which may be deleted, but an empty last one is kept for the next record.
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
    """A FlushJob for what has to be synced so that the recovery point may move to the current written end offset; None if it is
    there already. Raises StorageError if the indexes cannot be written."""
    cdef Segment segment
    cdef int64_t start
    if log.recovery_point >= log.written_end_offset or log.offline is not None:
        # Deleting records moves the recovery point past bytes that were never flushed and never need to be. Bytes of staged batches
        # that a roll wrote still count, since they may be undone.
        if log.staged_batches == 0 or log.offline is not None:
            drop_unflushed(log, log.unflushed_bytes)
            log.totals.dirty.discard(log)
        return None
    # A deletion moves the recovery point past records that were never synced. Their segments may still be present, and a power loss
    # before the log start offset is checkpointed may make the log begin with them again: then they are to be complete.
    start = min(log.recovery_point, log.synced_end_offset)
    job = begin_job(log, start, log.flushed_snapshot)
    for segment in log.segments[log.segment_number(start):]:
        job.paths += [
            segment.path, segment.offsets.path, segment.times.path,
            txn_index.path_of(log.directory, segment.base_offset),
        ]
        if (segment.base_offset >= start or log.syncs.names_are_due) and not job.directories:
            add_new_files(log, job)
    job.epochs = encode_pairs(log.epochs.entries)
    return job


cdef object begin_job(Log log, int64_t from_offset, int64_t snapshot):
    """A FlushJob for everything from `from_offset` up to the written end offset, whose producer state replaces that at `snapshot`.
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
    """A FlushJob for what has to be written, without a sync, so that the written point may move to the current written end offset.
    Raises StorageError if the indexes cannot be written."""
    log.unnoted_bytes = 0
    job = begin_job(log, log.written_point, -1)
    job.slot = (log.noted_slot + 1) % noted_state.SLOTS
    job.forgets_other = log.noted_slot < 0
    return job


def complete_note(Log log not None, job):
    """Apply the result of a FlushJob whose `note` has run: the written point moves, unless that failed."""
    if log.closed:
        return
    if job.error is not None or job.generation != log.generation:
        log.noted_slot = -1
    elif log.written_point < job.end_offset:
        log.written_point = job.end_offset
        log.noted_slot = job.slot


def complete_flush(Log log not None, job):
    """Apply the result of a FlushJob that has run: the recovery point moves. Raises StorageError if it failed."""
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
        # Otherwise a roll has written some staged batches: the log has to stay in `dirty`, since it would not be added again.
        log.totals.dirty.discard(log)
    log.last_flush_ms = max(log.last_flush_ms, log.last_append_ms, <int64_t>job.begun_ms)
    log.flushed_snapshot = job.end_offset


def notice_failed_sync(Log log not None):
    """If a sync of the log failed, in any thread, take the log offline for good and raise StorageError: the data may be lost, and a
    later sync does not report that again (storage.syncs). The recovery point stays."""
    if log.syncs.error is None:
        return
    if not log.sync_failed:
        log.sync_failed = True
        log.mark_offline(f"a sync failed: {log.syncs.error}")
    raise StorageError(f"cannot sync {log.directory}: {log.syncs.error.strerror}") from log.syncs.error


def begin_sync(Log log not None):
    """A SyncJob, for a worker, of the data files with new records, as flush.messages requires. Indexes and producer state can be
    rebuilt, so the recovery point stays, and after a crash the synced records are read again."""
    cdef Segment segment
    job = SyncJob(log.syncs, log.written_end_offset, log.generation)
    for segment in log.segments[log.segment_number(log.synced_end_offset):]:
        job.paths.append(segment.path)
        if (segment.base_offset >= log.synced_end_offset or log.syncs.names_are_due) and not job.directories:
            add_new_files(log, job)
    return job


cdef int add_new_files(Log log, job) except -1:
    """Add to a job what a new file needs to survive a power loss: the sync of its directory, of the directory above, and of the
    file with the topic id."""
    job.paths.append(f"{log.directory}/{PARTITION_METADATA}")
    job.directories += [log.directory, os.path.dirname(log.directory)]
    job.names = log.syncs.names_changed
    return 0


def complete_sync(Log log not None, job):
    """Apply the result of a SyncJob that has run. Raises StorageError if it failed, or an earlier sync of the log did: then the log
    is offline."""
    notice_failed_sync(log)
    if job.error is not None:
        log.mark_offline(f"a sync failed: {job.error}")
        raise StorageError(f"cannot sync {log.directory}: {job.error.strerror}") from job.error
    log.syncs.names_synced = max(log.syncs.names_synced, job.names)
    if job.generation == log.generation and log.synced_end_offset < job.end_offset:
        log.synced_end_offset = job.end_offset


def mark_closed(Log log not None):
    """Refuse every operation and close the files; slices that are in use stay readable."""
    cdef Segment segment
    log.offline = "closed"
    log.closed = True
    for segment in log.segments:
        segment.close()
    drop_unflushed(log, log.unflushed_bytes)
    log.totals.dirty.discard(log)


def complete_active(Log log not None):
    """Add the index entries of a completed segment to the active one, as Kafka does when it stops; raises OSError, StorageError."""
    refuse_staged(log)
    log.active.complete()


def close(Log log not None):
    """Complete the files of a log and close them; written data is not necessarily on disk (see begin_flush). Raises OSError,
    StorageError."""
    cdef Segment segment
    refuse_staged(log)
    if log.offline is None:
        complete_active(log)
        if log.log_end_offset > log.log_start_offset and not os.path.exists(
            snapshots.path_of(log.directory, log.log_end_offset)
        ):
            # The flush had nothing to do, and so wrote no snapshot. A start after a clean stop needs only this one.
            snapshots.write(log.directory, log.log_end_offset, log.producers.encode(), sync=True)
    for segment in log.segments:
        segment.close()
    log.offline = "closed"
    log.closed = True
    log.totals.dirty.discard(log)
