from libc.stdint cimport int64_t

from bench.measuring.histogram cimport Histogram


cdef class Deliveries:
    cdef readonly int64_t acked
    cdef readonly int64_t acked_bytes           # of keys and values
    cdef readonly int64_t errors
    cdef readonly object first_error            # str | None
    cdef readonly Histogram latency             # ns from due, since take_latency
    cdef int64_t key_bytes


cdef class Delivery:
    cdef Deliveries owner
    cdef int64_t due_ns


cdef class Arrivals:
    cdef readonly int64_t records
    cdef readonly int64_t bytes                 # of keys and values
    cdef readonly int64_t errors
    cdef readonly object first_error            # str | None
    cdef readonly Histogram end_to_end          # ns from due
    cdef bint stamps
    cdef int64_t key_bytes
