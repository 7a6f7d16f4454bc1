"""Record batch, magic 2: the header, in C."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define BCY_BE(bits, v) __builtin_bswap##bits(v)
    #else
    #define BCY_BE(bits, v) (v)
    #endif
    static inline uint16_t bcy_load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return BCY_BE(16, v); }
    static inline uint32_t bcy_load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return BCY_BE(32, v); }
    static inline uint64_t bcy_load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return BCY_BE(64, v); }
    """
    int16_t bcy_load16(const uint8_t* p) noexcept nogil
    uint32_t bcy_load32(const uint8_t* p) noexcept nogil
    int64_t bcy_load64(const uint8_t* p) noexcept nogil


cdef int parse_header(const uint8_t* p, Py_ssize_t n, BatchHeader* out) noexcept nogil:
    if n < BATCH_HEADER_BYTES:
        return -1
    out.base_offset = bcy_load64(p)
    out.length = <int32_t>bcy_load32(p + 8)
    if out.length < BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES or out.length > n - BATCH_OVERHEAD_BYTES:
        return -1
    out.leader_epoch = <int32_t>bcy_load32(p + 12)
    out.magic = <int8_t>p[16]
    out.crc = bcy_load32(p + 17)
    out.attributes = bcy_load16(p + 21)
    out.last_offset_delta = <int32_t>bcy_load32(p + 23)
    out.base_timestamp = bcy_load64(p + 27)
    out.max_timestamp = bcy_load64(p + 35)
    out.producer_id = bcy_load64(p + 43)
    out.producer_epoch = bcy_load16(p + 51)
    out.base_sequence = <int32_t>bcy_load32(p + 53)
    out.count = <int32_t>bcy_load32(p + 57)
    return 0
