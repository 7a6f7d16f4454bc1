from libc.stdint cimport int32_t, int64_t

from broker_cy.storage.producer_state cimport ProducerState
from broker_cy.storage.segment cimport Segment

# Where a scan ended: `position` is the end of the last good batch.
cdef class ScanResult:
    cdef readonly int64_t position
    cdef readonly int64_t next_offset       # after the last good batch
    cdef readonly int64_t batches
    cdef readonly object problem            # None, or what is wrong at `position` (str)
