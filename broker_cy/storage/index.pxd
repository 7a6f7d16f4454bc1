# Sparse indexes of one segment. Entries are big endian and strictly increasing:
#   .index      relative offset i32, position i32; the offset is the LAST offset of the batch at that position
#   .timeindex  timestamp i64, relative offset i32
from libc.stdint cimport int64_t, uint8_t

from broker_cy.storage.index_file cimport IndexFile

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
