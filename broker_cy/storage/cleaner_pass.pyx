"""What the cleaner does to batches: which records stay (Kafka's Cleaner and MemoryRecords.filterTo), and how they are written.

A batch of which every record stays is copied as it is. Of others, the records that stay are copied byte for byte behind the old
header, with a new count, checksum and largest timestamp; offsets, sequences and the base timestamp stay what they were (Kafka makes
the first record's timestamp the base; no reader can tell). Only where a batch is given a delete horizon, which takes the place of its
base timestamp (KIP-534), the records' timestamps are written anew.
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from broker_cy.core.crc32c cimport crc32c
from broker_cy.core.cursor cimport load_u16
from broker_cy.core.writer cimport put_uvarlong, store_u16, store_u32, store_u64
from broker_cy.storage.cleaner_source cimport FAULT_MEMORY, FAULT_OFFSETS, FAULT_RECORDS, BatchSource
from broker_cy.storage.offset_map cimport OffsetMap
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON, ATTRIBUTE_LOG_APPEND_TIME, ATTRIBUTE_TRANSACTIONAL,
    BATCH_CRC_START, BATCH_HEADER_BYTES, BATCH_OVERHEAD_BYTES, BatchHeader, batch_bytes,
)
from broker_cy.wire.walk cimport read_sized, read_varint, read_varlong

from broker_cy.storage.errors import CorruptSegment
from broker_cy.wire.compression import compress, decompress

cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    # Bytes that a record may grow by where its timestamp is written anew: the delta, and its own length.
    RECORD_GROWTH_BYTES = 14
    OFFSETS_MAX = 0x7FFFFFFF
    # What the records of one batch may decompress to: all that a length can say.
    PAYLOAD_BYTES_MAX = 0x7FFFFFFF
    CONTROL_KEY_BYTES = 4


cdef int reserve(Growing* buffer, int64_t more) noexcept nogil:
    """Room for `more` bytes: 0, or -1 without memory."""
    cdef int64_t capacity
    cdef uint8_t* grown
    if buffer.size + more <= buffer.capacity:
        return 0
    capacity = max(buffer.size + more, 2 * buffer.capacity)
    grown = <uint8_t*>realloc(buffer.data, <size_t>capacity)
    if grown == NULL:
        return -1
    buffer.data = grown
    buffer.capacity = capacity
    return 0


# --- the map


cdef int put_keys(OffsetMap offsets, const Looked* keys, int count) noexcept nogil:
    """As map_records."""
    cdef int i, done
    for i in range(count):
        done = offsets.put(keys[i].low, keys[i].high, keys[i].offset)
        if done <= 0:
            return 0 if done == 0 else -2
    return 1


cdef int map_records(const uint8_t* p, int64_t size, const BatchHeader* header, OffsetMap offsets, int64_t start_offset) noexcept nogil:
    """1: all keys are in the map, 0: it is full, -1: these are no records, -2: no memory."""
    cdef const uint8_t* end = p + size
    cdef const uint8_t* field
    cdef int32_t length = 0, offset_delta = 0, key_size = 0, _index
    cdef int64_t timestamp_delta = 0
    cdef Looked[LOOKED_MAX] keys
    cdef int done, count = 0
    for _index in range(header.count):
        p = read_varint(p, end, &length)
        if p == NULL or length < 1 or length > end - p:
            return -1
        field = read_varlong(p + 1, p + length, &timestamp_delta)
        if field != NULL:
            field = read_varint(field, p + length, &offset_delta)
        if field != NULL:
            field = read_sized(field, p + length, &key_size)
        if field == NULL:
            return -1
        if key_size >= 0 and header.base_offset + offset_delta >= start_offset:
            offsets.hash(field - key_size, key_size, &keys[count].low, &keys[count].high)
            keys[count].offset = header.base_offset + offset_delta
            count += 1
            if count == LOOKED_MAX:
                done = put_keys(offsets, keys, count)
                if done != 1:
                    return done
                count = 0
        p += length
    done = put_keys(offsets, keys, count)
    return done if p == end or done != 1 else -1


cdef int map_walk(BatchSource source, OffsetMap offsets, int64_t start_offset, int64_t pause_bytes) noexcept nogil:
    cdef int found
    while True:
        if source.read_bytes >= pause_bytes:
            return STOP_PAUSE
        found = source.advance()
        if found <= 0:
            return STOP_END if found == 0 else STOP_FAULT
        if source.next_offset <= start_offset:
            if source.header.attributes & (ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL):
                return STOP_SPECIAL
            continue
        if source.header.attributes & (ATTRIBUTE_CODEC_MASK | ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL):
            return STOP_SPECIAL
        found = map_records(
            source.data + BATCH_HEADER_BYTES, batch_bytes(&source.header) - BATCH_HEADER_BYTES, &source.header, offsets, start_offset
        )
        if found == 0:
            return STOP_FULL
        if found < 0:
            source.failed(FAULT_RECORDS if found == -1 else FAULT_MEMORY)
            return STOP_FAULT
        offsets.latest_offset = source.next_offset - 1


cdef object payload_of(BatchSource source):
    """The records of the current batch, decompressed: a bytes-like object. Raises CorruptSegment."""
    cdef int codec = source.header.attributes & ATTRIBUTE_CODEC_MASK
    cdef int64_t size = batch_bytes(&source.header) - BATCH_HEADER_BYTES
    plain = PyMemoryView_FromMemory(<char*>source.data + BATCH_HEADER_BYTES, size, PyBUF_READ)
    if codec == 0 or (size == 0 and source.header.count == 0):
        return plain
    try:
        return decompress(codec, plain, PAYLOAD_BYTES_MAX)
    except ValueError as error:         # CorruptPayload, PayloadTooLarge and what is no codec
        raise CorruptSegment(source.path, source.position, f"batch at offset {source.header.base_offset}: {error}") from error


cdef object control_kind(BatchSource source):
    """Type of the control record in the current batch, None where it is empty. Raises CorruptSegment."""
    cdef const uint8_t* p = source.data + BATCH_HEADER_BYTES
    cdef const uint8_t* end = source.data + batch_bytes(&source.header)
    cdef int32_t number = 0, key_size = 0
    cdef int64_t timestamp = 0
    if source.header.count == 0:
        return None
    p = read_varint(p, end, &number)
    if p != NULL and p < end:
        p = read_varlong(p + 1, end, &timestamp)
        if p != NULL:
            p = read_varint(p, end, &number)
        if p != NULL:
            p = read_sized(p, end, &key_size)
        if p != NULL and key_size >= CONTROL_KEY_BYTES:
            return <int16_t>load_u16(p - key_size + 2)
    source.failed(FAULT_RECORDS)
    source.raise_fault()


def map_keys(BatchSource source not None, OffsetMap offsets not None, int64_t start_offset, transactions, pause, int64_t pause_bytes):
    """Note in `offsets` the newest offset of each key from `start_offset` on, but not of aborted transactions; True where the map is
    full (then offsets.latest_offset is that of the last key put).

    `pause(bytes)` is called after each `pause_bytes` read. Raises what it raises, CorruptSegment, OSError, MemoryError.
    """
    cdef int stop, done
    cdef const uint8_t[::1] payload
    while True:
        with nogil:
            stop = map_walk(source, offsets, start_offset, pause_bytes)
        if stop == STOP_PAUSE or stop == STOP_END or stop == STOP_FULL:
            pause(source.read_bytes)
            source.read_bytes = 0
            if stop != STOP_PAUSE:
                return stop == STOP_FULL
            continue
        if stop == STOP_FAULT:
            source.raise_fault()
        if source.header.attributes & ATTRIBUTE_CONTROL:
            transactions.on_marker(source.header.producer_id, source.next_offset - 1, control_kind(source))
        elif source.header.attributes & ATTRIBUTE_TRANSACTIONAL and transactions.on_data(
            source.header.producer_id, source.next_offset - 1
        ):
            pass
        elif source.next_offset > start_offset and source.header.count > 0:
            payload = payload_of(source)
            done = 1 if payload.shape[0] == 0 else -1
            if payload.shape[0] > 0:
                with nogil:
                    done = map_records(&payload[0], payload.shape[0], &source.header, offsets, start_offset)
            if done == 0:
                return True
            if done < 0:
                source.failed(FAULT_RECORDS if done == -1 else FAULT_MEMORY)
                source.raise_fault()
        if source.next_offset > start_offset:
            offsets.latest_offset = source.next_offset - 1


# --- the cleaned segment


cdef class CleanWalk:
    """Writes one cleaned segment, at `base_offset`, out of sources that are given to `clean` in order of offsets.

    `offsets` says which record of a key is the newest, `transactions` (CleanedTransactions) which batches were aborted.
    `kept_offsets` are the last data offsets of active producers, `bare_producers` the epochs of those without data. What is to be
    written goes to `write(memoryview, position)`, `buffer_bytes` at a time.
    """

    def __init__(
        self, OffsetMap offsets not None, transactions, int64_t base_offset, *, int64_t now_ms, int64_t delete_retention_ms,
        int64_t upper_offset, kept_offsets, bare_producers, int64_t buffer_bytes, int64_t index_interval_bytes,
        int64_t index_bytes_max, write,
    ):
        cdef int64_t i
        self.offsets = offsets
        self.transactions = transactions
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.now_ms = now_ms
        # A horizon that no timestamp can say is never reached.
        self.horizon_ms = now_ms + min(delete_retention_ms, 0x7FFFFFFFFFFFFFFF - now_ms)
        self.upper_offset = upper_offset
        self.bare_producers = dict(bare_producers)
        self.buffer_bytes = max(buffer_bytes, <int64_t>BATCH_HEADER_BYTES)
        self.index_interval_bytes = index_interval_bytes
        self.index_bytes_max = index_bytes_max
        self.write = write
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.last_indexed_timestamp = -1
        kept = sorted(kept_offsets)
        self.kept_count = len(kept)
        self.kept_offsets = <int64_t*>malloc(<size_t>(max(1, self.kept_count) * sizeof(int64_t)))
        if self.kept_offsets == NULL or reserve(&self.out, self.buffer_bytes) != 0:
            raise MemoryError("no memory to clean a segment")
        for i in range(self.kept_count):
            self.kept_offsets[i] = kept[i]

    def __dealloc__(self):
        free(self.kept_offsets)
        free(self.out.data)
        free(self.index.data)
        free(self.time_index.data)
        free(self.runs.data)

    def clean(self, BatchSource source not None, pause, int64_t pause_bytes):
        """Take in the next segment; `pause` as in map_keys. Raises what it and `write` raise, CorruptSegment, OSError,
        MemoryError."""
        cdef int stop
        self.source = source
        while True:
            with nogil:
                stop = self.walk(pause_bytes)
            if stop == STOP_FLUSH:
                self.flush()
            elif stop == STOP_SPECIAL:
                self.special()
            elif stop == STOP_FAULT:
                source.raise_fault()
            else:
                pause(source.read_bytes)
                source.read_bytes = 0
                if stop == STOP_END:
                    return

    def finish(self):
        """Write what is left; the contents of the offset index and of the time index."""
        if self.max_timestamp > self.last_indexed_timestamp and self.add_time_entry() != 0:
            raise MemoryError("no memory for a time index")
        self.flush()
        return self.index.data[:self.index.size], self.time_index.data[:self.time_index.size]

    cdef int flush(self) except -1:
        if self.out.size > 0:
            self.write(PyMemoryView_FromMemory(<char*>self.out.data, self.out.size, PyBUF_READ), self.written)
            self.written += self.out.size
            self.out.size = 0
        return 0

    cdef int walk(self, int64_t pause_bytes) noexcept nogil:
        cdef int found
        while True:
            if not self.again:
                if self.source.read_bytes >= pause_bytes:
                    return STOP_PAUSE
                found = self.source.advance()
                if found <= 0:
                    return STOP_END if found == 0 else STOP_FAULT
                if self.source.header.attributes & (ATTRIBUTE_CODEC_MASK | ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL):
                    return STOP_SPECIAL
            found = self.place(self.rules_of_place())
            if found != STOP_END:
                return found

    cdef int rules_of_place(self) noexcept nogil:
        """The header of a producer's last batch stays, and that of the last batch before the end of what is cleaned."""
        cdef int64_t last_offset = self.source.next_offset - 1
        while self.kept_next < self.kept_count and self.kept_offsets[self.kept_next] < last_offset:
            self.kept_next += 1
        if self.kept_next < self.kept_count and self.kept_offsets[self.kept_next] == last_offset:
            return RULE_KEEP_EMPTY
        return RULE_KEEP_EMPTY if last_offset + 1 == self.upper_offset else 0

    cdef inline bint stays(self, const BatchHeader* header, const Looked* record) noexcept nogil:
        if record.offset > self.offsets.latest_offset:
            return True
        if record.key_size < 0:
            # No key, from before the topic was compacted: nothing could ever take its place.
            self.records_without_key += 1
            return False
        if record.value_size < 0 and header.attributes & ATTRIBUTE_DELETE_HORIZON and self.now_ms >= header.base_timestamp:
            return False
        return record.offset >= self.offsets.find(record.low, record.high)

    cdef int decide(self, const BatchHeader* header, const Looked* records, int count, int rules) noexcept nogil:
        """Which of some records of a batch stay: 0, or -1 with the source's fault."""
        cdef Run* run
        cdef const Looked* record
        cdef int i
        for i in range(count):
            record = &records[i]
            if not rules & RULE_KEEP_ALL and not self.stays(header, record):
                continue
            self.kept += 1
            if record.value_size < 0:
                self.tombstones = True
            if record.timestamp > self.kept_max_timestamp:
                self.kept_max_timestamp = record.timestamp
            if self.runs.size > 0:
                run = <Run*>(self.runs.data + self.runs.size) - 1
                if run.end == record.start:
                    run.end = record.end
                    continue
            if reserve(&self.runs, sizeof(Run)) != 0:
                return self.source.failed(FAULT_MEMORY)
            run = <Run*>(self.runs.data + self.runs.size)
            self.runs.size += sizeof(Run)
            run.start = record.start
            run.end = record.end
        return 0

    cdef int filter(self, const uint8_t* p, int64_t size, const BatchHeader* header, int rules) noexcept nogil:
        """Find out which records stay: fills runs, kept, tombstones, kept_max_timestamp. 0, or -1 with the source's fault."""
        cdef const uint8_t* start = p
        cdef const uint8_t* end = p + size
        cdef const uint8_t* key = NULL
        cdef const uint8_t* field
        cdef Looked[LOOKED_MAX] records
        cdef Looked* record
        cdef int32_t length = 0, offset_delta = 0, _index
        cdef int64_t timestamp_delta = 0
        cdef int count = 0
        self.runs.size = 0
        self.kept = 0
        self.tombstones = False
        self.kept_max_timestamp = -1
        for _index in range(header.count):
            record = &records[count]
            record.start = p - start
            p = read_varint(p, end, &length)
            if p == NULL or length < 1 or length > end - p:
                return self.source.failed(FAULT_RECORDS)
            field = read_varlong(p + 1, p + length, &timestamp_delta)
            if field != NULL:
                field = read_varint(field, p + length, &offset_delta)
            if field != NULL:
                field = read_sized(field, p + length, &record.key_size)
            if field != NULL:
                key = field - record.key_size if record.key_size > 0 else field
                field = read_sized(field, p + length, &record.value_size)
            if field == NULL:
                return self.source.failed(FAULT_RECORDS)
            p += length
            record.end = p - start
            record.offset = header.base_offset + offset_delta
            record.timestamp = <int64_t>(<uint64_t>header.base_timestamp + <uint64_t>timestamp_delta)
            if record.key_size >= 0:
                self.offsets.hash(key, record.key_size, &record.low, &record.high)
            count += 1
            if count == LOOKED_MAX:
                if self.decide(header, records, count, rules) != 0:
                    return -1
                count = 0
        if self.decide(header, records, count, rules) != 0:
            return -1
        if header.attributes & ATTRIBUTE_LOG_APPEND_TIME:
            self.kept_max_timestamp = header.max_timestamp
        return 0 if p == end else self.source.failed(FAULT_RECORDS)

    cdef bint needs_horizon(self, const BatchHeader* header, int rules) noexcept nogil:
        return (
            self.kept > 0 and not header.attributes & ATTRIBUTE_DELETE_HORIZON
            and (self.tombstones or rules & RULE_SET_HORIZON)
        )

    cdef int place(self, int rules) noexcept nogil:
        """Write what stays of the current batch, which is not compressed: STOP_END, STOP_FLUSH or STOP_FAULT."""
        cdef BatchHeader* header = &self.source.header
        cdef const uint8_t* payload = self.source.data + BATCH_HEADER_BYTES
        cdef int64_t size = batch_bytes(header)
        cdef int64_t room = size, records_bytes
        cdef uint8_t* out
        cdef bint horizon
        self.again = True
        self.kept = 0
        if not rules & RULE_DISCARD and self.filter(payload, size - BATCH_HEADER_BYTES, header, rules) != 0:
            return STOP_FAULT
        horizon = self.needs_horizon(header, rules)
        if horizon:
            room += <int64_t>self.kept * RECORD_GROWTH_BYTES
        if self.out.size > 0 and self.out.size + room > self.buffer_bytes:
            return STOP_FLUSH
        if reserve(&self.out, room) != 0:
            self.source.failed(FAULT_MEMORY)
            return STOP_FAULT
        self.again = False
        self.records_read += header.count
        self.records_kept += self.kept
        out = self.out.data + self.out.size
        if self.kept == 0:
            return self.put_empty(out) if rules & RULE_KEEP_EMPTY else STOP_END
        if self.kept == header.count and not horizon:
            memcpy(out, self.source.data, <size_t>size)
            return self.note(header.max_timestamp, size)
        records_bytes = self.put_records(out + BATCH_HEADER_BYTES, payload, header, horizon)
        return self.put_header(out, records_bytes, horizon)

    cdef int64_t put_records(self, uint8_t* out, const uint8_t* payload, const BatchHeader* header, bint horizon) noexcept nogil:
        """The records of `runs` behind each other; how many bytes they take."""
        cdef Run* run = <Run*>self.runs.data
        cdef Run* last = run + self.runs.size // <int64_t>sizeof(Run)
        cdef const uint8_t* p
        cdef const uint8_t* rest
        cdef uint8_t* at = out
        cdef uint8_t delta[10]
        cdef int32_t length = 0
        cdef int64_t timestamp_delta = 0
        cdef int n
        while run < last:
            p = payload + run.start
            if not horizon:
                memcpy(at, p, <size_t>(run.end - run.start))
                at += run.end - run.start
            while horizon and p < payload + run.end:
                # filter has read all of this, so that it cannot fail.
                p = read_varint(p, payload + run.end, &length)
                rest = read_varlong(p + 1, p + length, &timestamp_delta)
                timestamp_delta = <int64_t>(<uint64_t>header.base_timestamp + <uint64_t>timestamp_delta - <uint64_t>self.horizon_ms)
                n = put_uvarlong(delta, (<uint64_t>timestamp_delta << 1) ^ <uint64_t>(timestamp_delta >> 63))
                at += put_uvarlong(at, <uint64_t>(1 + n + (p + length - rest)) << 1)
                at[0] = p[0]
                memcpy(at + 1, delta, n)
                memcpy(at + 1 + n, rest, <size_t>(p + length - rest))
                at += 1 + n + (p + length - rest)
                p += length
            run += 1
        return at - out

    cdef int put_header(self, uint8_t* out, int64_t records_bytes, bint horizon) noexcept nogil:
        """The current batch's header with what filter found, in front of its records at `out` + 61."""
        cdef int16_t attributes = self.source.header.attributes
        memcpy(out, self.source.data, BATCH_HEADER_BYTES)
        if horizon:
            attributes |= ATTRIBUTE_DELETE_HORIZON
            store_u64(out + 27, <uint64_t>self.horizon_ms)
        store_u16(out + 21, <uint16_t>attributes)
        store_u64(out + 35, <uint64_t>self.kept_max_timestamp)
        store_u32(out + 57, <uint32_t>self.kept)
        store_u32(out + 8, <uint32_t>(BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES + records_bytes))
        store_u32(out + 17, crc32c(0, out + BATCH_CRC_START, <size_t>(BATCH_HEADER_BYTES - BATCH_CRC_START + records_bytes)))
        return self.note(self.kept_max_timestamp, BATCH_HEADER_BYTES + records_bytes)

    cdef int put_empty(self, uint8_t* out) noexcept nogil:
        """A header without records, which keeps a producer's last sequence."""
        memcpy(out, self.source.data, BATCH_HEADER_BYTES)
        store_u16(out + 21, <uint16_t>(self.source.header.attributes & ~(ATTRIBUTE_CODEC_MASK | ATTRIBUTE_DELETE_HORIZON)))
        store_u64(out + 27, <uint64_t>-1)
        store_u32(out + 57, 0)
        store_u32(out + 8, BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES)
        store_u32(out + 17, crc32c(0, out + BATCH_CRC_START, BATCH_HEADER_BYTES - BATCH_CRC_START))
        return self.note(self.source.header.max_timestamp, BATCH_HEADER_BYTES)

    cdef int note(self, int64_t max_timestamp, int64_t size) noexcept nogil:
        """Count in a batch of `size` bytes that was just put behind `out.size`, with the index entries that are due (Log.stage)."""
        cdef int64_t position = self.written + self.out.size
        cdef int64_t last_offset = self.source.next_offset - 1
        cdef uint8_t* entry
        if last_offset - self.base_offset > OFFSETS_MAX:
            self.source.failed(FAULT_OFFSETS)
            return STOP_FAULT
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if position > 0 and self.bytes_since_index > self.index_interval_bytes:
            if self.index.size + 8 <= self.index_bytes_max:
                if reserve(&self.index, 8) != 0:
                    self.source.failed(FAULT_MEMORY)
                    return STOP_FAULT
                entry = self.index.data + self.index.size
                store_u32(entry, <uint32_t>(last_offset - self.base_offset))
                store_u32(entry + 4, <uint32_t>position)
                self.index.size += 8
            # One place is kept for the entry that finish adds.
            if self.max_timestamp > self.last_indexed_timestamp and self.time_index.size + 24 <= self.index_bytes_max:
                if self.add_time_entry() != 0:
                    self.source.failed(FAULT_MEMORY)
                    return STOP_FAULT
            self.bytes_since_index = 0
        self.bytes_since_index += size
        self.out.size += size
        self.next_offset = last_offset + 1
        return STOP_END

    cdef int add_time_entry(self) noexcept nogil:
        cdef uint8_t* entry
        if reserve(&self.time_index, 12) != 0:
            return -1
        entry = self.time_index.data + self.time_index.size
        store_u64(entry, <uint64_t>self.max_timestamp)
        store_u32(entry + 8, <uint32_t>(self.max_timestamp_offset - self.base_offset))
        self.time_index.size += 12
        self.last_indexed_timestamp = self.max_timestamp
        return 0

    cdef int special(self) except -1:
        """The current batch, where it is compressed, a marker or of a transaction."""
        cdef BatchHeader* header = &self.source.header
        cdef int64_t last_offset = self.source.next_offset - 1
        cdef int rules = self.rules_of_place()
        cdef int stop = STOP_FLUSH
        if header.attributes & ATTRIBUTE_CONTROL:
            rules |= RULE_KEEP_ALL
            if self.bare_producers.get(header.producer_id) == header.producer_epoch:
                rules |= RULE_KEEP_EMPTY
            if self.transactions.on_marker(header.producer_id, last_offset, control_kind(self.source)):
                rules |= RULE_SET_HORIZON
                if header.attributes & ATTRIBUTE_DELETE_HORIZON and header.base_timestamp <= self.now_ms:
                    rules |= RULE_DISCARD
        elif header.attributes & ATTRIBUTE_TRANSACTIONAL and self.transactions.on_data(header.producer_id, last_offset):
            rules |= RULE_DISCARD
        if header.attributes & ATTRIBUTE_CODEC_MASK and not rules & RULE_DISCARD:
            return self.place_compressed(rules)
        while stop == STOP_FLUSH:
            with nogil:
                stop = self.place(rules)
            if stop == STOP_FLUSH:
                self.flush()
        if stop == STOP_FAULT:
            self.source.raise_fault()
        return 0

    cdef int place_compressed(self, int rules) except -1:
        """The same for records that are compressed: what stays is compressed again with the batch's own codec."""
        cdef BatchHeader* header = &self.source.header
        cdef const uint8_t[::1] payload = payload_of(self.source)
        cdef const uint8_t[::1] packed
        cdef const uint8_t* records = &payload[0] if payload.shape[0] > 0 else NULL
        cdef int64_t size = payload.shape[0], room
        cdef uint8_t* out
        cdef bint horizon
        cdef int failed, stop
        with nogil:
            failed = self.filter(records, size, header, rules)
        if failed:
            self.source.raise_fault()
        self.records_read += header.count
        self.records_kept += self.kept
        if self.kept == 0 and not rules & RULE_KEEP_EMPTY:
            return 0
        horizon = self.needs_horizon(header, rules)
        data = None
        room = batch_bytes(header)
        if self.kept > 0 and (self.kept < header.count or horizon):
            scratch = bytearray(size + (<int64_t>self.kept * RECORD_GROWTH_BYTES if horizon else 0))
            size = self.put_records(<uint8_t*><char*>scratch, records, header, horizon)
            data = compress(header.attributes & ATTRIBUTE_CODEC_MASK, memoryview(scratch)[:size])
            room = BATCH_HEADER_BYTES + len(data)
        if self.out.size > 0 and self.out.size + room > self.buffer_bytes:
            self.flush()
        if reserve(&self.out, room) != 0:
            raise MemoryError("no memory to clean a segment")
        out = self.out.data + self.out.size
        if self.kept == 0:
            stop = self.put_empty(out)
        elif data is None:
            memcpy(out, self.source.data, <size_t>room)
            stop = self.note(header.max_timestamp, room)
        else:
            packed = data
            memcpy(out + BATCH_HEADER_BYTES, &packed[0], <size_t>packed.shape[0])
            stop = self.put_header(out, packed.shape[0], horizon)
        if stop == STOP_FAULT:
            self.source.raise_fault()
        return 0
