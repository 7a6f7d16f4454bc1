"""What a partition knows of transactions that the coordinator was asked about, and that no batch was written for yet."""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t

from broker_cy.storage.producer_state cimport ProducerState
from broker_cy.wire.batch cimport BatchHeader

cdef enum:
    # Producers of one partition whose verification was started and not followed by a batch; the oldest is evicted first.
    VERIFICATIONS_MAX = 10000


@cython.final
cdef class Verification:
    """Kept from the question until the first batch, or a marker, is written: an answer that comes after a marker belongs to a
    transaction that is over, and finds another Verification, or none (Kafka's VerificationGuard).
    """
    cdef int32_t lowest_sequence        # of the batches that waited for it; none with a higher one goes first
    cdef int16_t epoch
    cdef bint adds                      # the coordinator was asked to add the partition (transaction.version 2)


@cython.final
cdef class Verifications:
    cdef dict entries                   # by producer id

    cdef object start(self, ProducerState producers, int64_t producer_id, int16_t epoch, int32_t sequence, bint adds)
    cdef int end(self, BatchHeader* header) except -1

cdef int16_t judge(Verifications verifications, ProducerState producers, BatchHeader* header, Verification verification,
                   int16_t status, bint required) except? -1
