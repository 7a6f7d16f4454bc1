from libc.stdint cimport int32_t, int64_t

from bench.measuring.histogram cimport Histogram


cdef enum:
    ENTRIES_MAX = 1 << 20       # due times of all partitions, 16 bytes each
    WAITING_MAX = 1 << 16       # arrivals whose due time is not known yet, 24 bytes each


cdef struct Due:
    int64_t base_offset, due_ns


cdef struct Arrival:
    int64_t base_offset, at_ns
    int32_t partition


cdef class DueTimes:
    cdef Due* entries           # `per_partition` of them for each partition
    cdef int64_t per_partition, least_records
    cdef int partitions

    cdef void publish(self, int32_t partition, int64_t base_offset, int64_t due_ns) noexcept nogil
    cdef int64_t find(self, int32_t partition, int64_t base_offset) noexcept nogil


cdef class Arrivals:
    cdef DueTimes due_times
    cdef Arrival* waiting
    cdef int64_t first, count
    cdef readonly Histogram latency
    cdef readonly int64_t unmatched

    cdef void arrived(self, int32_t partition, int64_t base_offset, int64_t at_ns) noexcept nogil
    cdef void match(self, int64_t most, int64_t now) noexcept nogil
