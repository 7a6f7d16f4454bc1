/* CRC-32C (Castagnoli, RFC 3720 B.4): reflected polynomial 0x82F63B78, initial value and final xor 0xFFFFFFFF. */
#ifndef BROKER_CY_CRC32C_IMPL_H
#define BROKER_CY_CRC32C_IMPL_H

#include <stddef.h>
#include <stdint.h>

/* `crc` and the result are finished values: 0 starts, and crc32c(crc32c(0, a), b) == crc32c(0, a followed by b). */
typedef uint32_t (*bcy_crc32c_fn)(uint32_t crc, const void *data, size_t size);

typedef struct {
    const char *name;
    bcy_crc32c_fn run;
} bcy_crc32c_implementation;

/* Runs the fastest implementation this processor has. */
uint32_t bcy_crc32c(uint32_t crc, const void *data, size_t size);

/* Implementations this processor can run, slowest first; the last is what bcy_crc32c runs. `index` counts from 0; NULL past
 * the end. */
const bcy_crc32c_implementation *bcy_crc32c_usable(size_t index);

#endif
