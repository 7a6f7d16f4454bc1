"""The answer of one Fetch request: it reads, waits for more records or for the disk, and is sent."""

cimport cython
from libc.stdint cimport int32_t, int64_t

from broker_cy.replica.flush_group cimport DelayedFetch
from broker_cy.connections.fetch_read cimport FetchRead


@cython.final
cdef class FetchReply(FetchRead):
    cdef int32_t max_bytes
    cdef int32_t min_bytes
    cdef bint asks                      # a fetch that FollowerSilence takes for unanswered
    cdef bint answered
    cdef int32_t max_wait_ms
    cdef int64_t deadline_ms            # of the wait, on coarse_ms
    cdef int cold_lookups               # how often that happened
    cdef bint from_disk                 # a worker read something for it
    cdef int64_t missing_bytes          # still to be written before min_bytes is reached
    cdef DelayedFetch waiting           # ConsumerWait or StandingWait; None: it does not wait
    cdef object timer

    cdef int asks_no_more(self) except -1
    cdef int leave(self) except -1
    cdef int64_t read_all(self) except -1
    cdef int settle(self) except -1
    cdef int stand(self) except -1
    cdef int in_worker(self, function, list what, then) except -1
    cdef int await_opening(self) except -1
    cdef int answer(self) except -1
    cdef Py_ssize_t answer_bytes(self) except -1
    cdef int give_nothing(self) except -1
    cdef int count_throttled(self, throttle) except -1
    cdef int count(self, bint cold) except -1
    cdef list unchecked_parts(self)
    cdef int read_again(self) except -1
    cdef int look_again(self) except -1
    cdef int try_again(self) except -1
