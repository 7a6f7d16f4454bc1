"""A log's state of the producers that write to it: epochs, sequences, the last five batches, open transactions.

The rules are those of Kafka's ProducerAppendInfo (KIP-98, KIP-360): a producer unknown to the log may start with any sequence; a new
epoch starts at sequence 0; otherwise sequences are consecutive, with 0 after 2^31-1. The file is one extension class: the table of
producers, the copies for a rollback and the open transactions change together with each batch.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from broker_cy.core.cursor cimport Cursor
from broker_cy.storage.open_list cimport add_open, first_open, remove_open, sort_open
from broker_cy.wire.batch cimport ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_BYTES, BatchHeader, parse_header

from broker_cy.core.errors import WireError

cdef enum:
    CONTROL_ABORT = 0
    CONTROL_COMMIT = 1
    EPOCH_MAX = 0x7FFF

cdef inline uint64_t mix(int64_t producer_id) noexcept nogil:
    cdef uint64_t h = <uint64_t>producer_id * <uint64_t>0x9E3779B97F4A7C15
    return h ^ (h >> 32)


cdef inline int32_t sequence_back(int32_t sequence, int32_t steps) noexcept nogil:
    """The sequence that is `steps` before `sequence`: sequences run from 0 to 2^31-1 and then wrap around."""
    return sequence - steps if sequence >= steps else <int32_t>(<int64_t>sequence - steps + 0x80000000LL)


cdef inline int32_t sequence_forward(int32_t sequence, int32_t steps) noexcept nogil:
    cdef int64_t sum = <int64_t>sequence + steps
    return <int32_t>(sum if sum <= 0x7FFFFFFF else sum - 0x80000000LL)


cdef class ProducerState:
    """Producers of one log. `check` is called before a batch is staged, `update` when it is staged, `commit` or `rollback` after
    its write succeeded or failed."""

    def __cinit__(self, directory, name=""):
        self.directory = directory
        self.name = name
        self.first_undecided = -1
        self.completed = []
        self.generation = 1

    def __dealloc__(self):
        free(self.producers)
        free(self.table)
        free(self.undo)
        free(self.open_transactions.offsets)

    def __sizeof__(self):
        """Bytes of this object including the tables it owns."""
        return (object.__sizeof__(self) + self.capacity * <Py_ssize_t>sizeof(Producer) + self.table_size * <Py_ssize_t>sizeof(int32_t)
                + self.undo_capacity * <Py_ssize_t>sizeof(UndoEntry) + self.open_transactions.capacity * <Py_ssize_t>sizeof(int64_t))

    def __len__(self):
        return self.count

    cdef Producer* find(self, int64_t producer_id) noexcept:
        cdef Py_ssize_t slot
        cdef int32_t at
        if self.table_size == 0:
            return NULL
        slot = <Py_ssize_t>(mix(producer_id) & <uint64_t>(self.table_size - 1))
        while True:
            at = self.table[slot]
            if at < 0:
                return NULL
            if self.producers[at].producer_id == producer_id:
                return &self.producers[at]
            slot = (slot + 1) & (self.table_size - 1)

    cdef int rehash(self, Py_ssize_t size) except -1:
        cdef int32_t* table
        cdef Py_ssize_t i, slot
        table = <int32_t*>malloc(<size_t>size * sizeof(int32_t))
        if table == NULL:
            raise MemoryError("no memory for producer state")
        memset(table, 0xFF, <size_t>size * sizeof(int32_t))
        for i in range(self.count):
            slot = <Py_ssize_t>(mix(self.producers[i].producer_id) & <uint64_t>(size - 1))
            while table[slot] >= 0:
                slot = (slot + 1) & (size - 1)
            table[slot] = <int32_t>i
        free(self.table)
        self.table = table
        self.table_size = size
        return 0

    cdef Producer* obtain(self, int64_t producer_id) except NULL:
        """The producer's entry, which is created if the producer is new. The pointer is valid until the next obtain, forget,
        expire or clear."""
        cdef Producer* producer = self.find(producer_id)
        cdef Producer* grown
        cdef Py_ssize_t capacity, slot
        if producer != NULL:
            return producer
        if self.count == self.capacity:
            # Grow by half: with thousands of producers, memory allocated ahead is most of what a producer costs.
            capacity = self.capacity + self.capacity // 2 if self.capacity else 4
            grown = <Producer*>realloc(self.producers, <size_t>capacity * sizeof(Producer))
            if grown == NULL:
                raise MemoryError("no memory for producer state")
            self.producers = grown
            self.capacity = capacity
        producer = &self.producers[self.count]
        memset(producer, 0, sizeof(Producer))
        producer.producer_id = producer_id
        producer.txn_first_offset = -1
        producer.last_timestamp = -1
        producer.coordinator_epoch = -1
        producer.epoch = NO_EPOCH
        self.count += 1
        if self.count * 2 > self.table_size:
            self.rehash(self.table_size * 2 if self.table_size else 8)
        else:
            slot = <Py_ssize_t>(mix(producer_id) & <uint64_t>(self.table_size - 1))
            while self.table[slot] >= 0:
                slot = (slot + 1) & (self.table_size - 1)
            self.table[slot] = <int32_t>(self.count - 1)
        return producer

    cdef int check(self, BatchHeader* header, int64_t* base_offset, int64_t* timestamp) noexcept:
        """Check a client's batch; return a ProducerCheck. For a duplicate, the out values are those of the first batch."""
        cdef Producer* producer
        cdef ProducedBatch* batch
        cdef int32_t last_sequence
        cdef int i
        if header.producer_id < 0 or self.count == 0:
            return PRODUCER_OK
        producer = self.find(header.producer_id)
        if producer == NULL:
            return PRODUCER_OK
        if header.producer_epoch < producer.epoch:
            return PRODUCER_INVALID_EPOCH
        if header.producer_epoch > producer.epoch:
            if header.base_sequence != 0 and producer.epoch != NO_EPOCH:
                return PRODUCER_OUT_OF_ORDER
        else:
            last_sequence = sequence_forward(header.base_sequence, header.last_offset_delta)
            for i in range(producer.count):
                batch = &producer.batches[i]
                if (
                    batch.last_sequence == last_sequence
                    and sequence_back(batch.last_sequence, batch.offset_delta) == header.base_sequence
                ):
                    base_offset[0] = batch.last_offset - batch.offset_delta
                    timestamp[0] = batch.timestamp
                    return PRODUCER_DUPLICATE
            last_sequence = producer.batches[producer.newest].last_sequence if producer.count > 0 else NO_SEQUENCE
            if header.base_sequence != <int64_t>last_sequence + 1 and not (header.base_sequence == 0 and last_sequence == 0x7FFFFFFF):
                return PRODUCER_OUT_OF_ORDER
        if producer.txn_first_offset >= 0 and not header.attributes & ATTRIBUTE_TRANSACTIONAL:
            return PRODUCER_INVALID_TXN_STATE
        return PRODUCER_OK

    cdef bint is_open(self, int64_t producer_id, int16_t epoch) noexcept:
        """Whether the producer has an open transaction of this epoch."""
        cdef Producer* producer = self.find(producer_id)
        return producer != NULL and producer.txn_first_offset >= 0 and producer.epoch == epoch

    cdef int check_marker(self, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch, int transaction_version) noexcept:
        """Check a transaction marker; return a ProducerCheck (OK, INVALID_EPOCH, COORDINATOR_FENCED).

        Before transaction.version 2 a marker has the epoch of the records. From 2 on it has a higher one (KIP-890). A marker with
        the same epoch is then accepted only if no transaction is open, since it repeats a marker that was written already
        (KAFKA-19999), or if the epoch is EPOCH_MAX, since there is no higher one.
        """
        cdef Producer* producer = self.find(producer_id)
        if producer == NULL:
            return PRODUCER_OK
        if epoch < producer.epoch:
            return PRODUCER_INVALID_EPOCH
        if transaction_version >= 2 and epoch == producer.epoch and producer.txn_first_offset >= 0 and epoch != EPOCH_MAX:
            return PRODUCER_INVALID_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return PRODUCER_COORDINATOR_FENCED
        return PRODUCER_OK

    cdef int save_undo(self, BatchHeader* header) except -1:
        """Save the producer's current entry for rollback, once per flush."""
        cdef Producer* producer = self.find(header.producer_id)
        cdef UndoEntry* grown
        cdef Py_ssize_t capacity
        if producer != NULL and producer.generation == self.generation:
            return 0
        if self.undo_count == self.undo_capacity:
            capacity = self.undo_capacity * 2 if self.undo_capacity else 1
            grown = <UndoEntry*>realloc(self.undo, <size_t>capacity * sizeof(UndoEntry))
            if grown == NULL:
                raise MemoryError("no memory for producer state")
            self.undo = grown
            self.undo_capacity = capacity
        self.undo[self.undo_count].existed = producer != NULL
        if producer != NULL:
            self.undo[self.undo_count].before = producer[0]
        else:
            self.undo[self.undo_count].before.producer_id = header.producer_id
            self.undo[self.undo_count].began = header.base_sequence == 0
        self.undo_count += 1
        return 0

    cdef object update(self, BatchHeader* header, const uint8_t* data, Py_ssize_t size):
        """Apply a batch of the log. Returns None, or (producer id, first offset, last offset, last stable offset) of the
        transaction that its marker aborts: an entry for the transaction index."""
        cdef Producer* producer
        cdef ProducedBatch* batch
        self.end_offset = header.base_offset + header.last_offset_delta + 1
        if header.producer_id < 0:
            return None
        if header.attributes & ATTRIBUTE_CONTROL:
            return self.end_transaction(header, data, size)
        self.save_undo(header)
        producer = self.obtain(header.producer_id)
        producer.generation = self.generation
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.count = 0
        if producer.count == 0:
            producer.newest = 0
        else:
            producer.newest = <uint8_t>((producer.newest + 1) % BATCHES_RETAINED)
        if producer.count < BATCHES_RETAINED:
            producer.count += 1
        batch = &producer.batches[producer.newest]
        batch.last_offset = header.base_offset + header.last_offset_delta
        batch.timestamp = header.max_timestamp
        batch.offset_delta = header.last_offset_delta
        # Batches that our group coordinator wrote before it set sequences have a producer id but no sequence.
        batch.last_sequence = NO_SEQUENCE
        if header.base_sequence >= 0:
            batch.last_sequence = sequence_forward(header.base_sequence, header.last_offset_delta)
        producer.last_timestamp = header.max_timestamp
        if header.attributes & ATTRIBUTE_TRANSACTIONAL and producer.txn_first_offset < 0:
            producer.txn_first_offset = header.base_offset
            add_open(&self.open_transactions, header.base_offset)
            self.first_undecided = first_open(&self.open_transactions)
        return None

    cdef object end_transaction(self, BatchHeader* header, const uint8_t* data, Py_ssize_t size):
        """Apply a control batch: only transaction markers (commit, abort) change a producer."""
        cdef Cursor cursor
        cdef Producer* producer
        cdef int16_t kind
        cdef int32_t coordinator_epoch
        cdef int64_t timestamp, first_offset, stable_offset
        if header.count == 0:
            return None             # compaction removed the marker: nothing of the transaction is left
        cursor = Cursor.over(data, size, None)
        cursor.take(BATCH_HEADER_BYTES)
        cursor.varint()             # record length
        cursor.i8()                 # attributes
        timestamp = <int64_t>(<uint64_t>header.base_timestamp + <uint64_t>cursor.varlong())
        cursor.varint()             # offset delta
        if cursor.varint() < 4:     # key length
            raise WireError("the key of a control record has no version and type")
        cursor.i16()                # key version
        kind = cursor.i16()
        if kind != CONTROL_ABORT and kind != CONTROL_COMMIT:
            return None
        if cursor.varint() < 6:     # value length
            raise WireError("the value of a transaction marker has no coordinator epoch")
        cursor.i16()                # value version
        coordinator_epoch = cursor.i32()
        self.save_undo(header)
        producer = self.obtain(header.producer_id)
        producer.generation = self.generation
        if producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.count = 0
        first_offset = producer.txn_first_offset
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        producer.txn_first_offset = -1
        if first_offset < 0:
            return None
        remove_open(&self.open_transactions, first_offset)
        self.first_undecided = first_open(&self.open_transactions)
        stable_offset = self.first_undecided if self.first_undecided >= 0 else header.base_offset + 1
        self.completed.append((first_offset, header.base_offset))
        if kind == CONTROL_COMMIT:
            return None
        return header.producer_id, first_offset, header.base_offset, stable_offset

    cdef int find_open(self) except -1:
        """Rebuild the list of open transactions."""
        cdef Py_ssize_t i
        self.open_transactions.count = 0
        for i in range(self.count):
            if self.producers[i].txn_first_offset >= 0:
                add_open(&self.open_transactions, self.producers[i].txn_first_offset)
        sort_open(&self.open_transactions)
        self.first_undecided = first_open(&self.open_transactions)
        return 0

    cdef int commit(self) except -1:
        """Make the updates since the last commit permanent."""
        self.undo_count = 0
        if self.undo_capacity > 64:
            free(self.undo)
            self.undo = NULL
            self.undo_capacity = 0
        self.generation += 1
        self.end_offset_before = self.end_offset
        self.completed_kept = len(self.completed)
        return 0

    cdef int rollback(self) except -1:
        """Return to the state of the last commit."""
        cdef Py_ssize_t i
        cdef Producer* producer
        for i in range(self.undo_count - 1, -1, -1):
            if self.undo[i].existed:
                self.obtain(self.undo[i].before.producer_id)[0] = self.undo[i].before
            elif self.undo[i].began:
                # A batch that it sent right after its first one must not be accepted as the first: the order would be lost.
                producer = self.obtain(self.undo[i].before.producer_id)
                producer.count = 0
                producer.txn_first_offset = -1
            else:
                self.forget(self.undo[i].before.producer_id)
        self.undo_count = 0
        self.generation += 1
        self.end_offset = self.end_offset_before
        del self.completed[self.completed_kept:]
        self.find_open()
        return 0

    def forget(self, int64_t producer_id):
        """Drop one producer."""
        cdef Producer* producer = self.find(producer_id)
        if producer == NULL:
            return
        if producer.txn_first_offset >= 0:
            remove_open(&self.open_transactions, producer.txn_first_offset)
            self.first_undecided = first_open(&self.open_transactions)
        self.count -= 1
        producer[0] = self.producers[self.count]
        self.rehash(self.table_size)

    def expire(self, int64_t now_ms, int64_t expiration_ms):
        """Drop producers without an open transaction that wrote nothing for `expiration_ms`; return how many."""
        cdef Py_ssize_t i = 0, kept = 0
        for i in range(self.count):
            if (
                self.producers[i].txn_first_offset >= 0
                or <int64_t>(<uint64_t>now_ms - <uint64_t>self.producers[i].last_timestamp) < expiration_ms
            ):
                self.producers[kept] = self.producers[i]
                kept += 1
        dropped = self.count - kept
        if dropped:
            self.count = kept
            self.rehash(self.table_size)
        return dropped

    def clear(self, int64_t end_offset):
        """Forget everything: the state of an empty log that ends at `end_offset`."""
        self.count = self.undo_count = self.open_transactions.count = 0
        self.first_undecided = -1
        self.newest_only = False
        self.completed = []
        self.completed_kept = 0
        if self.table_size:
            self.rehash(self.table_size)
        self.end_offset = self.end_offset_before = end_offset

    cdef int forget_completed(self, int64_t high_watermark) except -1:
        """Forget the completed transactions whose marker is below the high watermark: they no longer hold back the last stable
        offset. Called after `commit`."""
        if self.completed:
            self.completed = [txn for txn in self.completed if txn[1] >= high_watermark]
            self.completed_kept = len(self.completed)
        return 0

    def last_stable_offset(self, int64_t high_watermark):
        """The end offset for a read_committed reader: the high watermark, or, if that is lower, the start of the first transaction
        that is open or whose marker is not below the high watermark."""
        cdef int64_t stable = high_watermark
        if 0 <= self.first_undecided < stable:
            stable = self.first_undecided
        if self.completed:
            for first_offset, marker_offset in self.completed:
                if marker_offset >= high_watermark and first_offset < stable:
                    stable = first_offset
        return stable

    cdef Producer* committed(self, Producer* producer) noexcept:
        """The entry as it was at the last commit; NULL if the producer was unknown then."""
        cdef Py_ssize_t i
        if producer.generation == self.generation:
            for i in range(self.undo_count):
                if self.undo[i].before.producer_id == producer.producer_id:
                    return &self.undo[i].before if self.undo[i].existed else NULL
        return producer

    def encode(self, *, bint committed=False):
        """producer_snapshot.encode_producers: the bytes of a `.snapshot` file."""
        from broker_cy.storage.producer_snapshot import encode_producers
        return encode_producers(self, committed)

    def load(self, data, int64_t end_offset, int64_t now_ms=-1, int64_t expiration_ms=0):
        """producer_snapshot.load_producers: become the state of a `.snapshot` file, then drop what has expired at `now_ms` (-1:
        keep all). Raises WireError if the bytes are not a snapshot."""
        from broker_cy.storage.producer_snapshot import load_producers
        load_producers(self, data, end_offset)
        if now_ms >= 0:
            self.expire(now_ms, expiration_ms)

    def check_batch(self, data):
        """check, for Python: (ProducerCheck, base offset, timestamp); for a duplicate, the last two are those of the first one."""
        cdef Cursor cursor = Cursor(data)
        cdef BatchHeader header
        cdef int64_t base_offset = -1, timestamp = -1
        if parse_header(cursor.ptr, cursor.remaining(), &header) != 0:
            raise ValueError("not a record batch")
        return self.check(&header, &base_offset, &timestamp), base_offset, timestamp

    def describe(self):
        """[(producer id, epoch, last sequence, last timestamp, coordinator epoch, transaction start offset)], for
        DescribeProducers; -1 if there is none."""
        cdef Producer* producer
        cdef Py_ssize_t i
        found = []
        for i in range(self.count):
            producer = &self.producers[i]
            last_sequence = producer.batches[producer.newest].last_sequence if producer.count > 0 else NO_SEQUENCE
            found.append((producer.producer_id, producer.epoch, last_sequence, producer.last_timestamp,
                          producer.coordinator_epoch, producer.txn_first_offset))
        return found
