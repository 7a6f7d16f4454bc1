# The second walk of a cleaning: it keeps the live part of each batch (the first is map_walk).
from libc.stdint cimport int32_t, int64_t, uint8_t

from broker_cy.storage.cleaner.map_walk cimport Looked
from broker_cy.storage.cleaner.output cimport CleanedOutput
from broker_cy.storage.cleaner.offset_map cimport OffsetMap
from broker_cy.wire.batch cimport BatchHeader

# The treatment of a batch, apart from looking up its records.
cdef enum BatchRule:
    RULE_KEEP_EMPTY = 1         # its header stays even if no record does
    RULE_DISCARD = 2            # no record stays
    RULE_KEEP_ALL = 4           # a marker
    RULE_SET_HORIZON = 8        # a marker whose transaction has no data left: it gets a delete horizon

cdef class CleanWalk(CleanedOutput):
    cdef readonly object transactions
    cdef OffsetMap offsets
    cdef int64_t now_ms
    cdef int64_t upper_offset       # end of the records that this cleaning may change
    # Last data offsets of active producers, in ascending order, and the index of the first that the walk has not passed.
    cdef int64_t* kept_offsets
    cdef int64_t kept_count
    cdef int64_t kept_next
    cdef dict bare_producers        # producer id -> epoch, of those that have no data
    cdef bint again                 # the current batch has not been placed yet
    cdef bint tombstones            # some of the records that stay are tombstones
    # Statistics.
    cdef readonly int64_t records_read
    cdef readonly int64_t records_kept
    cdef readonly int64_t records_without_key

    cdef int walk(self, int64_t pause_bytes) noexcept nogil
    cdef int filter(self, const uint8_t* p, int64_t size, const BatchHeader* header, int rules) noexcept nogil
    cdef bint stays(self, const BatchHeader* header, const Looked* record) noexcept nogil
    cdef int decide(self, const BatchHeader* header, const Looked* records, int count, int rules) noexcept nogil
    cdef int place(self, int rules) noexcept nogil
    cdef bint needs_horizon(self, const BatchHeader* header, int rules) noexcept nogil
    cdef int rules_of_place(self) noexcept nogil
    cdef int special(self) except -1
    cdef int place_compressed(self, int rules) except -1
