"""The allowed operations of a connection's client, for Produce and Fetch: masks by the topic as the request names it.

Kept for one epoch of the ACLs, at most MASKS_MAX of them on a connection.
"""

from libc.stdint cimport int16_t, int64_t

from broker_cy.connections.answers cimport AnswerQueue, ServerCore

cdef enum:
    MASKS_MAX = 1024
    MASK_BITS = 16                           # of operations
    READ = 1 << 3
    WRITE = 1 << 4

cdef class Rights:
    cdef ServerCore server
    cdef readonly str principal
    cdef str host
    cdef object authorizer          # None until its ACLs count; from then on they do
    cdef int64_t epoch
    cdef readonly dict masks                 # name, or 16 bytes of id -> mask, and above it the operations that were noted
    cdef int cluster_mask           # -1: not asked yet

    cdef int renew(self) except -1
    cdef int of_topic(self, bytes name, int wanted) except -1
    cdef int of_topic_id(self, bytes topic_id, int wanted) except? -2
    cdef int saw(self, bytes key, int found, int wanted, str name) except -1
    cdef bint may_act_for_cluster(self) except *
    cdef bint may_write_as(self, str transactional_id) except *
    cdef int refused(self, int16_t key, int operation, bytes topic, bint by_id) except -1

cdef Rights rights_of(AnswerQueue connection)
