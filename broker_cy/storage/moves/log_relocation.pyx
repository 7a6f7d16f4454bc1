"""The change of the directory of a log, once a copy of its files is complete in the other one.

These functions change the C attributes of a log, as friends of its class. They are not on the data path.
"""

from libc.stdint cimport int64_t

from broker_cy.storage.index cimport TimeIndex
from broker_cy.storage.index_file cimport IndexFile
from broker_cy.storage.log cimport Log
from broker_cy.storage.segment cimport Segment

from broker_cy.storage.syncs import LogSyncs


def relocate(Log log not None, directory, int64_t synced_end_offset):
    """Let the log use the files in `directory` from now on: the same segments, byte for byte, with complete indexes. Nothing may be
    staged. `synced_end_offset`: the records before it are on the disk of the new directory, indexes and producer state need not be.

    Readers keep the files that they have open. The offsets, producers and epochs in memory stay as they are; the caller writes the
    epochs. The result of a flush or sync that is under way is ignored (it was of the old files).
    """
    cdef Segment old, new
    cdef list segments = []
    cdef int64_t synced_base = log.log_start_offset     # of the newest segment whose beginning is synced
    log.refuse_staged()
    for old in log.segments:
        new = Segment(directory, old.base_offset, log.open_files, old.size, True, old.created_ms, old.index_interval_bytes)
        new.unverified = list(old.unverified)
        new.unverified_bytes = old.unverified_bytes
        new.bytes_since_index = old.bytes_since_index
        new.max_timestamp = old.max_timestamp
        new.max_timestamp_offset = old.max_timestamp_offset
        new.rolling_timestamp = old.rolling_timestamp
        new.jitter_draw = old.jitter_draw
        take_index(old.offsets, new.offsets)
        take_time_index(old.times, new.times)
        segments.append(new)
        if old.base_offset <= synced_end_offset:
            synced_base = old.base_offset
    for old in log.segments:
        old.close()
    log.segments = segments
    log.active = segments[len(segments) - 1]
    log.directory = directory
    log.syncs = LogSyncs(directory)
    log.epochs.directory = directory
    log.producers.directory = directory
    log.generation += 1
    # The new directory has no producer state of a flush or note; a start finds that of the segments.
    log.recovery_point = max(log.log_start_offset, min(log.recovery_point, synced_base))
    log.synced_end_offset = max(log.log_start_offset, min(log.synced_end_offset, synced_end_offset))
    log.written_point = log.recovery_point
    log.noted_slot = -1
    log.flushed_snapshot = -1
    if log.recovery_point < log.written_end_offset:
        log.totals.dirty.add(log)
    log.drop_hints()


cdef int take_index(IndexFile old, IndexFile new) except -1:
    """Let `new` know its file, which the loop must not read for that. Nothing is pending in `old`."""
    if old.pending_count == 0:
        new.written = old.written
        new.last_key = old.last_key
    return 0


cdef int take_time_index(TimeIndex old, TimeIndex new) except -1:
    take_index(old, new)
    if new.written >= 0:
        new.last_timestamp = old.last_timestamp
        new.last_offset = old.last_offset
    return 0
