/* The benchmark's own CRC-32C (Castagnoli), so that it can check the broker's.
 *
 * One serial stream of the SSE4.2 instruction (about 0.11 CPU-s/GB), with which the floor is measured. Other processors
 * use a byte table; their floor is then an upper bound. */
#ifndef BENCH_CRC32C_H
#define BENCH_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t bench_crc32c_portable(uint32_t crc, const uint8_t *p, size_t n) {
    static uint32_t table[256];
    if (table[1] == 0) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++)
                c = (c >> 1) ^ (0x82F63B78u & (0u - (c & 1u)));
            table[i] = c;
        }
    }
    while (n--)
        crc = table[(crc ^ *p++) & 0xff] ^ (crc >> 8);
    return crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t bench_crc32c_sse42(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t wide = crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    while (n--)
        crc = _mm_crc32_u8(crc, *p++);
    return crc;
}
#endif

static inline uint32_t bench_crc32c(const uint8_t *p, size_t n) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~bench_crc32c_sse42(~0u, p, n);
#endif
    return ~bench_crc32c_portable(~0u, p, n);
}

/* The state `crc` (not inverted) after n more zero bytes. */
static inline uint32_t bench_crc32c_zeros(uint32_t crc, size_t n) {
    static const uint8_t zeros[4096];
    while (n) {
        size_t step = n < sizeof zeros ? n : sizeof zeros;
#if defined(__x86_64__)
        if (__builtin_cpu_supports("sse4.2"))
            crc = bench_crc32c_sse42(crc, zeros, step);
        else
#endif
            crc = bench_crc32c_portable(crc, zeros, step);
        n -= step;
    }
    return crc;
}

#endif
