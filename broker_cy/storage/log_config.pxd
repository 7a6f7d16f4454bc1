from libc.stdint cimport int32_t, int64_t

# The topic settings that storage acts on, by Kafka's names, as C fields.
cdef class LogConfig:
    cdef readonly int64_t segment_bytes
    cdef readonly int64_t segment_ms
    cdef readonly int64_t segment_jitter_ms
    cdef readonly int64_t segment_index_bytes
    cdef readonly int64_t index_interval_bytes
    cdef readonly int64_t file_delete_delay_ms
    cdef readonly int64_t flush_messages
    cdef readonly int64_t flush_ms
    cdef readonly int64_t retention_bytes
    cdef readonly int64_t retention_ms
    cdef readonly bint compact
    cdef readonly bint delete
    cdef readonly double min_cleanable_dirty_ratio
    cdef readonly int64_t min_compaction_lag_ms
    cdef readonly int64_t max_compaction_lag_ms
    cdef readonly int64_t delete_retention_ms
