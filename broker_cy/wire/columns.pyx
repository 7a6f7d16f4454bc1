"""Records of batches as columns in Arrow's layout, without a Python object for each record.

Foreign bytes are read by the functions of broker_cy/wire/walk.pxd, which check the end first. A batch is walked once by
`walk_records` before any of its records becomes a row.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_LOG_APPEND_TIME, BATCH_HEADER_BYTES, BATCH_OVERHEAD_BYTES,
)
from broker_cy.wire.records cimport Batch
from broker_cy.wire.walk cimport (
    WALK_FIELD, WALK_HEADERS, WALK_LENGTH, WALK_REMAINING, WALK_SIZE, WalkResult, WalkRules, read_sized, read_varint,
    read_varlong, walk_records,
)

from broker_cy.core.errors import WireError
from broker_cy.core.text import java_text
from broker_cy.wire.compression import CorruptPayload, PayloadTooLarge, decompress
from broker_cy.wire.records import MAX_PAYLOAD_BYTES


cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    RECORD_BYTES_MIN = 7            # length, attributes, two deltas, two lengths, number of headers
    # Bytes of a row in addition to its key, value and headers: offset, timestamp, timestamp type, two ends.
    ROW_BYTES = 28
    GROWTH_BYTES_MIN = 4096
    US_PER_MS = 1000

_FAULTS = {
    WALK_LENGTH: "has a length that does not fit in its batch",
    WALK_FIELD: "has a field that does not fit in it",
    WALK_HEADERS: "has an impossible number of headers, or a header without a key",
    WALK_SIZE: "has bytes after its fields",
    WALK_REMAINING: "is the last one, and bytes follow it",
}


cdef int grow(void** memory, int64_t* room, int64_t wanted, int item_bytes) except -1:
    """Make room for `wanted` items, and half as many again."""
    cdef int64_t items = wanted + wanted // 2 + GROWTH_BYTES_MIN // item_bytes
    cdef void* grown = realloc(memory[0], <size_t>(items * item_bytes))
    if grown == NULL:
        raise MemoryError(f"no memory for {items * item_bytes} bytes of a column")
    memory[0] = grown
    room[0] = items
    return 0


cdef bytes copied(const void* data, int64_t size):
    return PyBytes_FromStringAndSize(<const char*>data, size)


@cython.final
cdef class _Values:
    """A growing column of binary values or strings."""

    cdef uint8_t* data
    cdef int64_t used
    cdef int64_t room
    cdef int32_t* ends
    cdef int64_t rows
    cdef int64_t ends_room
    cdef uint8_t* valid
    cdef int64_t valid_room
    cdef int64_t nulls

    def __cinit__(self):
        grow(<void**>&self.data, &self.room, 1, 1)
        self.reset()

    def __dealloc__(self):
        free(self.data)
        free(self.ends)
        free(self.valid)

    cdef int reset(self) except -1:
        self.used = self.rows = self.nulls = 0
        if self.ends_room == 0:
            grow(<void**>&self.ends, &self.ends_room, 1, sizeof(int32_t))
        self.ends[0] = 0
        return 0

    cdef inline int put(self, const uint8_t* at, int32_t size) except -1:
        """Add the `size` bytes at `at`; a negative size is null."""
        if self.rows + 1 >= self.ends_room:
            grow(<void**>&self.ends, &self.ends_room, self.rows + 2, sizeof(int32_t))
        if self.rows >> 3 >= self.valid_room:
            grow(<void**>&self.valid, &self.valid_room, (self.rows >> 3) + 1, 1)
        if self.rows & 7 == 0:
            self.valid[self.rows >> 3] = 0
        if size < 0:
            self.nulls += 1
        else:
            if self.used + size > self.room:
                grow(<void**>&self.data, &self.room, self.used + size, 1)
            memcpy(self.data + self.used, at, size)
            self.used += size
            self.valid[self.rows >> 3] |= <uint8_t>(1 << (self.rows & 7))
        self.rows += 1
        # This cannot overflow: `fill` stops before the bytes of a column reach bytes_max, or adds a single record,
        # which has less than 2 GiB.
        self.ends[self.rows] = <int32_t>self.used
        return 0

    cdef tuple take(self):
        found = (
            copied(self.valid, (self.rows + 7) >> 3), self.nulls, copied(self.ends, (self.rows + 1) * sizeof(int32_t)),
            copied(self.data, self.used),
        )
        self.reset()
        return found


@cython.final
cdef class Columns:
    """The records of batches as columns in Arrow's layout: at most `rows_max` rows, and `bytes_max` bytes unless one record
    alone is larger.
    """

    cdef readonly int64_t rows
    cdef int64_t rows_max, bytes_max
    cdef int64_t header_bytes
    cdef _Values keys, values, header_keys, header_values
    cdef bint with_headers
    # Four arrays of rows_max items.
    cdef int64_t* offsets
    cdef int64_t* timestamps
    cdef int32_t* types
    cdef int32_t* list_ends
    cdef uint8_t* list_valid
    cdef int64_t list_nulls
    # The begun batch: the owner of its bytes, the next record, and the end.
    cdef object owner
    cdef Py_buffer plain
    cdef bint is_held
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef int32_t left
    cdef int64_t base_offset, base_timestamp, append_timestamp, first_offset, end_offset
    cdef bint is_append_time

    def __cinit__(self, int64_t rows_max, int64_t bytes_max, bint with_headers=False):
        cdef int64_t room = 0
        if rows_max < 1 or bytes_max < 1:
            raise ValueError(f"at most {rows_max} rows and {bytes_max} bytes: at least 1 of each is needed")
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.with_headers = with_headers
        self.keys = _Values()
        self.values = _Values()
        self.header_keys = _Values()
        self.header_values = _Values()
        grow(<void**>&self.offsets, &room, rows_max, sizeof(int64_t))
        grow(<void**>&self.timestamps, &room, rows_max, sizeof(int64_t))
        grow(<void**>&self.types, &room, rows_max, sizeof(int32_t))
        grow(<void**>&self.list_ends, &room, rows_max + 1, sizeof(int32_t))
        grow(<void**>&self.list_valid, &room, (rows_max + 7) // 8, 1)
        self.reset()

    def __dealloc__(self):
        self.release()
        free(self.offsets)
        free(self.timestamps)
        free(self.types)
        free(self.list_ends)
        free(self.list_valid)

    cdef void reset(self) noexcept:
        self.rows = self.list_nulls = self.header_bytes = 0
        self.list_ends[0] = 0
        memset(self.list_valid, 0, <size_t>((self.rows_max + 7) // 8))

    cdef int release(self) except -1:
        self.left = 0
        if self.is_held:
            self.is_held = False
            PyBuffer_Release(&self.plain)
        self.owner = None
        return 0

    def begin(self, Batch batch not None, int64_t first_offset, int64_t end_offset):
        """Begin a batch and select its records from `first_offset` up to, but not including, `end_offset`.

        All of its records are checked here, so that no part of a malformed batch becomes rows. Raises WireError, which describes
        the fault.
        """
        cdef const uint8_t* at = batch.at + BATCH_HEADER_BYTES
        cdef Py_ssize_t n = batch.header.length - (BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES)
        cdef int codec = batch.header.attributes & ATTRIBUTE_CODEC_MASK
        self.release()
        # Compaction leaves empty batches, with no payload at all, to keep a producer's last sequence.
        if batch.header.count == 0 and n == 0:
            return
        if codec != 0:
            try:
                payload = decompress(codec, PyMemoryView_FromMemory(<char*>at, n, PyBUF_READ), MAX_PAYLOAD_BYTES)
            except (CorruptPayload, PayloadTooLarge, ValueError) as error:
                raise WireError(str(error)) from error
            PyObject_GetBuffer(payload, &self.plain, PyBUF_SIMPLE)
            self.is_held = True
            at = <const uint8_t*>self.plain.buf
            n = self.plain.len
        self.owner = batch
        self.base_offset = batch.header.base_offset
        self.base_timestamp = batch.header.base_timestamp
        self.append_timestamp = batch.header.max_timestamp
        self.is_append_time = batch.header.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
        self.first_offset = first_offset
        self.end_offset = end_offset
        self.check(at, n, batch.header.count)
        self.at = at
        self.end = at + n
        self.left = batch.header.count

    cdef int check(self, const uint8_t* at, Py_ssize_t n, int32_t count) except -1:
        cdef WalkRules rules
        cdef WalkResult result
        if count < 0 or count > n // RECORD_BYTES_MIN:
            raise WireError(f"it claims {count} records in {n} bytes")
        memset(&rules, 0, sizeof(rules))
        rules.base_timestamp = self.base_timestamp
        if walk_records(at, n, count, &rules, &result) != 0:
            raise WireError(f"record {result.records} of {count} {_FAULTS[result.status]}")
        return 0

    def fill(self):
        """Add records of the begun batch as rows. True: all are in. False: `take` the rows, and call again."""
        cdef const uint8_t* p
        cdef const uint8_t* record_end
        cdef const uint8_t* key_end
        cdef const uint8_t* value_end
        cdef int32_t length = 0, offset_delta = 0, key_size = 0, value_size = 0, header_count = 0
        cdef int64_t timestamp_delta = 0, offset
        while self.left > 0:
            p = read_varint(self.at, self.end, &length)
            if p == NULL or length < 1 or length > self.end - p:
                raise WireError(f"{self.left} records from the end of its batch, a record has no possible length")
            record_end = p + length
            p = read_varlong(p + 1, record_end, &timestamp_delta)
            if p != NULL:
                p = read_varint(p, record_end, &offset_delta)
            key_end = read_sized(p, record_end, &key_size) if p != NULL else NULL
            value_end = read_sized(key_end, record_end, &value_size) if key_end != NULL else NULL
            p = read_varint(value_end, record_end, &header_count) if value_end != NULL else NULL
            if p == NULL:
                raise WireError(f"{self.left} records from the end of its batch, a record has a field that does not fit in it")
            offset = <int64_t>(<uint64_t>self.base_offset + <uint64_t>offset_delta)
            if offset >= self.first_offset and offset < self.end_offset:
                if self.is_full(length):
                    return False
                self.put_times(offset, timestamp_delta)
                self.keys.put(key_end - key_size, key_size)
                self.values.put(value_end - value_size, value_size)
                if self.with_headers:
                    self.put_headers(p, record_end, header_count)
                self.rows += 1
            self.at = record_end
            self.left -= 1
        self.release()
        return True

    cdef inline bint is_full(self, int32_t size) noexcept:
        """Whether a record of `size` bytes has to be in the next columns."""
        if self.rows == 0:
            return False
        return (
            self.rows >= self.rows_max
            or self.keys.used + self.values.used + self.header_bytes + (self.rows + 1) * ROW_BYTES + size > self.bytes_max
        )

    cdef inline int put_times(self, int64_t offset, int64_t timestamp_delta) except -1:
        cdef int64_t ms = self.append_timestamp
        if not self.is_append_time:
            ms = <int64_t>(<uint64_t>self.base_timestamp + <uint64_t>timestamp_delta)
        if ms > INT64_MAX // US_PER_MS or ms < INT64_MIN // US_PER_MS:
            raise WireError(f"the record at offset {offset} has the timestamp {ms}, which does not fit in 64 bits as microseconds")
        self.offsets[self.rows] = offset
        self.timestamps[self.rows] = ms * US_PER_MS
        self.types[self.rows] = 1 if self.is_append_time else 0
        return 0

    cdef int put_headers(self, const uint8_t* p, const uint8_t* end, int32_t count) except -1:
        cdef int32_t size = 0
        cdef int32_t _number
        if count == 0:
            self.list_nulls += 1
        else:
            self.list_valid[self.rows >> 3] |= <uint8_t>(1 << (self.rows & 7))
        for _number in range(count):
            p = read_sized(p, end, &size)
            if p == NULL or size < 0:
                raise WireError("a header key is null or does not fit in its record")
            self.put_text(p - size, size)
            p = read_sized(p, end, &size)
            if p == NULL:
                raise WireError("a header value does not fit in its record")
            self.header_values.put(p - size, size)
        self.header_bytes = self.header_keys.used + self.header_values.used + self.header_keys.rows * 2 * sizeof(int32_t)
        self.list_ends[self.rows + 1] = <int32_t>self.header_keys.rows
        return 0

    cdef int put_text(self, const uint8_t* at, int32_t size) except -1:
        """Add a header's key. Arrow's strings are valid UTF-8, and Kafka's client reads invalid bytes as U+FFFD."""
        cdef uint8_t bits = 0
        cdef int32_t i
        cdef bytes text
        for i in range(size):
            bits |= at[i]
        if bits < 0x80:
            return self.header_keys.put(at, size)
        text = java_text(PyBytes_FromStringAndSize(<const char*>at, size)).encode()
        return self.header_keys.put(<const uint8_t*>PyBytes_AS_STRING(text), <int32_t>PyBytes_GET_SIZE(text))

    def take(self):
        """Return and clear the rows: their number, keys, values, offsets (int64), timestamps (int64, us since 1970),
        timestamp types (int32: 0 CreateTime, 1 LogAppendTime) and headers (null for a record without any).
        """
        cdef int64_t rows = self.rows
        headers = None
        if self.with_headers:
            headers = (
                copied(self.list_valid, (rows + 7) >> 3), self.list_nulls, copied(self.list_ends, (rows + 1) * sizeof(int32_t)),
                self.header_keys.rows, self.header_keys.take(), self.header_values.take(),
            )
        found = (
            rows, self.keys.take(), self.values.take(), copied(self.offsets, rows * sizeof(int64_t)),
            copied(self.timestamps, rows * sizeof(int64_t)), copied(self.types, rows * sizeof(int32_t)), headers,
        )
        self.reset()
        return found
