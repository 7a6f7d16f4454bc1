from libc.stdint cimport int64_t, uint8_t

from bench.wire.connections cimport Conn, Template
from bench.wire.end_to_end cimport Arrivals, DueTimes
from bench.measuring.histogram cimport Histogram
from bench.wire.replies cimport Verdict, View
from bench.wire.schedule cimport Schedule
from bench.wire.transfer cimport Transfer


cdef class Driver(Transfer):
    cdef readonly int64_t responses, bytes, records
    cdef readonly Histogram latency, lateness
    cdef readonly double seconds, cpu_seconds
    # one run
    cdef Schedule schedule
    cdef bint check_crc
    cdef int depth
    cdef double first           # number of the schedule's first request
    cdef int64_t asked          # requests of an open loop until its end; `total` is lower when it is stopped
    cdef int64_t stop_limit_ns
    cdef int64_t start_ns, deadline_ns, last_answer_ns, ended_ns, look_ns, scan_ns, polled_ns, stop_ns
    # shared with other threads
    cdef int64_t stopping
    cdef DueTimes due_times
    cdef Arrivals arrivals
    cdef Histogram even, odd    # latency of alternate intervals: one is recorded to, the other is ready to be taken
    cdef bint is_odd
    cdef int64_t sample_ready, next_sample_ns, sample_ns
    cdef int64_t sampled[4]     # records, bytes, responses, errors when the ready interval ended
    cdef int64_t reported[4]        # the same for the previous interval

    cdef int _loop(self, int64_t until) noexcept nogil
    cdef void _look(self, int64_t now) noexcept nogil
    cdef int _top_up(self, Conn* conn) noexcept nogil
    cdef int64_t _release_due(self) noexcept nogil
    cdef int64_t _issue_released(self, Conn* conn, int64_t held_until) noexcept nogil
    cdef int64_t _due_ns(self, int64_t number) noexcept nogil
    cdef void _flushed(self, Conn* conn) noexcept nogil
    cdef int _receive(self, Conn* conn) noexcept nogil
    cdef int _receive_once(self, Conn* conn) noexcept nogil
    cdef int _answer(self, Conn* conn, const uint8_t* p, Py_ssize_t size) noexcept nogil
    cdef void _produced(self, Conn* conn, Template* template, int64_t due_ns, View* view, Verdict* v) noexcept nogil
    cdef void _fetched(self, Conn* conn, Template* template, View* view, Verdict* verdict) noexcept nogil
    cdef void _record(self, int64_t latency_ns) noexcept nogil
