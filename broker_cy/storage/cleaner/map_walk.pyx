"""The first walk of a cleaning: the newest offset of each key, over all records not cleaned yet (Kafka's buildOffsetMap)."""

from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.cursor cimport load_u16
from broker_cy.storage.cleaner.source cimport FAULT_MEMORY, FAULT_RECORDS, BatchSource
from broker_cy.storage.cleaner.offset_map cimport OffsetMap
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_BYTES, BatchHeader, batch_bytes,
)
from broker_cy.wire.walk cimport read_sized, read_varint, read_varlong

from broker_cy.storage.errors import CorruptSegment
from broker_cy.wire.compression import decompress

cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    # Largest decompressed size of the records of one batch: the largest value of a length field.
    PAYLOAD_BYTES_MAX = 0x7FFFFFFF
    CONTROL_KEY_BYTES = 4


cdef int put_keys(OffsetMap offsets, const Looked* keys, int count) noexcept nogil:
    """Put `count` keys into the map; the results are those of map_records."""
    cdef int i, done
    for i in range(count):
        done = offsets.put(keys[i].low, keys[i].high, keys[i].offset)
        if done <= 0:
            return 0 if done == 0 else -2
    return 1


cdef int map_records(const uint8_t* p, int64_t size, const BatchHeader* header, OffsetMap offsets, int64_t start_offset) noexcept nogil:
    """Put the keys of a batch's records into the map. Return 1 if all are in it, 0 if it is full, -1 if the records are malformed,
    -2 if there is no memory."""
    cdef const uint8_t* end = p + size
    cdef const uint8_t* field
    cdef int32_t length = 0, offset_delta = 0, key_size = 0, _index
    cdef int64_t timestamp_delta = 0
    cdef Looked[LOOKED_MAX] keys
    cdef int done, count = 0
    for _index in range(header.count):
        p = read_varint(p, end, &length)
        if p == NULL or length < 1 or length > end - p:
            return -1
        field = read_varlong(p + 1, p + length, &timestamp_delta)
        if field != NULL:
            field = read_varint(field, p + length, &offset_delta)
        if field != NULL:
            field = read_sized(field, p + length, &key_size)
        if field == NULL:
            return -1
        if key_size >= 0 and header.base_offset + offset_delta >= start_offset:
            offsets.hash(field - key_size, key_size, &keys[count].low, &keys[count].high)
            keys[count].offset = header.base_offset + offset_delta
            count += 1
            if count == LOOKED_MAX:
                done = put_keys(offsets, keys, count)
                if done != 1:
                    return done
                count = 0
        p += length
    done = put_keys(offsets, keys, count)
    return done if p == end or done != 1 else -1


cdef int map_walk(BatchSource source, OffsetMap offsets, int64_t start_offset, int64_t pause_bytes) noexcept nogil:
    cdef int found
    while True:
        if source.read_bytes >= pause_bytes:
            return STOP_PAUSE
        found = source.advance()
        if found <= 0:
            return STOP_END if found == 0 else STOP_FAULT
        if source.next_offset <= start_offset:
            if source.header.attributes & (ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL):
                return STOP_SPECIAL
            continue
        if source.header.attributes & (ATTRIBUTE_CODEC_MASK | ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL):
            return STOP_SPECIAL
        found = map_records(
            source.data + BATCH_HEADER_BYTES, batch_bytes(&source.header) - BATCH_HEADER_BYTES, &source.header, offsets, start_offset
        )
        if found == 0:
            return STOP_FULL
        if found < 0:
            source.failed(FAULT_RECORDS if found == -1 else FAULT_MEMORY)
            return STOP_FAULT
        offsets.latest_offset = source.next_offset - 1


cdef object payload_of(BatchSource source):
    """The records of the current batch, decompressed: a bytes-like object. Raises CorruptSegment."""
    cdef int codec = source.header.attributes & ATTRIBUTE_CODEC_MASK
    cdef int64_t size = batch_bytes(&source.header) - BATCH_HEADER_BYTES
    plain = PyMemoryView_FromMemory(<char*>source.data + BATCH_HEADER_BYTES, size, PyBUF_READ)
    if codec == 0 or (size == 0 and source.header.count == 0):
        return plain
    try:
        return decompress(codec, plain, PAYLOAD_BYTES_MAX)
    except ValueError as error:         # CorruptPayload, PayloadTooLarge, or an unknown codec
        raise CorruptSegment(source.path, source.position, f"batch at offset {source.header.base_offset}: {error}") from error


cdef object control_kind(BatchSource source):
    """Type of the control record in the current batch, None if it is empty. Raises CorruptSegment."""
    cdef const uint8_t* p = source.data + BATCH_HEADER_BYTES
    cdef const uint8_t* end = source.data + batch_bytes(&source.header)
    cdef int32_t number = 0, key_size = 0
    cdef int64_t timestamp = 0
    if source.header.count == 0:
        return None
    p = read_varint(p, end, &number)
    if p != NULL and p < end:
        p = read_varlong(p + 1, end, &timestamp)
        if p != NULL:
            p = read_varint(p, end, &number)
        if p != NULL:
            p = read_sized(p, end, &key_size)
        if p != NULL and key_size >= CONTROL_KEY_BYTES:
            return <int16_t>load_u16(p - key_size + 2)
    source.failed(FAULT_RECORDS)
    source.raise_fault()


def map_keys(BatchSource source not None, OffsetMap offsets not None, int64_t start_offset, transactions, pause, int64_t pause_bytes):
    """Note in `offsets` the newest offset of each key from `start_offset` on, leaving out aborted transactions. Return whether the
    map is full (then offsets.latest_offset is that of the last key put).

    `pause(bytes)` is called after each `pause_bytes` read. Raises what `pause` raises, CorruptSegment, OSError, MemoryError.
    """
    cdef int stop, done
    cdef const uint8_t[::1] payload
    while True:
        with nogil:
            stop = map_walk(source, offsets, start_offset, pause_bytes)
        if stop == STOP_PAUSE or stop == STOP_END or stop == STOP_FULL:
            pause(source.read_bytes)
            source.read_bytes = 0
            if stop != STOP_PAUSE:
                return stop == STOP_FULL
            continue
        if stop == STOP_FAULT:
            source.raise_fault()
        if source.header.attributes & ATTRIBUTE_CONTROL:
            transactions.on_marker(source.header.producer_id, source.next_offset - 1, control_kind(source))
        elif source.header.attributes & ATTRIBUTE_TRANSACTIONAL and transactions.on_data(
            source.header.producer_id, source.next_offset - 1
        ):
            pass
        elif source.next_offset > start_offset and source.header.count > 0:
            payload = payload_of(source)
            done = 1 if payload.shape[0] == 0 else -1
            if payload.shape[0] > 0:
                with nogil:
                    done = map_records(&payload[0], payload.shape[0], &source.header, offsets, start_offset)
            if done == 0:
                return True
            if done < 0:
                source.failed(FAULT_RECORDS if done == -1 else FAULT_MEMORY)
                source.raise_fault()
        if source.next_offset > start_offset:
            offsets.latest_offset = source.next_offset - 1
