"""The `.snapshot` file of a log's producer state: version i16 (1), CRC-32C u32 of the rest, count i32, entries of 46 bytes.

An entry: producer id i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32,
first offset of the open transaction i64 (-1: none).
"""

from libc.stdint cimport int32_t, int64_t

from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer
from broker_cy.storage.producer_state cimport NO_SEQUENCE, ProducedBatch, Producer, ProducerState

from broker_cy.core.crc32c import value as crc32c_value
from broker_cy.core.errors import WireError

cdef enum:
    SNAPSHOT_ENTRY_BYTES = 46

SNAPSHOT_VERSION = 1


def encode_producers(ProducerState state not None, bint committed):
    """The bytes of a `.snapshot` file of this state; with `committed`, of the state at the last commit."""
    cdef Writer out = Writer()
    cdef Producer* producer
    cdef int32_t written = 0
    cdef ProducedBatch none
    cdef ProducedBatch* last
    cdef Py_ssize_t i
    none.last_offset = -1
    none.last_sequence = NO_SEQUENCE
    none.offset_delta = 0
    out.i32(<int32_t>state.count)
    for i in range(state.count):
        producer = &state.producers[i]
        if committed:
            producer = state.committed(producer)
            if producer == NULL:
                continue
        written += 1
        last = &producer.batches[producer.newest] if producer.count > 0 else &none
        out.i64(producer.producer_id)
        out.i16(producer.epoch)
        out.i32(last.last_sequence)
        out.i64(last.last_offset)
        out.i32(last.offset_delta)
        out.i64(producer.last_timestamp)
        out.i32(producer.coordinator_epoch)
        out.i64(producer.txn_first_offset)
    out.patch_i32(0, written)
    entries = out.getvalue()
    return SNAPSHOT_VERSION.to_bytes(2) + crc32c_value(entries).to_bytes(4) + entries


def load_producers(ProducerState state not None, data, int64_t end_offset):
    """Replace the state by that of a `.snapshot` file taken at `end_offset`. Raises WireError if the bytes are not a
    snapshot."""
    cdef Cursor cursor = Cursor(data)
    cdef Producer* producer
    cdef int32_t _i, count
    version = cursor.i16()
    if version != SNAPSHOT_VERSION:
        raise WireError(f"the snapshot has version {version}, expected {SNAPSHOT_VERSION}")
    stored = cursor.u32()
    if stored != crc32c_value(memoryview(data)[6:]):
        raise WireError("the checksum of the snapshot is wrong")
    count = cursor.i32()
    if count < 0 or count * <int64_t>SNAPSHOT_ENTRY_BYTES != cursor.remaining():
        raise WireError(f"snapshot claims {count} producers in {cursor.remaining()} bytes")
    state.clear(end_offset)
    for _i in range(count):
        producer = state.obtain(cursor.i64())
        producer.epoch = cursor.i16()
        producer.batches[0].last_sequence = cursor.i32()
        producer.batches[0].last_offset = cursor.i64()
        producer.batches[0].offset_delta = cursor.i32()
        producer.last_timestamp = cursor.i64()
        producer.batches[0].timestamp = producer.last_timestamp
        producer.coordinator_epoch = cursor.i32()
        producer.txn_first_offset = cursor.i64()
        producer.newest = 0
        producer.count = 1 if producer.batches[0].last_offset >= 0 else 0
    state.newest_only = count > 0
    state.find_open()
