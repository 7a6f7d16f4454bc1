"""The segment that a cleaning writes: batches that lost records, one after the other in a buffer, and the two indexes.

The records that stay are copied byte for byte behind the old header, with a new count, checksum and largest timestamp. Offsets,
sequences and the base timestamp stay unchanged (Kafka makes the first record's timestamp the base; a reader sees no difference).
Timestamps are rewritten only in a batch that is given a delete horizon, which replaces its base timestamp (KIP-534).
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from broker_cy.core.crc32c cimport crc32c
from broker_cy.core.writer cimport put_uvarlong, store_u16, store_u32, store_u64
from broker_cy.storage.cleaner.map_walk cimport STOP_END, STOP_FAULT
from broker_cy.storage.cleaner.source cimport FAULT_MEMORY, FAULT_OFFSETS
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_DELETE_HORIZON, BATCH_CRC_START, BATCH_HEADER_BYTES, BATCH_OVERHEAD_BYTES, BatchHeader,
)
from broker_cy.wire.walk cimport read_varint, read_varlong

cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    OFFSETS_MAX = 0x7FFFFFFF


cdef class CleanedOutput:
    """Passes its output to `write(memoryview, position)`, `buffer_bytes` at a time."""

    cdef int begin(
        self, int64_t base_offset, int64_t buffer_bytes, int64_t index_interval_bytes, int64_t index_bytes_max, write
    ) except -1:
        """Set up the output; call it before anything else. Raises MemoryError."""
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.buffer_bytes = max(buffer_bytes, <int64_t>BATCH_HEADER_BYTES)
        self.index_interval_bytes = index_interval_bytes
        self.index_bytes_max = index_bytes_max
        self.write = write
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.last_indexed_timestamp = -1
        if reserve(&self.out, self.buffer_bytes) != 0:
            raise MemoryError("no memory to clean a segment")
        return 0

    def __dealloc__(self):
        free(self.out.data)
        free(self.index.data)
        free(self.time_index.data)
        free(self.runs.data)

    def finish(self):
        """Write the rest of the buffer; return the contents of the offset index and of the time index."""
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

    cdef int64_t put_records(self, uint8_t* out, const uint8_t* payload, const BatchHeader* header, bint horizon) noexcept nogil:
        """Write the records of `runs` to `out`, one after the other; return their size in bytes."""
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
                # filter has read these fields already, so reading them cannot fail.
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
        """Write the current batch's header, with the values that filter found, in front of its records at `out` + 61."""
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
        """Write a header without records, which preserves a producer's last sequence."""
        memcpy(out, self.source.data, BATCH_HEADER_BYTES)
        store_u16(out + 21, <uint16_t>(self.source.header.attributes & ~(ATTRIBUTE_CODEC_MASK | ATTRIBUTE_DELETE_HORIZON)))
        store_u64(out + 27, <uint64_t>-1)
        store_u32(out + 57, 0)
        store_u32(out + 8, BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES)
        store_u32(out + 17, crc32c(0, out + BATCH_CRC_START, BATCH_HEADER_BYTES - BATCH_CRC_START))
        return self.note(self.source.header.max_timestamp, BATCH_HEADER_BYTES)

    cdef int note(self, int64_t max_timestamp, int64_t size) noexcept nogil:
        """Account for a batch of `size` bytes that was just written at `out.size`, and add the index entries that are due (as
        Log.take does)."""
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
            # Room for one entry is reserved for finish.
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
