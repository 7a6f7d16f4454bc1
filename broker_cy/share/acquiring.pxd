from libc.stdint cimport int32_t, int64_t

from broker_cy.share.read_batches cimport ReadBatches
from broker_cy.share.share_partition cimport SharePartition

cpdef list acquire(
    SharePartition partition, str member_id, bint is_record_limit, int32_t batch_size, int64_t max_records, int64_t fetch_offset,
    ReadBatches read, int64_t now_ms,
)
