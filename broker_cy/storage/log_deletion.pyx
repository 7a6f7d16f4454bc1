"""Deleting the old records of a log: moving its start, and removing the segments before it.

These functions change the C attributes of a log, as friends of its class. They are not on the data path.
"""

import logging
import os

from libc.stdint cimport int64_t

from broker_cy.core.logs import facts
from broker_cy.storage.log cimport Log
from broker_cy.storage.log_config cimport LogConfig
from broker_cy.storage.segment cimport Segment

from broker_cy.storage.errors import OffsetOutOfRange
from broker_cy.storage.segment_files import DATA_SUFFIXES, SEGMENT_SUFFIXES

logger = logging.getLogger(__name__)

DELETED = ".deleted"
# More than a log can have.
SEGMENTS_ANY = 1 << 60


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
        log.drop_unflushed(segment.size)
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


def remove_segment(directory, int64_t base_offset):
    """Remove a segment's files, except the producer state taken at its base offset; raises OSError."""
    for suffix in DATA_SUFFIXES:
        try:
            os.unlink(f"{directory}/{base_offset:020d}{suffix}")
        except FileNotFoundError:
            continue
