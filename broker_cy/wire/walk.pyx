"""The walk over the (uncompressed) records of a batch, magic 2: bounds, keys, timestamps, offset deltas. No Python object is made.

    Record => length: varint          of the rest
              attributes: int8        unused
              timestamp_delta: varlong
              offset_delta: varint
              key_length: varint      -1: null
              key
              value_length: varint    -1: null
              value
              headers: varint count, then (key_length: varint, key, value_length: varint (-1: null), value) each

Kafka's checks of a record are in LogValidator.validateRecord and DefaultRecord.readFrom. No field is read past the end of its
record, so a field can never reach into the next record.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef const uint8_t* walk_headers(const uint8_t* p, const uint8_t* end, int32_t count, WalkResult* result) noexcept nogil:
    cdef int32_t size = 0
    result.detail = count
    result.room = end - p
    if count < 0 or count > end - p:
        result.status = WALK_HEADERS
        return NULL
    while count > 0:
        count -= 1
        p = read_sized(p, end, &size)
        if p != NULL and size < 0:
            result.status = WALK_HEADERS
            return NULL
        if p != NULL:
            p = read_sized(p, end, &size)
        if p == NULL:
            result.status = WALK_FIELD
            return NULL
    return p


cdef void note_fault(const WalkRules* rules, WalkResult* result, RecordFault* fault) noexcept nogil:
    if rules.faults != NULL and result.faults < rules.fault_capacity:
        rules.faults[result.faults] = fault[0]
    result.faults += 1
    if fault.kind != FAULT_NO_KEY:
        result.timestamp_faults = True


cdef inline int fault_of(const WalkRules* rules, int32_t key_size, int64_t timestamp) noexcept nogil:
    cdef int64_t age
    if rules.key_required and key_size < 0:
        return FAULT_NO_KEY
    if rules.create_time and timestamp != -1:
        # For absurd timestamps this wraps around like Java's long, so both comparisons have the same results as Kafka's.
        age = <int64_t>(<uint64_t>rules.now_ms - <uint64_t>timestamp)
        if age > rules.before_max_ms or <int64_t>(0 - <uint64_t>age) > rules.after_max_ms:
            return FAULT_TIMESTAMP
    elif rules.append_time_set:
        return FAULT_TIMESTAMP_TYPE
    return 0


cdef enum:
    # The most bytes before the key of a record whose fields take one or two bytes each: length, attributes (one byte), timestamp
    # delta, offset delta, key length.
    SHORT_PREFIX_BYTES = 9


cdef inline const uint8_t* short_record(const uint8_t* p, const uint8_t* end, RecordFields* record) noexcept nogil:
    """Read a well-formed record without headers whose fields take one or two bytes each, as most records are, with one comparison
    with `end` for its first five fields. Returns the place after it, or NULL for any other record, well-formed or not, which
    any_record then reads field by field.
    """
    cdef const uint8_t* record_end
    cdef int32_t length = 0, timestamp_delta = 0
    if end - p < SHORT_PREFIX_BYTES:
        return NULL
    p = short_varint(p, &length)
    if p == NULL or length < SHORT_PREFIX_BYTES or length > end - p:
        return NULL
    record_end = p + length
    p = short_varint(p + 1, &timestamp_delta)
    if p == NULL:
        return NULL
    record.timestamp_delta = timestamp_delta
    p = short_varint(p, &record.offset_delta)
    if p == NULL:
        return NULL
    p = short_varint(p, &record.key_size)
    if p == NULL or record.key_size > record_end - p:
        return NULL
    if record.key_size > 0:
        p += record.key_size
    if record_end - p < 3:
        return NULL
    p = short_varint(p, &record.value_size)
    if p == NULL or record.value_size >= record_end - p:
        return NULL
    if record.value_size > 0:
        p += record.value_size
    if p + 1 != record_end or p[0] != 0:
        return NULL
    return record_end


cdef const uint8_t* any_record(const uint8_t* p, const uint8_t* end, RecordFields* record, WalkResult* result) noexcept nogil:
    """Read any record, field by field. Returns the place after it, or NULL and the reason in `result`."""
    cdef const uint8_t* record_end
    cdef int32_t length = 0, headers = 0
    p = read_varint(p, end, &length)
    if p == NULL or length < 1 or length > end - p:
        result.status = WALK_LENGTH
        result.detail = length if p != NULL else 0
        result.room = end - p if p != NULL else 0
        return NULL
    record_end = p + length
    p = read_varlong(p + 1, record_end, &record.timestamp_delta)
    if p != NULL:
        p = read_varint(p, record_end, &record.offset_delta)
    if p != NULL:
        p = read_sized(p, record_end, &record.key_size)
    if p != NULL:
        p = read_sized(p, record_end, &record.value_size)
    if p != NULL:
        p = read_varint(p, record_end, &headers)
    if p == NULL:
        result.status = WALK_FIELD
        return NULL
    if headers != 0:
        p = walk_headers(p, record_end, headers, result)
        if p == NULL:
            return NULL
    if p != record_end:
        result.status = WALK_SIZE
        result.detail = length
        result.room = length - (record_end - p)
        return NULL
    return p


cdef int walk_records(const uint8_t* p, Py_ssize_t n, int32_t count, const WalkRules* rules, WalkResult* result) noexcept nogil:
    cdef const uint8_t* end = p + n
    cdef const uint8_t* behind
    cdef RecordFields record
    cdef int32_t index = 0
    cdef int64_t timestamp
    cdef int64_t max_timestamp = -1
    cdef uint64_t deltas_off = 0
    cdef int kind
    cdef RecordFault fault
    result.status = WALK_OK
    result.records = 0
    result.detail = 0
    result.room = 0
    result.faults = 0
    result.timestamp_faults = False
    record.timestamp_delta = 0
    record.offset_delta = record.key_size = record.value_size = 0
    while index < count:
        behind = short_record(p, end, &record)
        if behind == NULL:
            result.records = index
            behind = any_record(p, end, &record, result)
            if behind == NULL:
                return result.status
        p = behind
        deltas_off |= <uint64_t>(<int64_t>record.offset_delta - index)
        timestamp = rules.append_time_ms
        if not rules.append_time_set:
            timestamp = <int64_t>(<uint64_t>rules.base_timestamp + <uint64_t>record.timestamp_delta)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        kind = fault_of(rules, record.key_size, timestamp)
        if kind != 0:
            fault.index = index
            fault.kind = kind
            fault.offset_delta = record.offset_delta
            fault.key_size = record.key_size
            fault.value_size = record.value_size
            fault.timestamp = timestamp
            note_fault(rules, result, &fault)
        index += 1
    result.records = index
    result.max_timestamp = max_timestamp
    result.consecutive = deltas_off == 0
    if p != end:
        result.status = WALK_REMAINING
        result.detail = end - p
    return result.status
