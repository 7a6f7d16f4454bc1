"""Ending a log at an offset, or beginning it again at one, and loading the producer state that belongs to its end.

These functions change the C attributes of a log, as friends of its class. They are not on the data path.
"""

import logging

from libc.stdint cimport int64_t

from broker_cy.core.logs import facts
from broker_cy.storage.log cimport Log
from broker_cy.storage.segment cimport Segment
from broker_cy.wire.batch cimport BatchHeader

from broker_cy.core.errors import WireError
from broker_cy.storage import noted_state, recovery, snapshots, txn_index
from broker_cy.storage.atomic import read_whole, sync_directory
from broker_cy.storage.errors import OffsetOutOfRange
from broker_cy.storage.log_deletion import remove_segment

logger = logging.getLogger(__name__)

cdef int64_t OFFSET_ANY = 0x7FFFFFFFFFFFFFFF


def truncate_to(Log log not None, int64_t offset, int64_t now_ms, remove=None):
    """Drop all records at or after `offset`; returns False without such records. For a follower whose leader has other records.

    A batch that contains `offset` is dropped as a whole, and the log then ends at the start of that batch. No file is synced: the
    next flush or sync of the log includes the file that was cut.
    `remove(directory, base_offset)` takes away the files of a segment, see log_deletion.mark_deleted; without it they are removed
    immediately, which takes long if they are large. Raises OffsetOutOfRange below the log start offset, OSError, StorageError.
    """
    cdef Segment segment
    cdef BatchHeader header
    cdef int64_t position = 0
    log.refuse_staged()
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
        log.drop_unflushed(segment.size)
        segment.close()
        (remove or remove_segment)(log.directory, segment.base_offset)
    segment = <Segment>log.segments[len(log.segments) - 1]
    log.active = segment
    # Slices that are not sent yet would be sent with the next appended records.
    segment.cuts += 1
    segment.was_cut = True
    if segment.locate(offset, &position, &header):
        offset = max(min(offset, <int64_t>header.base_offset), log.log_start_offset)
        log.drop_unflushed(segment.size - position)
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

    Raises OSError, StorageError; then the log is offline, because it may have lost a part of its segments. The next start serves
    the rest of it.
    """
    cdef Segment segment, fresh
    cdef int64_t left = log.written_end_offset
    log.refuse_staged()
    log.generation += 1
    fresh = Segment(log.directory, offset, log.open_files, 0, False, index_interval_bytes=log.config.index_interval_bytes)
    try:
        # From the newest to the oldest: a crash leaves a valid log, which is behind its leader again.
        while log.segments:
            segment = log.segments.pop()
            left = min(left, segment.base_offset)
            log.drop_unflushed(segment.size)
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
        # The removed segments are no damage: the leader has deleted their records.
        log.log_end_offset = log.written_end_offset = left
        log.synced_end_offset = min(log.synced_end_offset, left)
        log.recovery_point = min(log.recovery_point, left)
        log.mark_offline(f"cannot begin the log again at offset {offset}: {error}", is_end=True)
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
    cdef set strays = set(snapshot_offsets) - log.base_offsets()
    log.flushed_snapshot = -1
    for offset in sorted(strays):
        if log.flushed_snapshot >= 0 and offset <= log.written_end_offset:
            snapshots.remove(log.directory, log.flushed_snapshot)
        if offset <= log.written_end_offset:
            log.flushed_snapshot = offset
    return 0
