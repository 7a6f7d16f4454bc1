"""Setting producer id, epoch and sequence in the header of an encoded batch, with the matching checksum.

The records do not change, so only the checksum of the header is computed for each request: CRC-32C is linear, and the
checksum of two parts is that of the first, shifted by as many zero bytes as the second has, xor that of the second.
Shifting is a multiplication by a matrix of 32 x 32 bits that depends only on the number of bytes.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from bench.wire.system cimport bench_crc32c, put32, put64


cdef enum:
    BATCH_HEADER = 61
    CRC_AT = 17
    COVERED_AT = 21
    PRODUCER_AT = 43            # producer id, epoch, base sequence
    SHIFT_WORDS = 32
    SEQUENCE_MAX = 0x7FFFFFFF


cdef struct Producer:
    int64_t id
    int16_t epoch


cdef inline uint32_t shifted(uint32_t crc, const uint32_t* shift) noexcept nogil:
    """Return `crc` shifted by the number of bytes for which `shift` was made (`shift_of`)."""
    cdef uint32_t out = 0
    cdef int i
    for i in range(SHIFT_WORDS):
        out ^= shift[i] & (0 - ((crc >> i) & 1))
    return out


cdef inline void stamp_header(
    uint8_t* header, const uint8_t* batch, const Producer* producer, int32_t sequence, uint32_t records_crc,
    const uint32_t* shift,
) noexcept nogil:
    """Write the header for the records of `batch`; `records_crc` and `shift` are of all bytes after the header."""
    memcpy(header, batch, BATCH_HEADER)
    put64(header + PRODUCER_AT, producer.id)
    header[PRODUCER_AT + 8] = <uint8_t> ((producer.epoch >> 8) & 0xFF)
    header[PRODUCER_AT + 9] = <uint8_t> (producer.epoch & 0xFF)
    put32(header + PRODUCER_AT + 10, sequence)
    put32(header + CRC_AT, <int32_t> (
        shifted(bench_crc32c(header + COVERED_AT, BATCH_HEADER - COVERED_AT), shift) ^ records_crc
    ))


cdef inline int32_t next_sequence(int32_t sequence, int32_t records) noexcept nogil:
    """Return the sequence after `records` records; it wraps from the highest int32 to 0."""
    return <int32_t> ((<int64_t> sequence + records) & SEQUENCE_MAX)
