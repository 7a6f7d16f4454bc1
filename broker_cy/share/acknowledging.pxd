from libc.stdint cimport int64_t

from broker_cy.share.share_partition cimport SharePartition

cpdef object acknowledge(SharePartition partition, str member_id, list batches, int64_t now_ms)
cpdef object release(SharePartition partition, str member_id)
cpdef object expire(SharePartition partition, int64_t now_ms)
cpdef bint written(SharePartition partition, write) except -1
cpdef bint failed(SharePartition partition, write) except -1
