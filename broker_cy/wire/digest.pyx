"""Hashes of the records of batches, to compare two logs without a Python object for each record.

The hash of a record is XXH64 of its bytes from the length of its key to its last header; the seed is its timestamp and
timestamp type. Offsets are not part of it. The digest of records in their order is the polynomial

    h1 * P^(n-1) + h2 * P^(n-2) + .. + hn   modulo 2^64

so that the digests of two parts give the digest of both: `joined`. It finds damage and lost records, and is no
protection against forgery.

Foreign bytes are read by the functions of broker_cy/wire/walk.pxd, after `walk_records` has checked the whole batch.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_DELETE_HORIZON, ATTRIBUTE_LOG_APPEND_TIME, BATCH_HEADER_BYTES, BATCH_OVERHEAD_BYTES,
)
from broker_cy.wire.records cimport Batch
from broker_cy.wire.walk cimport WalkResult, WalkRules, read_sized, read_varint, read_varlong, walk_records

from broker_cy.core.errors import WireError
from broker_cy.wire.compression import CorruptPayload, PayloadTooLarge, decompress


cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    RECORD_BYTES_MIN = 7            # length, attributes, two deltas, two lengths, number of headers
    WORD_BYTES = 8

cdef extern from *:
    """
    #define PRIME_1 0x9E3779B185EBCA87ULL
    #define PRIME_2 0xC2B2AE3D27D4EB4FULL
    #define PRIME_3 0x165667B19E3779F9ULL
    #define PRIME_4 0x85EBCA77C2B2AE63ULL
    #define PRIME_5 0x27D4EB2F165667C5ULL
    #define BASE 0xD6E8FEB86659FD93ULL
    """
    const uint64_t PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5
    # The base of the polynomial is 3 modulo 8: then the difference of two powers has few factors of 2, and the exchange
    # of two records at any distance changes the digest.
    const uint64_t BASE

# The largest decompressed size of one batch, as in broker_cy/admin/fetched.py.
PAYLOAD_BYTES_MAX = 256 << 20


cdef inline uint64_t rotated(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))


cdef inline uint64_t word(const uint8_t* p) noexcept nogil:
    cdef uint64_t found
    memcpy(&found, p, 8)
    return found


cdef inline uint64_t rounded(uint64_t state, uint64_t value) noexcept nogil:
    return rotated(state + value * PRIME_2, 31) * PRIME_1


cdef uint64_t xxh64(const uint8_t* p, int64_t n, uint64_t seed) noexcept nogil:
    """XXH64 of n bytes, as its specification describes it for little-endian machines."""
    cdef const uint8_t* end = p + n
    cdef uint64_t a, b, c, d, h
    cdef uint32_t half
    if n >= 32:
        a = seed + PRIME_1 + PRIME_2
        b = seed + PRIME_2
        c = seed
        d = seed - PRIME_1
        while p + 32 <= end:
            a = rounded(a, word(p))
            b = rounded(b, word(p + 8))
            c = rounded(c, word(p + 16))
            d = rounded(d, word(p + 24))
            p += 32
        h = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
        h = (h ^ rounded(0, a)) * PRIME_1 + PRIME_4
        h = (h ^ rounded(0, b)) * PRIME_1 + PRIME_4
        h = (h ^ rounded(0, c)) * PRIME_1 + PRIME_4
        h = (h ^ rounded(0, d)) * PRIME_1 + PRIME_4
    else:
        h = seed + PRIME_5
    h += <uint64_t>n
    while p + 8 <= end:
        h = rotated(h ^ rounded(0, word(p)), 27) * PRIME_1 + PRIME_4
        p += 8
    if p + 4 <= end:
        memcpy(&half, p, 4)
        h = rotated(h ^ (<uint64_t>half * PRIME_1), 23) * PRIME_2 + PRIME_3
        p += 4
    while p < end:
        h = rotated(h ^ (<uint64_t>p[0] * PRIME_5), 11) * PRIME_1
        p += 1
    h = (h ^ (h >> 33)) * PRIME_2
    h = (h ^ (h >> 29)) * PRIME_3
    return h ^ (h >> 32)


def hashed(data, seed=0):
    """Return XXH64 of bytes."""
    cdef Py_buffer view
    cdef uint64_t start = <uint64_t>(seed & 0xFFFFFFFFFFFFFFFF)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return xxh64(<const uint8_t*>view.buf, view.len, start)
    finally:
        PyBuffer_Release(&view)


def is_same_payload(Batch one not None, Batch other not None, bint with_times=True):
    """Return whether two batches have the same records, from their bytes: the payloads are equal byte for byte, and so are
    the fields of the headers that records need. False does not mean that the records differ: they may be compressed in
    another way.
    """
    cdef int relevant = ATTRIBUTE_CODEC_MASK
    cdef Py_ssize_t n = one.header.length
    if n != other.header.length or one.header.count != other.header.count:
        return False
    if one.header.last_offset_delta != other.header.last_offset_delta:
        return False
    if with_times:
        relevant |= ATTRIBUTE_LOG_APPEND_TIME
        # After compaction, the base timestamp has another meaning.
        if (one.header.attributes | other.header.attributes) & ATTRIBUTE_DELETE_HORIZON:
            return False
        if one.header.base_timestamp != other.header.base_timestamp:
            return False
        if one.header.attributes & ATTRIBUTE_LOG_APPEND_TIME and one.header.max_timestamp != other.header.max_timestamp:
            return False
    if (one.header.attributes ^ other.header.attributes) & relevant:
        return False
    return memcmp(one.at + BATCH_HEADER_BYTES, other.at + BATCH_HEADER_BYTES, n - (BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES)) == 0


def record_hashes(Batch batch not None, int64_t first, int64_t end, bint with_times=True, bint with_keys=False):
    """Return the records of a batch from the offset `first` up to, but not including, `end`, as numbers of 64 bits in the
    order of this machine: their offsets, their hashes, and with `with_keys` the hashes of their keys, else b"". A key
    hash has its last bit set if the value is null. Without `with_times`, timestamps are not part of the hashes.

    Raises WireError, which describes the fault. The checksum is not checked.
    """
    cdef const uint8_t* at = batch.at + BATCH_HEADER_BYTES
    cdef Py_ssize_t n = batch.header.length - (BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES)
    cdef int codec = batch.header.attributes & ATTRIBUTE_CODEC_MASK
    cdef int32_t count = batch.header.count
    cdef Py_buffer plain
    cdef bint is_held = False
    if count == 0 and n == 0:
        return b"", b"", b""
    if codec != 0:
        try:
            payload = decompress(codec, PyMemoryView_FromMemory(<char*>at, n, PyBUF_READ), PAYLOAD_BYTES_MAX)
        except (CorruptPayload, PayloadTooLarge, ValueError) as error:
            raise WireError(str(error)) from error
        PyObject_GetBuffer(payload, &plain, PyBUF_SIMPLE)
        is_held = True
        at = <const uint8_t*>plain.buf
        n = plain.len
    try:
        return _hashes(batch, at, n, count, first, end, with_times, with_keys)
    finally:
        if is_held:
            PyBuffer_Release(&plain)


cdef tuple _hashes(
    Batch batch, const uint8_t* at, Py_ssize_t n, int32_t count, int64_t first, int64_t end, bint with_times, bint with_keys
):
    cdef const uint8_t* stop = at + n
    cdef const uint8_t* p
    cdef const uint8_t* key_end
    cdef const uint8_t* record_end
    cdef int32_t length = 0, offset_delta = 0, key_size = 0, value_size = 0
    cdef int32_t taken = 0, done
    cdef int64_t timestamp_delta = 0, offset
    cdef uint64_t seed = 0, key_hash
    cdef bint is_append_time = batch.header.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
    cdef WalkRules rules
    cdef WalkResult result
    if count < 0 or count > n // RECORD_BYTES_MIN:
        raise WireError(f"it claims {count} records in {n} bytes")
    memset(&rules, 0, sizeof(rules))
    rules.base_timestamp = batch.header.base_timestamp
    if walk_records(at, n, count, &rules, &result) != 0:
        raise WireError(f"record {result.records} of {count} is malformed")
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, count * WORD_BYTES)
    cdef bytes hashes = PyBytes_FromStringAndSize(NULL, count * WORD_BYTES)
    cdef bytes keys = PyBytes_FromStringAndSize(NULL, count * WORD_BYTES if with_keys else 0)
    cdef int64_t* to_offset = <int64_t*>PyBytes_AS_STRING(offsets)
    cdef uint64_t* to_hash = <uint64_t*>PyBytes_AS_STRING(hashes)
    cdef uint64_t* to_key = <uint64_t*>PyBytes_AS_STRING(keys)
    for done in range(count):
        p = read_varint(at, stop, &length)
        if p == NULL or length < 1 or length > stop - p:
            raise WireError(f"record {done} of {count} has no possible length")
        record_end = p + length
        p = read_varlong(p + 1, record_end, &timestamp_delta)
        if p != NULL:
            p = read_varint(p, record_end, &offset_delta)
        if p == NULL:
            raise WireError(f"record {done} of {count} has a field that does not fit in it")
        at = record_end
        offset = <int64_t>(<uint64_t>batch.header.base_offset + <uint64_t>offset_delta)
        if offset < first or offset >= end:
            continue
        if with_times:
            if is_append_time:
                seed = (<uint64_t>batch.header.max_timestamp << 1) | 1
            else:
                seed = (<uint64_t>batch.header.base_timestamp + <uint64_t>timestamp_delta) << 1
        to_offset[taken] = offset
        to_hash[taken] = xxh64(p, record_end - p, seed)
        if with_keys:
            key_end = read_sized(p, record_end, &key_size)
            if key_end == NULL or read_sized(key_end, record_end, &value_size) == NULL:
                raise WireError(f"record {done} of {count} has a field that does not fit in it")
            # A null key has another seed than an empty one.
            key_hash = xxh64(key_end - key_size, key_size, 0) if key_size >= 0 else xxh64(p, 0, 1)
            to_key[taken] = (key_hash & ~<uint64_t>1) | (1 if value_size < 0 else 0)
        taken += 1
    if taken == count:
        return offsets, hashes, keys
    size = taken * WORD_BYTES
    return offsets[:size], hashes[:size], keys[:size]


def folded(digest, hashes):
    """Return the digest of records that continue those of `digest` (0 for none), from their hashes as `record_hashes` has
    them.
    """
    cdef Py_buffer view
    cdef uint64_t found = digest
    cdef Py_ssize_t i
    PyObject_GetBuffer(hashes, &view, PyBUF_SIMPLE)
    try:
        for i in range(view.len // WORD_BYTES):
            found = found * BASE + word(<const uint8_t*>view.buf + i * WORD_BYTES)
        return found
    finally:
        PyBuffer_Release(&view)


def joined(first, second, records):
    """Return the digest of two parts; the second one has `records` records."""
    cdef uint64_t power = 1, square = BASE
    cdef int64_t left = records
    if left < 0:
        raise ValueError(f"{records} records")
    while left:
        if left & 1:
            power *= square
        square *= square
        left >>= 1
    return <uint64_t>first * power + <uint64_t>second
