# Newest offset of each key, by a 128-bit hash of the key: 24 bytes a key. What has no room is refused, so that memory is bounded by
# `max_bytes` however many keys a log has. A pass begins in a table of 1/16 of that: the keys of most logs fit, and a table that
# stays in the processor's caches is several times as fast as one that does not. Both together are never larger than the bound.
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t next_offset             # offset + 1; 0: empty

cdef class OffsetMap:
    cdef Slot* slots
    cdef int64_t slot_count
    cdef int64_t entries_limit      # of the table in use
    cdef int64_t large_slot_count   # of the table that follows when the first is full; 0 if it is in use
    cdef double load_factor
    cdef uint64_t key_low           # of the hash: a new one for each map, so that clients cannot cause collisions
    cdef uint64_t key_high
    cdef readonly int64_t entries
    # Everything up to it has been put; -1 for nothing.
    cdef public int64_t latest_offset

    # The hash of a key, whose slot is then on its way into the processor's cache: where a few keys are hashed before the first is
    # looked up, the waits for memory, which are most of the cost, overlap.
    cdef void hash(self, const uint8_t* key, int64_t size, uint64_t* low, uint64_t* high) noexcept nogil
    # 1; 0 if the key is new and has no room; -1 if there is no memory.
    cdef int put(self, uint64_t low, uint64_t high, int64_t offset) noexcept nogil
    # The offset put last, or -1.
    cdef int64_t find(self, uint64_t low, uint64_t high) noexcept nogil
    cdef int grow(self) noexcept nogil
    cdef int set_limit(self) noexcept nogil
