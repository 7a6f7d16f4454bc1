# Newest offset of each key, by a 128-bit hash of the key: 24 bytes per key. A key that does not fit is refused, so that memory is
# bounded by `max_bytes` however many keys a log has. A pass begins with a table of 1/16 of that: the keys of most logs fit, and a
# table that stays in the processor's caches is several times as fast as one that does not. Both together never exceed the bound.
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t next_offset             # offset + 1; 0: empty

cdef class OffsetMap:
    cdef Slot* slots
    cdef int64_t slot_count
    cdef int64_t entries_limit      # of the table in use
    cdef int64_t large_slot_count   # of the table that replaces the first one when that is full; 0 once it is in use
    cdef double load_factor
    cdef uint64_t key_low           # of the hash: a new one for each map, so that clients cannot cause collisions
    cdef uint64_t key_high
    cdef readonly int64_t entries
    # All keys up to this offset have been put; -1 if there are none.
    cdef public int64_t latest_offset

    # Hashes a key and prefetches its slot into the processor's cache. If a few keys are hashed before the first is looked up, the
    # waits for memory, which are most of the cost, overlap.
    cdef void hash(self, const uint8_t* key, int64_t size, uint64_t* low, uint64_t* high) noexcept nogil
    # Returns 1; 0 if the key is new and does not fit; -1 if there is no memory.
    cdef int put(self, uint64_t low, uint64_t high, int64_t offset) noexcept nogil
    # Returns the offset that was put last for the key, or -1.
    cdef int64_t find(self, uint64_t low, uint64_t high) noexcept nogil
    cdef int grow(self) noexcept nogil
    cdef int set_limit(self) noexcept nogil
