"""Committed offsets in the format of `__consumer_offsets` (OffsetCommitKey and OffsetCommitValue)."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t


# One committed offset. Holds no object but a string, so the garbage collector has nothing to visit: a
# coordinator may hold many of them.
@cython.final
@cython.no_gc
cdef class CommittedOffset:
    cdef readonly int64_t committed_offset
    cdef readonly int64_t commit_timestamp_ms
    cdef readonly int64_t expire_timestamp_ms       # -1: by the broker's retention
    cdef readonly int64_t record_offset             # of the record in the log; -1: unknown
    cdef readonly int32_t leader_epoch              # -1: not given
    cdef readonly str metadata
    cdef uint8_t _topic_id[16]                      # all zero: not given
