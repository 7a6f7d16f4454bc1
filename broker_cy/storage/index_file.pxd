# The entries of one index file, which index.pxd describes.
# New entries wait in memory (`pending`). They are written to the file with the log's own write once there are enough of them, on
# roll, on close and when the recovery point moves. A crash loses only entries after the recovery point, which recovery rebuilds.
# An offset index keeps a descriptor for lookups, which its segment closes together with its own; a time index keeps none.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker_cy.core.cursor cimport load_u32, load_u64
from broker_cy.core.writer cimport store_u32, store_u64

cdef enum:
    # See index.pxd.
    OFFSET_ENTRY_BYTES = 8
    TIME_ENTRY_BYTES = 12
    # Most entries that wait in memory before they are written: 0.5 KB for an offset index, 0.75 KB for a time index.
    PENDING_ENTRIES_MAX = 64
    # Entries read in one go at the end of a bisection.
    SEARCH_BLOCK_ENTRIES = 32
    SEARCH_BLOCK_BYTES = 384


cdef inline int32_t get_i32(const uint8_t* p) noexcept nogil:
    return <int32_t>load_u32(p)


cdef inline int64_t get_i64(const uint8_t* p) noexcept nogil:
    return <int64_t>load_u64(p)


cdef inline void put_i32(uint8_t* p, int32_t value) noexcept nogil:
    store_u32(p, <uint32_t>value)


cdef inline void put_i64(uint8_t* p, int64_t value) noexcept nogil:
    store_u64(p, <uint64_t>value)


cdef class IndexFile:
    cdef readonly object directory          # str, shared by all of a log
    cdef readonly int64_t base_offset
    cdef int entry_bytes
    cdef readonly int64_t written           # entries in the file; -1 until the file has been read
    cdef uint8_t* pending
    cdef int64_t pending_count
    cdef int64_t pending_capacity
    cdef int read_fd                        # -1 while closed
    cdef int64_t last_key                   # of the last entry in the file; -1 until it is known

    cdef int load(self) except -1
    cdef int reader(self) except -1
    cdef int read_failed(self, int error, int64_t position) except -1
    cdef int close_reader(self) noexcept
    cdef int read_block(self, uint8_t* block, int64_t first, int64_t count) except -1
    cdef int64_t search_file(self, int64_t key, uint8_t* out) except -2
    cdef int64_t count(self) except -1
    cdef uint8_t* push(self) except NULL
    cdef int flush(self) except -1
    cdef int truncate_entries(self, int64_t count) except -1
    cdef int read_entry(self, int64_t number, uint8_t* out) except -1
    cdef int64_t search(self, int64_t key, uint8_t* out) except -2
    cdef int64_t bisect(self, const uint8_t* entries, int64_t first, int64_t count, int64_t key, uint8_t* out) noexcept
    cdef int64_t key_of(self, const uint8_t* entry) noexcept
