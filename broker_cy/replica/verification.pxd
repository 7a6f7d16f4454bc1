"""The transactions of a partition that the coordinator was asked about, and that have no written batch yet."""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t

from broker_cy.storage.producer_state cimport ProducerState
from broker_cy.wire.batch cimport BatchHeader

cdef enum:
    # The most producers of one partition whose verification started, but no batch followed; the oldest is evicted first.
    VERIFICATIONS_MAX = 10000


@cython.final
cdef class Verification:
    """Kept from the request to the coordinator until the first batch, or a marker, is written: a response that arrives after a
    marker belongs to a transaction that has ended, and finds another Verification, or none (Kafka's VerificationGuard).
    """
    cdef int32_t lowest_sequence        # of the batches that waited for it; no batch with a higher one may be first
    cdef int16_t epoch
    cdef bint adds                      # the coordinator was asked to add the partition (transaction.version 2)


@cython.final
cdef class Verifications:
    cdef dict entries                   # by producer id

    cdef object start(self, ProducerState producers, int64_t producer_id, int16_t epoch, int32_t sequence, bint adds)
    cdef int end(self, BatchHeader* header) except -1

cdef int16_t judge(Verifications verifications, ProducerState producers, BatchHeader* header, Verification verification,
                   int16_t status, bint required) except? -1

# The problem of a batch with this status, or of a marker that ProducerState.check_marker refused.
cdef str batch_problem(Verifications verifications, ProducerState producers, BatchHeader* header, int16_t status)
cdef str marker_problem(ProducerState producers, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch, int16_t status)
