# Sparse indexes of one segment. Entries are big endian and strictly increasing:
#   .index      relative offset i32, position i32; the offset is the LAST offset of the batch at that position
#   .timeindex  timestamp i64, relative offset i32
# New entries wait in memory (`pending`). They are written to the file with the log's own write once there are enough of them, on
# roll, on close and when the recovery point moves. A crash loses only entries after the recovery point, which recovery rebuilds.
# An offset index keeps a descriptor for lookups, which its segment closes together with its own; a time index keeps none.
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    OFFSET_ENTRY_BYTES = 8
    TIME_ENTRY_BYTES = 12
    # Most entries that wait in memory before they are written: 0.5 KB for an offset index, 0.75 KB for a time index.
    PENDING_ENTRIES_MAX = 64

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

cdef class OffsetIndex(IndexFile):
    cdef int append(self, int64_t last_offset, int64_t position) except -1
    # Position of the entry with the largest offset <= `offset`; 0 if there is none (the start of the segment).
    cdef int64_t lookup(self, int64_t offset, int64_t* entry_offset) except -1
    # Offset of the first entry at or after `position`; -1 if there is none. `size` is that of the segment, for a good first guess.
    cdef int64_t offset_from(self, int64_t position, int64_t size) except -2
    cdef int64_t offset_among(self, const uint8_t* entries, int64_t count, int64_t position) noexcept

cdef class TimeIndex(IndexFile):
    cdef int64_t last_timestamp             # of the last entry; -1 if there is none
    cdef int64_t last_offset
    cdef int read_last(self) except -1
    cdef int maybe_append(self, int64_t timestamp, int64_t offset) except -1
    # Offset of the last entry with a timestamp <= `timestamp`; the base offset if there is none.
    cdef int64_t lookup(self, int64_t timestamp, int64_t* entry_timestamp) except? -1
