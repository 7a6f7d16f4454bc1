"""The batch that ends a producer's transaction in one partition: one control record, of a fixed size.

One is written per transaction and partition, which is why it is not made by records.encode_batch; that function and wire.control
are the oracle in the tests. Key: version i16 (0), type i16 (0 abort, 1 commit); value: version i16 (0), coordinator epoch i32.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t

from broker_cy.core.crc32c cimport crc32c
from broker_cy.core.writer cimport Writer
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CONTROL, ATTRIBUTE_LOG_APPEND_TIME, ATTRIBUTE_TRANSACTIONAL, BATCH_CRC_START, BATCH_OVERHEAD_BYTES,
)

cdef enum:
    CRC_POSITION = 17
    RECORD_BYTES = 16               # after its length
    KEY_BYTES = 4
    VALUE_BYTES = 6


cdef bytes marker_batch(int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch, bint commit, int64_t timestamp_ms,
                        bint log_append_time):
    """The batch at offset 0, to be stamped with its actual offset. The caller has the only reference to the bytes."""
    cdef Writer out = Writer()
    cdef int16_t attributes = ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL
    if log_append_time:
        attributes |= ATTRIBUTE_LOG_APPEND_TIME
    out.i64(0)                      # base offset
    out.i32(MARKER_BYTES - BATCH_OVERHEAD_BYTES)
    out.i32(-1)                     # leader epoch
    out.i8(2)                       # magic
    out.i32(0)                      # checksum
    out.i16(attributes)
    out.i32(0)                      # last offset delta
    out.i64(timestamp_ms)           # base timestamp
    out.i64(timestamp_ms)           # largest timestamp
    out.i64(producer_id)
    out.i16(producer_epoch)
    out.i32(-1)                     # base sequence
    out.i32(1)                      # records
    out.varint(RECORD_BYTES)
    out.i8(0)                       # attributes of the record
    out.varint(0)                   # timestamp delta
    out.varint(0)                   # offset delta
    out.varint(KEY_BYTES)
    out.i16(0)
    out.i16(1 if commit else 0)
    out.varint(VALUE_BYTES)
    out.i16(0)
    out.i32(coordinator_epoch)
    out.varint(0)                   # headers
    out.patch_i32(CRC_POSITION, <int32_t>crc32c(0, out.buf + BATCH_CRC_START, out.pos - BATCH_CRC_START))
    return PyBytes_FromStringAndSize(<char*>out.buf, out.pos)


def encode_marker(int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch, bint commit, int64_t timestamp_ms,
                  bint log_append_time=False):
    """marker_batch, for Python."""
    return marker_batch(producer_id, producer_epoch, coordinator_epoch, commit, timestamp_ms, log_append_time)
