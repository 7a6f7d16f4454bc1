from libc.stdint cimport int64_t, uint64_t


cdef class Histogram:
    cdef uint64_t* counts                # BUCKETS of them
    cdef readonly uint64_t count         # recorded values, without negative ones
    cdef readonly uint64_t negative      # values below zero: a clock error, counted and never clamped into a bucket
    cdef readonly int64_t highest
    cdef void record(self, int64_t value) noexcept nogil
