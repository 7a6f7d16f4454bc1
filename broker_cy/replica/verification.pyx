"""Verification of transactional batches (KIP-890): before the first batch of a transaction is appended to a partition, the
transaction coordinator must confirm that the partition is in the transaction.

Otherwise a late batch, which arrives after its transaction has ended, would open a transaction that never ends. The rules, and the
order of errors, are those of Kafka's UnifiedLog and ProducerAppendInfo.
"""

from libc.stdint cimport int16_t, int32_t, int64_t

from broker_cy.storage.producer_state cimport (
    NO_EPOCH, PRODUCER_INVALID_EPOCH, PRODUCER_INVALID_TXN_STATE, PRODUCER_OUT_OF_ORDER, Producer, ProducerState,
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


cdef str batch_problem(Verifications verifications, ProducerState producers, BatchHeader* header, int16_t status):
    cdef Producer* producer = producers.find(header.producer_id)
    cdef str sender = f"producer {header.producer_id} with epoch {header.producer_epoch}"
    if status == PRODUCER_INVALID_EPOCH:
        return f"{producers.name}: {sender} was fenced; the producer's current epoch is {producer.epoch}"
    if status == PRODUCER_INVALID_TXN_STATE:
        if header.attributes & ATTRIBUTE_TRANSACTIONAL:
            return f"{producers.name}: no transaction of {sender} is open in this partition, or verified for it by the coordinator"
        return f"{producers.name}: {sender} sent a batch outside of its transaction, which is open in this partition"
    return (f"{producers.name}: {sender} sent sequence {header.base_sequence}; "
            f"{expected_sequence(verifications, producer, header)} is expected")


cdef int32_t expected_sequence(Verifications verifications, Producer* producer, BatchHeader* header) except -1:
    """The base sequence that a batch with PRODUCER_OUT_OF_ORDER should have had."""
    cdef Verification entry = verifications.entries.get(header.producer_id) if verifications is not None else None
    cdef int32_t following = 0
    if producer != NULL and producer.count > 0 and producer.epoch == header.producer_epoch:
        following = (producer.batches[producer.newest].last_sequence + <int64_t>1) & 0x7FFFFFFF
    if entry is not None and (
        following == header.base_sequence or (not entry.adds and (producer == NULL or producer.epoch == NO_EPOCH))
    ):
        # The transaction has a batch with a lower sequence, which must be first.
        return entry.lowest_sequence
    return following


cdef str marker_problem(ProducerState producers, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch, int16_t status):
    cdef Producer* producer = producers.find(producer_id)
    if status == PRODUCER_INVALID_EPOCH:
        # The same epoch is too low as well, if the transaction is open.
        return (f"{producers.name}: the marker for producer {producer_id} has epoch {epoch}; "
                f"at least {max(producer.epoch, epoch + 1)} is required")
    return (f"{producers.name}: the marker for producer {producer_id} is from coordinator epoch {coordinator_epoch}; "
            f"epoch {producer.coordinator_epoch} has already written one")
