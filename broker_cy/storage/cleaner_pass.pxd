# The two walks of a cleaning, over sources (cleaner_source): MapWalk notes the newest offset of each key, CleanWalk writes what stays.
# Both go on without the GIL until they need something of Python, and return why.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from broker_cy.storage.cleaner_source cimport BatchSource
from broker_cy.storage.offset_map cimport OffsetMap
from broker_cy.wire.batch cimport BatchHeader

cdef enum WalkStop:
    STOP_END = 0
    STOP_FAULT = 1
    STOP_PAUSE = 2              # enough was read for the throttle, and to ask whether to go on
    STOP_SPECIAL = 3            # the current batch is compressed, a marker or of a transaction
    STOP_FULL = 4               # the map has no room for the current batch's keys
    STOP_FLUSH = 5              # the output buffer has no room for the current batch

# What has to be done with a batch beside looking its records up.
cdef enum BatchRule:
    RULE_KEEP_EMPTY = 1         # its header stays though no record does
    RULE_DISCARD = 2            # no record stays
    RULE_KEEP_ALL = 4           # a marker
    RULE_SET_HORIZON = 8        # a marker of nothing: its time to go is set

# Records that stay and follow each other: bytes [start, end) of a payload.
cdef struct Run:
    int64_t start
    int64_t end

# A record that was read and is still to be looked up.
cdef struct Looked:
    int64_t start               # of the record, in the payload
    int64_t end
    int64_t offset
    int64_t timestamp
    int32_t key_size
    int32_t value_size
    uint64_t low                # of the key's hash
    uint64_t high

cdef enum:
    LOOKED_MAX = 32

cdef struct Growing:
    uint8_t* data
    int64_t size
    int64_t capacity

cdef class CleanWalk:
    cdef readonly object transactions
    cdef OffsetMap offsets
    cdef BatchSource source
    cdef int64_t now_ms
    cdef int64_t horizon_ms         # for tombstones and markers that have none yet
    cdef int64_t upper_offset       # end of what this cleaning may touch
    cdef int64_t index_interval_bytes
    cdef int64_t index_bytes_max
    cdef int64_t base_offset        # of the segment that is written
    # Last data offsets of active producers, rising, and the first of them that is not passed.
    cdef int64_t* kept_offsets
    cdef int64_t kept_count
    cdef int64_t kept_next
    cdef dict bare_producers        # producer id -> epoch, of those that have no data
    # What is written: `written` bytes are in the file, `out` comes after them.
    cdef object write
    cdef Growing out
    cdef int64_t buffer_bytes
    cdef readonly int64_t written
    cdef bint again                 # the current batch is still to be placed
    cdef Growing index
    cdef Growing time_index
    cdef int64_t bytes_since_index
    cdef int64_t last_indexed_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t max_timestamp_offset
    cdef readonly int64_t next_offset   # after the last batch written; base_offset where there is none
    # What filter found in the current batch.
    cdef Growing runs               # of Run
    cdef int32_t kept
    cdef bint tombstones
    cdef int64_t kept_max_timestamp
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
    cdef int64_t put_records(self, uint8_t* out, const uint8_t* payload, const BatchHeader* header, bint horizon) noexcept nogil
    cdef int put_header(self, uint8_t* out, int64_t records_bytes, bint horizon) noexcept nogil
    cdef int put_empty(self, uint8_t* out) noexcept nogil
    cdef int note(self, int64_t max_timestamp, int64_t size) noexcept nogil
    cdef int add_time_entry(self) noexcept nogil
    cdef int rules_of_place(self) noexcept nogil
    cdef int flush(self) except -1
    cdef int special(self) except -1
    cdef int place_compressed(self, int rules) except -1
