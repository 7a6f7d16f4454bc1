"""Checks of the bytes that existed when the broker started, before they are sent for the first time: a worker checks the checksums."""

from libc.stdint cimport int64_t

from broker_cy.storage.segment cimport Segment

from broker_cy.storage.recovery import verify_part

cdef enum:
    # The smallest part that is checked at once. It takes some milliseconds, and the next requests of the same consumer do not wait
    # for a worker.
    VERIFY_BYTES = 4194304


cdef tuple unverified_of(Log log, LogSlice part):
    cdef Segment segment = <Segment>part.segment
    cdef int64_t start, end
    if not segment.unverified_bytes:
        return None
    found = segment.unverified_part(part.position, part.position + part.size)
    if found is None:
        return None
    start, end = found
    return log, segment, start, max(<int64_t>(part.position + part.size), start + VERIFY_BYTES), end, log.end_of(segment)


def unverified_part(Log log not None, LogSlice part not None):
    """`unverified_of`, for Python."""
    return unverified_of(log, part)


def verify_all(list parts):
    """In a worker thread: [(log, segment, start, end of the valid part, error or None)]."""
    found = []
    for log, segment, start, stop, end, limit in parts:
        try:
            sound, damage = verify_part(segment.path, segment.base_offset, start, stop, end, limit)
        except FileNotFoundError as error:
            # Deleted or replaced meanwhile: then it is no longer read, which `note_verified` checks.
            sound, damage = start, error
        found.append((log, segment, start, sound, damage))
    return found


def note_verified(list found):
    """A worker checked segments: those that are sound are never checked again, the others' logs are offline."""
    for log, segment, start, end, damage in found:
        segment.mark_verified(start, end)
        if damage is not None and not segment.deleted:
            log.mark_offline(str(damage))
