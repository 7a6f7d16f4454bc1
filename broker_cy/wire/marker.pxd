from libc.stdint cimport int16_t, int32_t, int64_t

cdef enum:
    MARKER_BYTES = 78

cdef bytes marker_batch(int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch, bint commit, int64_t timestamp_ms,
                        bint log_append_time)
