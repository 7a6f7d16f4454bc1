# The segment that a cleaning writes: its batches and its indexes.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc

from broker_cy.storage.cleaner.source cimport BatchSource
from broker_cy.wire.batch cimport BatchHeader

cdef enum:
    # The growth of a record, in bytes, when its timestamp is rewritten: in the timestamp delta and in the record length.
    RECORD_GROWTH_BYTES = 14

# Adjacent records that stay: bytes [start, end) of a payload.
cdef struct Run:
    int64_t start
    int64_t end

cdef struct Growing:
    uint8_t* data
    int64_t size
    int64_t capacity

cdef inline int reserve(Growing* buffer, int64_t more) noexcept nogil:
    """Make room for `more` bytes; return 0, or -1 if there is no memory."""
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


cdef class CleanedOutput:
    cdef BatchSource source         # whose current batch is written
    cdef int64_t horizon_ms         # for tombstones and markers that have none yet
    cdef int64_t index_interval_bytes
    cdef int64_t index_bytes_max
    cdef int64_t base_offset        # of the segment
    # `written` bytes are in the file; `out` follows them.
    cdef object write
    cdef Growing out
    cdef int64_t buffer_bytes
    cdef readonly int64_t written
    cdef Growing index
    cdef Growing time_index
    cdef int64_t bytes_since_index
    cdef int64_t last_indexed_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t max_timestamp_offset
    cdef readonly int64_t next_offset   # after the last batch written; base_offset if there is none
    # The records of the current batch that stay.
    cdef Growing runs               # of Run
    cdef int32_t kept
    cdef int64_t kept_max_timestamp

    cdef int begin(
        self, int64_t base_offset, int64_t buffer_bytes, int64_t index_interval_bytes, int64_t index_bytes_max, write
    ) except -1
    cdef int64_t put_records(self, uint8_t* out, const uint8_t* payload, const BatchHeader* header, bint horizon) noexcept nogil
    cdef int put_header(self, uint8_t* out, int64_t records_bytes, bint horizon) noexcept nogil
    cdef int put_empty(self, uint8_t* out) noexcept nogil
    cdef int note(self, int64_t max_timestamp, int64_t size) noexcept nogil
    cdef int add_time_entry(self) noexcept nogil
    cdef int flush(self) except -1
