from libc.stdint cimport int64_t

from broker_cy.share.runs cimport Run
from broker_cy.share.share_partition cimport SharePartition

cdef enum:
    # Kafka's ids of acknowledge types.
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4

cpdef object acknowledge(SharePartition partition, str member_id, list batches, int64_t now_ms)
cpdef object release(SharePartition partition, str member_id)
cpdef object expire(SharePartition partition, int64_t now_ms)
cpdef bint written(SharePartition partition, write) except -1
cpdef bint failed(SharePartition partition, write) except -1
cdef int begin_change(SharePartition partition, Run* run, int kind, list changed) except -1
cdef int add_changed(list changed, const Run* run) except -1
cdef object made_write(SharePartition partition, list changed, bint is_timeout)
