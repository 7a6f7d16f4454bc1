/* Four implementations of CRC-32C, chosen once when the module is loaded:
 *
 *   portable       slicing by 8 (Kounavis and Berry, 2005): eight table look-ups for eight bytes
 *   sse42          the crc32 instruction on three streams at once
 *   sse42-pclmul   the same, streams joined by a carry-less multiplication
 *   armv8          the crc32c instruction of the ARMv8 CRC extension on three streams
 *
 * The crc32 instruction has a latency of three cycles and a throughput of one, so one dependent chain reaches a third of what
 * the unit can do. Three neighbouring pieces A, B, C of L bytes each are therefore run side by side, and joined:
 *
 *   crc(ABC) = crc(A) * x^(16 L) + crc(B) * x^(8 L) + crc(C)    modulo the polynomial
 *
 * Registers hold polynomials bit-reflected: bit 31 of a 32-bit register is x^0. A carry-less product of two such registers,
 * read as a reflected 64-bit polynomial, is the product times x, and the crc32 instruction on 64 bits (starting at 0)
 * multiplies by x^32 and reduces. Joining by pclmul thus needs the constants x^(8 n - 33). */
#include "crc32c_impl.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_X86 1
#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define HAVE_ARM 1
#endif

#define POLYNOMIAL 0x82F63B78u
#define ONE 0x80000000u /* x^0, reflected */

/* Bytes of one of the three pieces, largest first. A small batch (one record) still gets the last size. */
#define PIECE_SIZES 3
static const size_t piece_bytes[PIECE_SIZES] = {4096, 512, 64};

static uint32_t table[8][256];

static inline uint64_t load_le64(const unsigned char *p) {
    uint64_t value;
    memcpy(&value, p, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (POLYNOMIAL & (0u - (crc & 1u)));
        table[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++)
            table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xFF];
}

static uint32_t portable(uint32_t crc, const void *data, size_t size) {
    const unsigned char *p = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word = load_le64(p) ^ crc;
        crc = table[7][word & 0xFF] ^ table[6][(word >> 8) & 0xFF] ^ table[5][(word >> 16) & 0xFF] ^
              table[4][(word >> 24) & 0xFF] ^ table[3][(word >> 32) & 0xFF] ^ table[2][(word >> 40) & 0xFF] ^
              table[1][(word >> 48) & 0xFF] ^ table[0][word >> 56];
    }
    for (; size > 0; size--, p++)
        crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xFF];
    return ~crc;
}

#if HAVE_X86 || HAVE_ARM

/* Product of two reflected polynomials modulo the CRC's. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int i = 0; i < 32; i++) {
        product ^= b & (0u - (a >> 31)); /* the highest bit of `a` is its lowest power */
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & (0u - (b & 1u))); /* b *= x */
    }
    return product;
}

static uint32_t power_of_x(uint64_t exponent) {
    uint32_t result = ONE;
    uint32_t square = ONE >> 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

/* For each piece size L: x^(16 L) and x^(8 L), and the same divided by x^33 for pclmul. */
static uint32_t shift_two[PIECE_SIZES], shift_one[PIECE_SIZES];
static uint64_t fold_two[PIECE_SIZES], fold_one[PIECE_SIZES];

static void make_shifts(void) {
    for (int k = 0; k < PIECE_SIZES; k++) {
        uint64_t bits = 8 * (uint64_t)piece_bytes[k];
        shift_two[k] = power_of_x(2 * bits);
        shift_one[k] = power_of_x(bits);
        fold_two[k] = power_of_x(2 * bits - 33);
        fold_one[k] = power_of_x(bits - 33);
    }
}

#endif

/* The three-stream loop, for any instruction that takes 8 bytes (STEP64) or 1 (STEP8) into a 32-bit register, and any way of
 * joining. LAST_PIECE is the smallest size used: below it joining costs more than it saves. */
#define THREE_STREAMS(STEP64, STEP8, JOIN, LAST_PIECE)                                      \
    const unsigned char *p = data;                                                          \
    uint64_t a = (uint32_t)~crc;                                                            \
    for (int k = 0; k <= (LAST_PIECE); k++) {                                               \
        const size_t piece = piece_bytes[k];                                                \
        while (size >= 3 * piece) {                                                         \
            uint64_t b = 0, c = 0;                                                          \
            for (const unsigned char *end = p + piece; p < end; p += 8) {                   \
                a = STEP64(a, load_le64(p));                                                \
                b = STEP64(b, load_le64(p + piece));                                        \
                c = STEP64(c, load_le64(p + 2 * piece));                                    \
            }                                                                               \
            a = JOIN(k, a, b, c);                                                           \
            p += 2 * piece;                                                                 \
            size -= 3 * piece;                                                              \
        }                                                                                   \
    }                                                                                       \
    for (; size >= 8; size -= 8, p += 8)                                                    \
        a = STEP64(a, load_le64(p));                                                        \
    for (; size > 0; size--, p++)                                                           \
        a = STEP8((uint32_t)a, *p);                                                         \
    return ~(uint32_t)a

#define JOIN_BY_MULTIPLY(k, a, b, c) \
    (multiply((uint32_t)(a), shift_two[k]) ^ multiply((uint32_t)(b), shift_one[k]) ^ (uint32_t)(c))

#if HAVE_X86

__attribute__((target("sse4.2"))) static uint32_t sse42(uint32_t crc, const void *data, size_t size) {
    THREE_STREAMS(_mm_crc32_u64, _mm_crc32_u8, JOIN_BY_MULTIPLY, 1);
}

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t join_by_pclmul(int k, uint64_t a, uint64_t b, uint64_t c) {
    __m128i two = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi64_si128((long long)fold_two[k]), 0);
    __m128i one = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)b), _mm_cvtsi64_si128((long long)fold_one[k]), 0);
    uint64_t sum = (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(two, one));
    return _mm_crc32_u64(0, sum) ^ c;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t sse42_pclmul(uint32_t crc, const void *data, size_t size) {
    THREE_STREAMS(_mm_crc32_u64, _mm_crc32_u8, join_by_pclmul, 2);
}

#elif HAVE_ARM

#define ARM_STEP64(a, word) __crc32cd((uint32_t)(a), (word))

__attribute__((target("+crc"))) static uint32_t armv8(uint32_t crc, const void *data, size_t size) {
    THREE_STREAMS(ARM_STEP64, __crc32cb, JOIN_BY_MULTIPLY, 1);
}

#endif

static bcy_crc32c_implementation usable[4];
static size_t usable_count;
static bcy_crc32c_fn fastest = portable;

static void offer(const char *name, bcy_crc32c_fn run) {
    usable[usable_count].name = name;
    usable[usable_count].run = run;
    usable_count++;
    fastest = run;
}

/* Runs when the shared object is loaded, before anything can call it: no lock and no first-call check are needed. */
__attribute__((constructor)) static void choose(void) {
    make_table();
    offer("portable", portable);
#if HAVE_X86
    make_shifts();
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        offer("sse42", sse42);
        if (__builtin_cpu_supports("pclmul"))
            offer("sse42-pclmul", sse42_pclmul);
    }
#elif HAVE_ARM
    make_shifts();
    if (getauxval(AT_HWCAP) & HWCAP_CRC32)
        offer("armv8", armv8);
#endif
}

uint32_t bcy_crc32c(uint32_t crc, const void *data, size_t size) { return fastest(crc, data, size); }

const bcy_crc32c_implementation *bcy_crc32c_usable(size_t index) { return index < usable_count ? &usable[index] : NULL; }
