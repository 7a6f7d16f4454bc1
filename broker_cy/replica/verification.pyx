"""Verification of transactional batches (KIP-890): before the first batch of a transaction is appended to a partition, the
transaction coordinator must confirm that the partition is in the transaction.

Otherwise a late batch, which arrives after its transaction has ended, would open a transaction that never ends. The rules, and the
order of errors, are those of Kafka's UnifiedLog and ProducerAppendInfo.
"""

from libc.stdint cimport int16_t, int32_t, int64_t

from broker_cy.storage.producer_state cimport (
    PRODUCER_INVALID_EPOCH, PRODUCER_INVALID_TXN_STATE, PRODUCER_OUT_OF_ORDER, Producer, ProducerState,
)
from broker_cy.wire.batch cimport ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BatchHeader

from broker_cy.core.errors import ErrorCode


cdef class Verification:
    pass


cdef class Verifications:
    def __cinit__(self):
        self.entries = {}

    cdef object start(self, ProducerState producers, int64_t producer_id, int16_t epoch, int32_t sequence, bint adds):
        """Start to verify a producer's transaction. Returns a Verification; None if the transaction is open, so that no
        verification is needed; or ErrorCode.INVALID_PRODUCER_EPOCH. `sequence` is that of the batch's first record, 0 for a
        coordinator's.
        """
        cdef Producer* producer = producers.find(producer_id)
        cdef Verification entry
        if producer != NULL:
            if epoch < producer.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if producer.txn_first_offset >= 0 and producer.epoch == epoch:
                return None
        entry = self.entries.get(producer_id)
        if entry is None:
            if len(self.entries) >= VERIFICATIONS_MAX:
                del self.entries[next(iter(self.entries))]
            entry = self.entries[producer_id] = Verification.__new__(Verification)
            entry.lowest_sequence = sequence
            entry.epoch = epoch
            entry.adds = adds
        elif epoch > entry.epoch or (epoch == entry.epoch and sequence < entry.lowest_sequence):
            entry.epoch = epoch
            entry.lowest_sequence = sequence
        return entry

    cdef int end(self, BatchHeader* header) except -1:
        """End the producer's verification, because a transactional batch was staged.

        From transaction.version 2 on, a marker of the previous transaction does not end it: the marker has the epoch that the next
        transaction uses.
        """
        cdef Verification entry = self.entries.get(header.producer_id)
        if entry is None or (entry.adds and header.attributes & ATTRIBUTE_CONTROL and header.producer_epoch == entry.epoch):
            return 0
        del self.entries[header.producer_id]
        return 0


cdef int16_t judge(Verifications verifications, ProducerState producers, BatchHeader* header, Verification verification,
                   int16_t status, bint required) except? -1:
    """The status of ProducerState.check combined with the state of the transaction; `verification` came with the batch."""
    cdef Verification entry = None
    cdef Producer* producer
    if status == PRODUCER_INVALID_EPOCH:
        return status
    if verifications is not None:
        entry = verifications.entries.get(header.producer_id)
    if (required and header.attributes & ATTRIBUTE_TRANSACTIONAL and (entry is None or entry is not verification)
            and not producers.is_open(header.producer_id, header.producer_epoch)):
        return PRODUCER_INVALID_TXN_STATE
    if entry is not None and header.base_sequence >= 0:
        producer = producers.find(header.producer_id)
        # If the producer's epoch grows with each transaction, everything that it wrote with this epoch is known here.
        if entry.adds and header.base_sequence != 0 and (producer == NULL or producer.count == 0):
            return PRODUCER_OUT_OF_ORDER
        if header.base_sequence > entry.lowest_sequence:
            return PRODUCER_OUT_OF_ORDER
    return status
