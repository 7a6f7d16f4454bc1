"""Reading the partitions of a Fetch request, one by one, into its targets."""

from libc.stdint cimport int16_t, int32_t, int64_t

from broker_cy.connections.answers cimport Reply
from broker_cy.connections.fetch_session cimport FetchContext, FetchPartition
from broker_cy.connections.rights cimport Rights


cdef class FetchRead(Reply):
    cdef int16_t version
    cdef FetchContext context
    cdef int32_t replica_id             # of a follower; -1 from consumers
    cdef int64_t broker_epoch           # of a follower
    cdef str rack                       # of a consumer that is sent to a replica in it; None otherwise
    cdef bint acknowledged              # its acknowledgement was reported: a fetch that is read again does not report it again
    cdef bint held                      # the throttle of followers that are not in sync is exceeded
    cdef list moved                     # partitions whose high watermark that has moved; None without any
    cdef Rights rights                  # of a consumer; None if none are needed
    cdef bint read_committed
    cdef list cold                      # (path, position, size, ahead) that the last read_all found missing from memory
    cdef list unopened                  # partitions that it found not open yet; None, also if `cold` is set

# Reads one partition, or its error, into `target`. Data that is not in memory is added to `reply.cold`, and a partition that is not
# open yet to `reply.unopened`.
cdef int read_one(FetchRead reply, FetchPartition target, Py_ssize_t left, bint at_least_one) except -1
cdef int deny(FetchContext context, FetchPartition target) except -1
# Before the first fetch of a follower is read.
cdef int need_leading() except -1
