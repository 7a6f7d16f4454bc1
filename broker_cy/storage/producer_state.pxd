from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from broker_cy.storage.open_list cimport OpenList
from broker_cy.wire.batch cimport BatchHeader

cdef enum:
    BATCHES_RETAINED = 5            # Kafka's NUM_BATCHES_TO_RETAIN: how far back a resend is recognized
    NO_EPOCH = -1
    NO_SEQUENCE = -1

cdef enum ProducerCheck:            # ErrorCode values
    PRODUCER_OK = 0
    PRODUCER_OUT_OF_ORDER = 45      # OUT_OF_ORDER_SEQUENCE_NUMBER
    PRODUCER_DUPLICATE = 46         # DUPLICATE_SEQUENCE_NUMBER: never sent; answer with the stored result of the first time
    PRODUCER_INVALID_EPOCH = 47     # INVALID_PRODUCER_EPOCH
    PRODUCER_INVALID_TXN_STATE = 48
    PRODUCER_COORDINATOR_FENCED = 52    # TRANSACTION_COORDINATOR_FENCED

cdef struct ProducedBatch:
    int64_t last_offset
    int64_t timestamp               # the batch's largest
    int32_t last_sequence
    int32_t offset_delta            # last offset - first offset, which is also last - first sequence

# 168 bytes per producer, and 8 in a hash table that is as full as it may be.
cdef struct Producer:
    int64_t producer_id
    int64_t txn_first_offset        # -1 while no transaction is open
    int64_t last_timestamp
    int32_t coordinator_epoch
    int16_t epoch
    uint8_t count                   # batches in the ring, 0..5
    uint8_t newest                  # index of the newest
    uint32_t generation             # of the last undo copy: at most one copy per producer and flush
    ProducedBatch batches[BATCHES_RETAINED]

cdef struct UndoEntry:
    bint existed
    bint began                      # did not exist, and a batch with sequence 0 created it
    Producer before

cdef class ProducerState:
    cdef readonly object directory
    cdef readonly object name               # topic-partition, for messages
    cdef Producer* producers
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef int32_t* table                     # open addressing: index into `producers`, -1 empty; a power of two
    cdef Py_ssize_t table_size
    cdef UndoEntry* undo
    cdef Py_ssize_t undo_count
    cdef Py_ssize_t undo_capacity
    cdef uint32_t generation
    # The state came from a snapshot, which has only the newest batch of each producer: see resends.refill_producers.
    cdef public bint newest_only
    cdef readonly int64_t end_offset        # the state includes everything before this offset
    cdef int64_t end_offset_before          # end_offset at the last commit
    # Transactions found in the log. `completed` has (first offset, marker offset) of those whose marker may still be above the high
    # watermark.
    cdef int64_t first_undecided            # smallest txn_first_offset; -1 if no transaction is open
    cdef OpenList open_transactions         # every txn_first_offset that is not -1
    cdef list completed
    cdef Py_ssize_t completed_kept          # length of `completed` at the last commit

    cdef int check(self, BatchHeader* header, int64_t* base_offset, int64_t* timestamp) noexcept
    cdef int check_marker(self, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch, int transaction_version) noexcept
    cdef bint is_open(self, int64_t producer_id, int16_t epoch) noexcept
    cdef object update(self, BatchHeader* header, const uint8_t* data, Py_ssize_t size)
    cdef int commit(self) except -1
    cdef int rollback(self) except -1
    cdef Producer* find(self, int64_t producer_id) noexcept
    cdef Producer* obtain(self, int64_t producer_id) except NULL
    cdef int rehash(self, Py_ssize_t size) except -1
    cdef int save_undo(self, BatchHeader* header) except -1
    cdef object end_transaction(self, BatchHeader* header, const uint8_t* data, Py_ssize_t size)
    cdef Producer* committed(self, Producer* producer) noexcept
    cdef int find_open(self) except -1
    cdef int forget_completed(self, int64_t high_watermark) except -1
