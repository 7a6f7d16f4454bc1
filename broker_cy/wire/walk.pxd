from libc.stdint cimport int32_t, int64_t, uint8_t

from broker_cy.core.cursor cimport get_varint, get_varlong

# Functions that read fields of records at p, but never at or past `end` (p <= end).

cdef inline const uint8_t* short_varint(const uint8_t* p, int32_t* out) noexcept nogil:
    """Read a zigzag varint of one or two bytes; two must be readable. Returns the place after it, or NULL for a longer one."""
    cdef uint8_t first = p[0]
    if first < 0x80:
        out[0] = (first >> 1) ^ -<int32_t>(first & 1)
        return p + 1
    if p[1] < 0x80:
        out[0] = (((first & 0x7F) >> 1) | (<int32_t>p[1] << 6)) ^ -<int32_t>(first & 1)
        return p + 2
    return NULL


cdef inline const uint8_t* read_varint(const uint8_t* p, const uint8_t* end, int32_t* out) noexcept nogil:
    """Read a zigzag varint that ends before or at `end`. Returns the place after it, or NULL. The one or two bytes that most fields
    have are read inline.
    """
    cdef const uint8_t* behind
    if p + 1 < end:
        behind = short_varint(p, out)
        if behind != NULL:
            return behind
    if get_varint(&p, end, out) != 0:
        return NULL
    return p


cdef inline const uint8_t* read_varlong(const uint8_t* p, const uint8_t* end, int64_t* out) noexcept nogil:
    """Like read_varint, for 64 bits."""
    cdef uint8_t first
    if p < end:
        first = p[0]
        if first < 0x80:
            out[0] = (first >> 1) ^ -<int64_t>(first & 1)
            return p + 1
    if get_varlong(&p, end, out) != 0:
        return NULL
    return p


cdef inline const uint8_t* read_sized(const uint8_t* p, const uint8_t* end, int32_t* size) noexcept nogil:
    """Read a length and skip that many bytes; a negative length is null. Returns the place after them, NULL if they do not fit."""
    p = read_varint(p, end, size)
    if p == NULL or size[0] > end - p:
        return NULL
    return p + size[0] if size[0] > 0 else p


# Why a walk stopped.
cdef enum WalkStatus:
    WALK_OK = 0
    WALK_LENGTH = 1             # a record's length is negative or reaches past the end
    WALK_FIELD = 2              # a field runs past the end of its record, or a varint is too long
    WALK_HEADERS = 3            # a negative or impossible number of headers, or a header without a key
    WALK_SIZE = 4               # the fields end before the record does
    WALK_REMAINING = 5          # bytes are left after the last record

# The reason why a well-formed record is not allowed.
cdef enum FaultKind:
    FAULT_NO_KEY = 1            # no key, and the topic is compacted
    FAULT_TIMESTAMP = 2         # outside the limits before and after now
    FAULT_TIMESTAMP_TYPE = 3    # the producer marked the batch as LogAppendTime

# The fields of one record that the rules check.
cdef struct RecordFields:
    int64_t timestamp_delta
    int32_t offset_delta, key_size, value_size

cdef struct RecordFault:
    int32_t index               # place in the batch, from 0
    int32_t kind                # a FaultKind
    int32_t offset_delta
    int32_t key_size            # -1: null
    int32_t value_size
    int64_t timestamp

cdef struct WalkRules:
    int64_t base_timestamp
    int64_t append_time_ms      # every record's timestamp, if append_time_set
    bint append_time_set        # the batch has LogAppendTime: its max timestamp applies to each record
    bint create_time            # the topic has CreateTime: timestamps are the producer's, and are checked
    bint key_required
    int64_t now_ms
    int64_t before_max_ms
    int64_t after_max_ms
    RecordFault* faults         # room for fault_capacity faults, or NULL to count only
    int32_t fault_capacity

cdef struct WalkResult:
    int32_t status              # a WalkStatus
    int32_t records             # complete ones; if a record is malformed, it is the one with this index
    int64_t detail              # WALK_LENGTH, WALK_SIZE: the length; WALK_HEADERS: the number; WALK_REMAINING: the bytes
    int64_t room                # the bytes available for it; WALK_SIZE: the bytes of the fields
    int64_t max_timestamp       # -1 if no record has a greater one
    int32_t faults              # the number of all, including those that did not fit
    bint timestamp_faults       # at least one of them concerns a timestamp
    bint consecutive            # the offset deltas are 0, 1, 2, ...

# Walks `count` records in the n bytes at p. Returns result.status.
cdef int walk_records(const uint8_t* p, Py_ssize_t n, int32_t count, const WalkRules* rules, WalkResult* result) noexcept nogil
