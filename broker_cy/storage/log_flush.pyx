"""Flushing, syncing and closing a log: what a worker has to write, and the change of the log once that is done.

These functions change the C attributes of a log, as friends of its class. They are not on the data path.
"""

import os

from libc.errno cimport ENOENT
from libc.stdint cimport int64_t

from broker_cy.storage.log cimport Log
from broker_cy.storage.segment cimport Segment

from broker_cy.storage import noted_state, snapshots, txn_index
from broker_cy.storage.checkpoints import encode_pairs
from broker_cy.storage.data_directory import PARTITION_METADATA
from broker_cy.storage.errors import StorageError
from broker_cy.storage.flush_job import FlushJob
from broker_cy.storage.sync_job import SyncJob


def begin_flush(Log log not None):
    """A FlushJob for the files to sync before the recovery point may move to the current written end offset; None if it
    has that offset already. Raises StorageError if the indexes cannot be written."""
    cdef Segment segment
    cdef int64_t start
    if log.recovery_point >= log.written_end_offset or log.offline is not None:
        # Deleting records moves the recovery point past bytes that were never flushed and never need to be. Bytes of staged batches
        # that a roll wrote still count, since they may be undone.
        if log.staged_batches == 0 or log.offline is not None:
            log.drop_unflushed(log.unflushed_bytes)
            log.totals.dirty.discard(log)
        return None
    # A deletion moves the recovery point past records that were never synced. Their segments may still be present, and a power loss
    # before the log start offset is checkpointed may make the log begin with them again: then they are to be complete.
    start = min(log.recovery_point, log.synced_end_offset)
    job = begin_job(log, start, log.flushed_snapshot)
    for segment in log.segments[first_to_sync(log, start):]:
        job.paths += [
            segment.path, segment.offsets.path, segment.times.path,
            txn_index.path_of(log.directory, segment.base_offset),
        ]
        if (segment.base_offset >= start or log.syncs.names_are_due) and not job.directories:
            add_new_files(log, job)
    job.epochs = encode_pairs(log.epochs.entries)
    return job


cdef Py_ssize_t first_to_sync(Log log, int64_t start) except -1:
    """Number of the first segment that a sync of all records from the offset `start` on has to include."""
    cdef Py_ssize_t number = log.segment_number(start)
    if number > 0 and (<Segment>log.segments[number]).base_offset == start and (<Segment>log.segments[number - 1]).was_cut:
        # It was cut at `start`, where the log then began a segment. If the power is lost, its former records come back, and nothing
        # would check them behind a recovery point.
        number -= 1
    return number


cdef object begin_job(Log log, int64_t from_offset, int64_t snapshot):
    """A FlushJob for everything from `from_offset` up to the written end offset, whose producer state replaces that at `snapshot`.
    Writes the index entries that wait in memory. Raises StorageError."""
    cdef Segment segment
    job = FlushJob(log, log.syncs, log.written_end_offset, log.generation, log.unflushed_bytes)
    for segment in log.segments[log.segment_number(from_offset):]:
        try:
            segment.offsets.write()
            segment.times.write()
        except OSError as error:
            raise StorageError(f"cannot write the indexes of {segment.path}: {error.strerror}") from error
    job.snapshot = log.producers.encode(committed=True)
    if snapshot not in log.base_offsets():
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
    if job.syncs is not log.syncs:
        return      # of the files in the directory from which the log was moved
    if job.error is not None:
        raise StorageError(f"cannot flush {log.directory}: {job.error.strerror}") from job.error
    if job.generation != log.generation:
        return
    refuse_missing(log, job)
    log.syncs.names_synced = max(log.syncs.names_synced, job.names)
    log.drop_unflushed(job.unflushed_bytes)
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
    for segment in log.segments[first_to_sync(log, log.synced_end_offset):]:
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
    if job.syncs is not log.syncs:
        return      # of the files in the directory from which the log was moved
    if job.error is not None:
        log.mark_offline(f"a sync failed: {job.error}")
        raise StorageError(f"cannot sync {log.directory}: {job.error.strerror}") from job.error
    refuse_missing(log, job)
    log.syncs.names_synced = max(log.syncs.names_synced, job.names)
    if job.generation == log.generation and log.synced_end_offset < job.end_offset:
        log.synced_end_offset = job.end_offset


cdef int refuse_missing(Log log, job) except -1:
    """Take the log offline and raise StorageError if a file with records of it, which a job had to sync, was removed. Its other files
    may be missing, and a segment of it that was deleted meanwhile."""
    cdef Segment segment
    if not job.missing or job.generation != log.generation:
        return 0
    for segment in log.segments:
        if segment.path in job.missing and not os.path.exists(segment.path):
            log.mark_offline(f"{segment.path} was removed")
            raise StorageError(f"cannot sync {segment.path}: it was removed") from FileNotFoundError(
                ENOENT, os.strerror(ENOENT), segment.path)
    return 0


def mark_closed(Log log not None):
    """Refuse every operation and close the files; slices that are in use stay readable."""
    cdef Segment segment
    log.offline = "closed"
    log.closed = True
    for segment in log.segments:
        segment.close()
    log.drop_unflushed(log.unflushed_bytes)
    log.totals.dirty.discard(log)


def complete_active(Log log not None):
    """Add the index entries of a completed segment to the active one, as Kafka does when it stops; raises OSError, StorageError."""
    log.refuse_staged()
    log.active.complete()


def close(Log log not None):
    """Complete the files of a log and close them; written data is not necessarily on disk (see begin_flush). Raises OSError,
    StorageError."""
    cdef Segment segment
    log.refuse_staged()
    if log.offline is None:
        complete_active(log)
        if log.log_end_offset > log.log_start_offset and not os.path.exists(
            snapshots.path_of(log.directory, log.log_end_offset)
        ):
            # The flush had nothing to do, and so wrote no snapshot. A start after a clean stop needs only this one.
            snapshots.write(log.directory, log.log_end_offset, log.producers.encode(), sync=True)
        if log.generation > 0 and log.active.was_cut:
            # The flush had nothing to do if nothing was appended since. A start after a clean stop takes the whole file.
            log.syncs.file(log.active.path)
    for segment in log.segments:
        segment.close()
    log.offline = "closed"
    log.closed = True
    log.totals.dirty.discard(log)
