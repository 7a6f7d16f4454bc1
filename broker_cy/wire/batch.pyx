"""Record batches, magic 2: the header, the validation of produced batches, and stamping in place.

    at  field                 at  field
     0  base_offset    i64    27  base_timestamp  i64
     8  length         i32    35  max_timestamp   i64
    12  leader_epoch   i32    43  producer_id     i64
    16  magic          i8     51  producer_epoch  i16
    17  crc            u32    53  base_sequence   i32
    21  attributes     i16    57  count           i32
    23  last_offset_delta i32 61  records

The order of checks and the error codes are Kafka 4.3's: ProduceRequest.validateRecords, then UnifiedLog.analyzeAndValidateRecords,
then LogValidator. Two checks differ from Kafka's on purpose:

* The length of each record must be correct even if the batch is compressed. Kafka ignores it there, and consumers then fail.
* Offset deltas that are not 0, 1, 2, ... : if the batch is not compressed, Kafka stores them as sent, and consumers see records at
  wrong offsets; here verdict.rebuild requests their repair. (If it is compressed, Kafka tries to repair them but fails with
  UNKNOWN_SERVER_ERROR; this broker returns the same error.)
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from broker_cy.core.crc32c cimport crc32c
from broker_cy.core.cursor cimport load_u16, load_u32, load_u64
from broker_cy.core.writer cimport store_u16, store_u32, store_u64
from broker_cy.wire.walk cimport RecordFault, WalkResult, WalkRules, walk_records

from broker_cy.wire import rejection as words
from broker_cy.wire.compression import CorruptPayload, PayloadTooLarge, decompress, decompressed_limit


cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    CODEC_ZSTD = 4
    # The most bad records that are reported. Kafka reports all of them; the response for a batch of 150,000 one-byte records would
    # have 20 MB.
    RECORD_ERRORS_MAX = 4096

# Kafka's error codes, as numbers for C (core.errors.ErrorCode has them all).
cdef enum:
    UNKNOWN_SERVER_ERROR = -1
    CORRUPT_MESSAGE = 2
    MESSAGE_TOO_LARGE = 10
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87

cdef enum NextBatch:
    NEXT_NONE = 0
    NEXT_WHOLE = 1
    NEXT_LENGTH_TOO_SMALL = 2
    NEXT_BAD_MAGIC = 3

cdef enum:
    LEGACY_OVERHEAD_V0_BYTES = 14       # the smallest `length` of any magic


cdef int parse_header(const uint8_t* p, Py_ssize_t n, BatchHeader* out) noexcept nogil:
    if n < BATCH_HEADER_BYTES:
        return -1
    out.length = <int32_t>load_u32(p + 8)
    if out.length < BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES or out.length > n - BATCH_OVERHEAD_BYTES:
        return -1
    out.base_offset = <int64_t>load_u64(p)
    out.leader_epoch = <int32_t>load_u32(p + 12)
    out.magic = <int8_t>p[BATCH_MAGIC_AT]
    out.crc = load_u32(p + 17)
    out.attributes = <int16_t>load_u16(p + 21)
    out.last_offset_delta = <int32_t>load_u32(p + 23)
    out.base_timestamp = <int64_t>load_u64(p + 27)
    out.max_timestamp = <int64_t>load_u64(p + 35)
    out.producer_id = <int64_t>load_u64(p + 43)
    out.producer_epoch = <int16_t>load_u16(p + 51)
    out.base_sequence = <int32_t>load_u32(p + 53)
    out.count = <int32_t>load_u32(p + 57)
    return 0


cdef void stamp_offset_epoch(uint8_t* p, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    store_u64(p, <uint64_t>base_offset)
    store_u32(p + 12, <uint32_t>leader_epoch)


cdef void stamp_timestamp(
    uint8_t* p, Py_ssize_t size, BatchHeader* h, int8_t timestamp_type, int64_t max_timestamp
) noexcept nogil:
    cdef int16_t attributes = h.attributes & 0x7F & ~ATTRIBUTE_LOG_APPEND_TIME
    if timestamp_type == TIMESTAMP_LOG_APPEND_TIME:
        attributes |= ATTRIBUTE_LOG_APPEND_TIME
    if h.max_timestamp == max_timestamp and (h.attributes ^ attributes) & ATTRIBUTE_LOG_APPEND_TIME == 0:
        return
    h.attributes = attributes
    h.max_timestamp = max_timestamp
    store_u16(p + 21, <uint16_t>attributes)
    store_u64(p + 35, <uint64_t>max_timestamp)
    h.crc = crc32c(0, p + BATCH_CRC_START, size - BATCH_CRC_START)
    store_u32(p + 17, h.crc)


cdef class Inflation:
    pass


cdef int refuse(BatchVerdict* verdict, int16_t error, int16_t fault, int64_t detail) noexcept nogil:
    verdict.error = error
    verdict.fault = fault
    verdict.detail = detail
    return 1


cdef int next_batch(const uint8_t* p, Py_ssize_t n, int64_t* detail) noexcept nogil:
    # The NextBatch at the beginning of the `n` bytes. An incomplete batch counts as no batch, not as an error.
    cdef int32_t length
    cdef int8_t magic
    if n < BATCH_OVERHEAD_BYTES:
        return NEXT_NONE
    length = <int32_t>load_u32(p + 8)
    detail[0] = length
    if length < LEGACY_OVERHEAD_V0_BYTES:
        return NEXT_LENGTH_TOO_SMALL
    if n <= BATCH_MAGIC_AT:
        return NEXT_NONE
    magic = <int8_t>p[BATCH_MAGIC_AT]
    if magic < 0 or magic > 2:
        detail[0] = magic
        return NEXT_BAD_MAGIC
    return NEXT_WHOLE if length <= n - BATCH_OVERHEAD_BYTES else NEXT_NONE


cdef int check_frame(const uint8_t* p, Py_ssize_t n, const ValidationRules* rules, BatchVerdict* verdict) noexcept nogil:
    # Checks that there is exactly one batch, of magic 2. Sets verdict.size.
    cdef int64_t detail = 0
    cdef int which = next_batch(p, n, &detail)
    if which == NEXT_LENGTH_TOO_SMALL:
        return refuse(verdict, CORRUPT_MESSAGE, BATCH_LENGTH_TOO_SMALL, detail)
    if which == NEXT_BAD_MAGIC:
        return refuse(verdict, CORRUPT_MESSAGE, BATCH_BAD_MAGIC, detail)
    if which == NEXT_NONE:
        return refuse(verdict, INVALID_RECORD, BATCH_MISSING, n)
    verdict.size = <int32_t>detail + BATCH_OVERHEAD_BYTES
    if p[BATCH_MAGIC_AT] != 2:
        return refuse(verdict, INVALID_RECORD, BATCH_OLD_MAGIC, p[BATCH_MAGIC_AT])
    if (
        rules.produce_version < 7 and verdict.size > BATCH_ATTRIBUTES_AT
        and p[BATCH_ATTRIBUTES_AT] & ATTRIBUTE_CODEC_MASK == CODEC_ZSTD
    ):
        return refuse(verdict, UNSUPPORTED_COMPRESSION_TYPE, BATCH_ZSTD_TOO_EARLY, rules.produce_version)
    which = next_batch(p + verdict.size, n - verdict.size, &detail)
    if which == NEXT_LENGTH_TOO_SMALL:
        return refuse(verdict, CORRUPT_MESSAGE, BATCH_LENGTH_TOO_SMALL, detail)
    if which == NEXT_BAD_MAGIC:
        return refuse(verdict, CORRUPT_MESSAGE, BATCH_BAD_MAGIC, detail)
    if which == NEXT_WHOLE:
        return refuse(verdict, INVALID_RECORD, BATCH_SECOND, n)
    return 0


cdef int check_header(
    const uint8_t* p, BatchHeader* h, const ValidationRules* rules, BatchVerdict* verdict
) noexcept nogil:
    cdef int64_t base_offset = <int64_t>load_u64(p)
    cdef uint32_t crc
    if base_offset != 0:
        return refuse(verdict, INVALID_RECORD, BATCH_BASE_OFFSET, base_offset)
    if verdict.size > rules.max_message_bytes:
        return refuse(verdict, MESSAGE_TOO_LARGE, BATCH_TOO_LARGE, rules.max_message_bytes)
    if parse_header(p, verdict.size, h) != 0:
        return refuse(verdict, CORRUPT_MESSAGE, BATCH_NO_HEADER, verdict.size)
    crc = crc32c(0, p + BATCH_CRC_START, verdict.size - BATCH_CRC_START)
    if crc != h.crc:
        return refuse(verdict, CORRUPT_MESSAGE, BATCH_CRC, crc)
    if h.attributes & ATTRIBUTE_CODEC_MASK > CODEC_ZSTD:
        return refuse(verdict, UNKNOWN_SERVER_ERROR, BATCH_CODEC, h.attributes & ATTRIBUTE_CODEC_MASK)
    if h.last_offset_delta < 0:
        return refuse(verdict, INVALID_RECORD, BATCH_OFFSET_RANGE, h.last_offset_delta)
    if h.count <= 0:
        return refuse(verdict, INVALID_RECORD, BATCH_COUNT, h.count)
    if <int64_t>h.last_offset_delta + 1 != h.count:
        return refuse(verdict, INVALID_RECORD, BATCH_COUNT_MISMATCH, h.count)
    if h.attributes & ATTRIBUTE_CONTROL:
        return refuse(verdict, INVALID_RECORD, BATCH_CONTROL, h.attributes)
    if h.producer_id > -1 and h.base_sequence < 0:
        return refuse(verdict, INVALID_RECORD, BATCH_SEQUENCE, h.base_sequence)
    return 0


cdef void set_walk_rules(
    WalkRules* walk, const BatchHeader* h, const ValidationRules* rules, int64_t now_ms, RecordFault* faults, int32_t capacity
) noexcept nogil:
    walk.base_timestamp = h.base_timestamp
    walk.append_time_set = h.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
    walk.append_time_ms = h.max_timestamp
    walk.create_time = rules.timestamp_type == TIMESTAMP_CREATE_TIME
    walk.key_required = rules.compacted
    walk.now_ms = now_ms
    walk.before_max_ms = rules.before_max_ms
    walk.after_max_ms = rules.after_max_ms
    walk.faults = faults
    walk.fault_capacity = capacity


cdef int walk_compressed(
    const uint8_t* p, Py_ssize_t n, const BatchHeader* h, const WalkRules* walk, WalkResult* result, Inflation inflation
) except -1:
    # Raises CorruptPayload or PayloadTooLarge.
    cdef Py_buffer view
    cdef int64_t limit = decompressed_limit(n)
    if inflation is not None and inflation.bytes_max < limit:
        limit = inflation.bytes_max
    payload = PyMemoryView_FromMemory(<char*>p, n, PyBUF_READ)
    plain = decompress(h.attributes & ATTRIBUTE_CODEC_MASK, payload, limit)
    PyObject_GetBuffer(plain, &view, PyBUF_SIMPLE)
    if inflation is not None and inflation.in_worker:
        with nogil:
            walk_records(<const uint8_t*>view.buf, view.len, h.count, walk, result)
    else:
        walk_records(<const uint8_t*>view.buf, view.len, h.count, walk, result)
    if inflation is not None:
        inflation.plain_bytes = view.len
        inflation.plain = plain
    PyBuffer_Release(&view)
    return 0


cdef int check_records(
    const uint8_t* p, const BatchHeader* h, const WalkRules* walk, BatchVerdict* verdict, Inflation inflation
) except -1:
    cdef const uint8_t* records = p + BATCH_HEADER_BYTES
    cdef Py_ssize_t n = verdict.size - BATCH_HEADER_BYTES
    cdef bint compressed = h.attributes & ATTRIBUTE_CODEC_MASK != 0
    if not compressed:
        walk_records(records, n, h.count, walk, &verdict.walk)
    else:
        try:
            walk_compressed(records, n, h, walk, &verdict.walk, inflation)
        except CorruptPayload:
            return refuse(verdict, UNKNOWN_SERVER_ERROR, BATCH_PAYLOAD, n)
        except PayloadTooLarge:
            if inflation is not None and inflation.bytes_max < decompressed_limit(n):
                return refuse(verdict, 0, BATCH_UNFINISHED, 0)
            return refuse(verdict, MESSAGE_TOO_LARGE, BATCH_PAYLOAD_TOO_LARGE, decompressed_limit(n))
    if verdict.walk.status != 0:
        return refuse(verdict, INVALID_RECORD, BATCH_RECORD_BOUNDS, verdict.walk.records)
    if verdict.walk.faults > 0:
        return refuse(
            verdict, INVALID_TIMESTAMP if verdict.walk.timestamp_faults else INVALID_RECORD, BATCH_RECORDS, verdict.walk.faults
        )
    if not verdict.walk.consecutive:
        if compressed:
            return refuse(verdict, UNKNOWN_SERVER_ERROR, BATCH_OFFSET_DELTAS, 0)
        verdict.rebuild = True
    return 0


cdef int validate_batch(
    uint8_t* p, Py_ssize_t n, BatchHeader* h, const ValidationRules* rules, int64_t now_ms, BatchVerdict* verdict, Inflation inflation
) except -1:
    cdef WalkRules walk
    memset(verdict, 0, sizeof(BatchVerdict))
    if check_frame(p, n, rules, verdict) or check_header(p, h, rules, verdict):
        return 1
    set_walk_rules(&walk, h, rules, now_ms, NULL, 0)
    if check_records(p, h, &walk, verdict, inflation):
        return 1
    if rules.target_codec >= 0 and rules.target_codec != h.attributes & ATTRIBUTE_CODEC_MASK:
        verdict.rebuild = True
    verdict.max_timestamp = now_ms if rules.timestamp_type == TIMESTAMP_LOG_APPEND_TIME else verdict.walk.max_timestamp
    stamp_timestamp(p, verdict.size, h, rules.timestamp_type, verdict.max_timestamp)
    return 0


cdef list record_faults(
    const uint8_t* p, const ValidationRules* rules, int64_t now_ms, const BatchVerdict* verdict, RecordFault* faults, int32_t room
):
    cdef BatchHeader h
    cdef WalkRules walk
    cdef BatchVerdict again
    cdef int32_t i
    memset(&again, 0, sizeof(BatchVerdict))
    again.size = verdict.size
    parse_header(p, verdict.size, &h)
    set_walk_rules(&walk, &h, rules, now_ms, faults, room)
    check_records(p, &h, &walk, &again, None)
    compressed = h.attributes & ATTRIBUTE_CODEC_MASK != 0
    return [
        words.RecordFault(
            faults[i].index, faults[i].kind, faults[i].offset_delta, faults[i].timestamp, faults[i].key_size, faults[i].value_size,
            compressed,
        )
        for i in range(min(again.walk.faults, room))
    ]


cdef object rejection(
    const uint8_t* p, Py_ssize_t n, const ValidationRules* rules, int64_t now_ms, const BatchVerdict* verdict, object topic_partition
):
    cdef RecordFault* faults
    cdef int32_t room
    if verdict.fault != BATCH_RECORDS:
        return words.explain(
            verdict.error, verdict.fault, verdict.detail, verdict.size,
            (verdict.walk.status, verdict.walk.records, verdict.walk.detail, verdict.walk.room), topic_partition,
        )
    # A second walk finds the bad records, so that the first one need not keep a list.
    room = min(verdict.walk.faults, RECORD_ERRORS_MAX)
    faults = <RecordFault*>PyMem_Malloc(room * sizeof(RecordFault))
    if faults == NULL:
        raise MemoryError()
    try:
        found = record_faults(p, rules, now_ms, verdict, faults, room)
    finally:
        PyMem_Free(faults)
    # The limits may be as large as an int64; these sums wrap around, as Kafka's do.
    allowed = (
        <int64_t>(<uint64_t>now_ms - <uint64_t>rules.before_max_ms), <int64_t>(<uint64_t>now_ms + <uint64_t>rules.after_max_ms)
    )
    return words.explain_records(verdict.error, verdict.walk.faults, found, allowed, topic_partition)


def validate(
    data not None, *, int64_t now_ms, str topic_partition="topic-0", int8_t timestamp_type=TIMESTAMP_CREATE_TIME,
    int64_t before_max_ms=0x7FFFFFFFFFFFFFFF, int64_t after_max_ms=3_600_000, int32_t max_message_bytes=1_048_588,
    bint compacted=False, int8_t target_codec=CODEC_AS_PRODUCED, int16_t produce_version=13,
):
    """validate_batch for Python. `data` is a writable buffer, which is corrected in place if the batch is accepted.

    Returns an Accepted or a Rejection (wire/rejection.py).
    """
    cdef Py_buffer view
    cdef BatchHeader h
    cdef ValidationRules rules
    cdef BatchVerdict verdict
    rules.timestamp_type = timestamp_type
    rules.before_max_ms = before_max_ms
    rules.after_max_ms = after_max_ms
    rules.max_message_bytes = max_message_bytes
    rules.compacted = compacted
    rules.target_codec = target_codec
    rules.produce_version = produce_version
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE | 1)    # 1: PyBUF_WRITABLE
    try:
        if validate_batch(<uint8_t*>view.buf, view.len, &h, &rules, now_ms, &verdict, None) != 0:
            return rejection(<uint8_t*>view.buf, view.len, &rules, now_ms, &verdict, topic_partition)
        return words.Accepted(verdict.size, verdict.max_timestamp, bool(verdict.rebuild), h.attributes & ATTRIBUTE_TRANSACTIONAL != 0)
    finally:
        PyBuffer_Release(&view)


def stamp(data not None, int64_t base_offset, int32_t leader_epoch):
    """Set the base offset and the leader epoch of the batch in the writable buffer `data`. Raises ValueError if it is too short
    for a header.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE | 1)    # 1: PyBUF_WRITABLE
    try:
        if view.len < BATCH_HEADER_BYTES:
            raise ValueError(f"the header of a record batch has {BATCH_HEADER_BYTES} bytes; {view.len} were given")
        stamp_offset_epoch(<uint8_t*>view.buf, base_offset, leader_epoch)
    finally:
        PyBuffer_Release(&view)
