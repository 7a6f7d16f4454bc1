"""The second walk of a cleaning: decides which records of a batch stay (Kafka's Cleaner and MemoryRecords.filterTo); writes them.

A batch that keeps all of its records, and needs no new delete horizon, is copied unchanged; output.pyx describes how others are
written.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from broker_cy.storage.cleaner.map_walk cimport (
    LOOKED_MAX, STOP_END, STOP_FAULT, STOP_FLUSH, STOP_PAUSE, STOP_SPECIAL, Looked, control_kind, payload_of,
)
from broker_cy.storage.cleaner.output cimport RECORD_GROWTH_BYTES, CleanedOutput, Run, reserve
from broker_cy.storage.cleaner.source cimport FAULT_MEMORY, FAULT_RECORDS, BatchSource
from broker_cy.storage.cleaner.offset_map cimport OffsetMap
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON, ATTRIBUTE_LOG_APPEND_TIME, ATTRIBUTE_TRANSACTIONAL,
    BATCH_HEADER_BYTES, BatchHeader, batch_bytes,
)
from broker_cy.wire.walk cimport read_sized, read_varint, read_varlong

from broker_cy.wire.compression import compress


cdef class CleanWalk(CleanedOutput):
    """Writes one cleaned segment, at `base_offset`, from sources that are passed to `clean` in order of offsets.

    `offsets` has the offset of the newest record of each key; `transactions` (CleanedTransactions) finds the aborted batches.
    `kept_offsets` are the last data offsets of active producers, `bare_producers` the epochs of those without data. The output is
    passed to `write(memoryview, position)`, `buffer_bytes` at a time.
    """

    def __init__(
        self, OffsetMap offsets not None, transactions, int64_t base_offset, *, int64_t now_ms, int64_t delete_retention_ms,
        int64_t upper_offset, kept_offsets, bare_producers, int64_t buffer_bytes, int64_t index_interval_bytes,
        int64_t index_bytes_max, write,
    ):
        cdef int64_t i
        self.offsets = offsets
        self.transactions = transactions
        self.begin(base_offset, buffer_bytes, index_interval_bytes, index_bytes_max, write)
        self.now_ms = now_ms
        # Limited to the largest timestamp: that horizon is never reached.
        self.horizon_ms = now_ms + min(delete_retention_ms, 0x7FFFFFFFFFFFFFFF - now_ms)
        self.upper_offset = upper_offset
        self.bare_producers = dict(bare_producers)
        kept = sorted(kept_offsets)
        self.kept_count = len(kept)
        self.kept_offsets = <int64_t*>malloc(<size_t>(max(1, self.kept_count) * sizeof(int64_t)))
        if self.kept_offsets == NULL:
            raise MemoryError("no memory to clean a segment")
        for i in range(self.kept_count):
            self.kept_offsets[i] = kept[i]

    def __dealloc__(self):
        free(self.kept_offsets)

    def clean(self, BatchSource source not None, pause, int64_t pause_bytes):
        """Clean the next segment; `pause` as in map_keys. Raises what `pause` and `write` raise, CorruptSegment, OSError,
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
        """Rules by the position of the current batch: the header of a producer's last batch stays even without records, and so does
        that of the last batch before `upper_offset`."""
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
            # The record has no key, so it is from before the topic was compacted, and no newer record could ever replace it.
            self.records_without_key += 1
            return False
        if record.value_size < 0 and header.attributes & ATTRIBUTE_DELETE_HORIZON and self.now_ms >= header.base_timestamp:
            return False
        return record.offset >= self.offsets.find(record.low, record.high)

    cdef int decide(self, const BatchHeader* header, const Looked* records, int count, int rules) noexcept nogil:
        """Find out which of `count` records of a batch stay, for filter; return 0, or -1 with the source's fault."""
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
        """Find out which records stay: sets runs, kept, tombstones, kept_max_timestamp. Return 0, or -1 with the source's fault."""
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
        """Write the kept part of the current batch, whose records are not compressed; return STOP_END, STOP_FLUSH or STOP_FAULT."""
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

    cdef int special(self) except -1:
        """Write the kept part of the current batch, which is compressed, a marker, or transactional."""
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
        """Write the kept part of the current batch, whose records are compressed, with the batch's own codec."""
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
