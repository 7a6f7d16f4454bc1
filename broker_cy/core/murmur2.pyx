"""Murmur2 as Kafka's Java client computes it (org.apache.kafka.common.utils.Utils), for the partitions of keys."""

from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    FACTOR = 0x5BD1E995

cdef uint32_t SEED = 0x9747B28C


cdef uint32_t murmur2_of(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef uint32_t factor = FACTOR
    cdef uint32_t value = SEED ^ <uint32_t>n
    cdef uint32_t word
    while n >= 4:
        word = p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24
        word *= factor
        word = (word ^ word >> 24) * factor
        value = (value * factor) ^ word
        p += 4
        n -= 4
    if n > 0:
        value ^= p[0]
        if n > 1:
            value ^= <uint32_t>p[1] << 8
        if n > 2:
            value ^= <uint32_t>p[2] << 16
        value *= factor
    value = (value ^ value >> 13) * factor
    return value ^ value >> 15


def murmur2(bytes data not None):
    """The hash by which Kafka's clients place keys (32 bits, as unsigned)."""
    return murmur2_of(<const uint8_t*><const char*>data, len(data))
