"""The load driver's checks of Produce and Fetch responses; every read is checked against the end of the frame."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from bench.wire.end_to_end cimport Arrivals
from bench.wire.system cimport bench_crc32c, get32, get64


cdef enum:
    CONTROL = 0x20              # attribute bit of a batch that holds the end of a transaction
    MARKER_TYPE_AT = 69         # the low byte of its key: version, type; every varint before it has one byte
    MARKER_MIN = 70
    ABORT = 0                   # marker type


cdef struct View:               # cursor; `bad` once anything was out of bounds or not what the driver requested
    const uint8_t* p
    const uint8_t* end
    bint bad


cdef struct Verdict:
    const char* wrong           # NULL: accepted; else a printf format for two long longs
    long long a, b
    int64_t next_offset, bytes, records


cdef struct Fetched:            # one partition of a Fetch response
    const uint8_t* batches
    int64_t size
    int64_t aborted             # number of listed aborted transactions; -1: no list, the response of read_uncommitted
    int32_t partition


cdef inline const uint8_t* take(View* view, Py_ssize_t n) noexcept nogil:
    cdef const uint8_t* at = view.p
    if n < 0 or view.end - view.p < n:
        view.bad = True
        return NULL
    view.p += n
    return at


cdef inline int64_t uvarint(View* view) noexcept nogil:
    cdef int64_t value = 0
    cdef int shift = 0
    cdef const uint8_t* p
    while shift < 35:
        p = take(view, 1)
        if p is NULL:
            return 0
        value |= <int64_t> (p[0] & 0x7F) << shift
        if p[0] < 0x80:
            return value
        shift += 7
    view.bad = True
    return 0


cdef inline void skip_tags(View* view) noexcept nogil:
    cdef int64_t left = uvarint(view)
    while left > 0 and not view.bad:
        uvarint(view)
        take(view, uvarint(view))
        left -= 1


cdef inline void refuse(Verdict* verdict, const char* wrong, int64_t a, int64_t b) noexcept nogil:
    verdict.wrong, verdict.a, verdict.b = wrong, a, b


cdef inline const uint8_t* only_partition(View* view, Py_ssize_t size) noexcept nogil:
    """Skip to the only partition of the only topic; returns its first `size` bytes, or NULL with `bad` set."""
    if partitions_of(view) != 1:
        view.bad = True
        return NULL
    return take(view, size)


cdef inline int64_t partitions_of(View* view) noexcept nogil:
    """Skip to the partitions of the only topic; returns their number, or -1 with `bad` set."""
    if uvarint(view) != 2:
        view.bad = True
        return -1
    take(view, uvarint(view) - 1)
    return uvarint(view) - 1


cdef inline int16_t code_at(const uint8_t* p) noexcept nogil:
    return <int16_t> ((p[0] << 8) | p[1])


cdef inline void check_produced(View* view, Verdict* verdict, int partition, int64_t least_offset) noexcept nogil:
    """Check a Produce v9-12 response: error code 0, and a base offset after all earlier writes."""
    cdef const uint8_t* p = only_partition(view, 14)        # index, error code, base offset
    if p is NULL:
        return
    if get32(p) != partition:
        view.bad = True
    elif code_at(p + 4):
        refuse(verdict, b"Produce error %lld on partition %lld", code_at(p + 4), partition)
    elif get64(p + 6) < least_offset:
        refuse(verdict, b"base offset %lld, but %lld was due", get64(p + 6), least_offset)
    else:
        verdict.next_offset = get64(p + 6)


cdef inline int64_t check_fetch_head(View* view, Verdict* verdict) noexcept nogil:
    """Read a Fetch v12 response up to its partitions; returns their number, 0 for an error or if it does not parse."""
    cdef const uint8_t* p = take(view, 10)                  # throttle, error code, session
    if p is NULL:
        return 0
    if code_at(p + 4):
        refuse(verdict, b"Fetch error %lld%.0lld", code_at(p + 4), 0)
        return 0
    return partitions_of(view)


cdef inline Fetched take_fetched(View* view, Verdict* verdict) noexcept nogil:
    """Read the next partition of a Fetch v12 response; `batches` is NULL for an error or if it does not parse."""
    cdef Fetched fetched
    cdef const uint8_t* p = take(view, 30)                  # index, error code, high watermark, LSO, log start
    cdef int64_t left
    fetched.batches, fetched.size, fetched.aborted, fetched.partition = NULL, 0, -1, -1
    if p is NULL:
        return fetched
    fetched.partition = get32(p)
    left = fetched.aborted = uvarint(view) - 1
    while left > 0 and not view.bad:
        take(view, 16)                                      # producer id, first offset
        skip_tags(view)
        left -= 1
    take(view, 4)                                           # preferred replica
    fetched.size = max(0, uvarint(view) - 1)                # null is the same as empty
    fetched.batches = take(view, fetched.size)
    skip_tags(view)                                         # if there is an error: the current leader
    if fetched.batches is not NULL and code_at(p + 4):
        refuse(verdict, b"Fetch error %lld on partition %lld", code_at(p + 4), fetched.partition)
        fetched.batches = NULL
    return fetched


cdef inline void check_batches(
    const Fetched* fetched, Verdict* verdict, int64_t offset, bint committed, bint crc, Arrivals arrivals, int64_t now,
) noexcept nogil:
    """Check that complete batches follow from `offset` without a gap, and `crc`: their checksums; fills `arrivals`.

    `committed`: the request used read_committed, so each transaction whose abort is in the batches must be listed.
    """
    cdef const uint8_t* batch = fetched.batches
    cdef int64_t whole, aborts = 0, at = offset, size = fetched.size
    if fetched.aborted < 0 if committed else fetched.aborted > 0:
        refuse(verdict, b"%lld aborted transactions (-1: no list) in the answer of partition %lld",
               fetched.aborted, fetched.partition)
        return
    while size >= 61:
        whole = 12 + <int64_t> get32(batch + 8)
        if whole > size:
            break                                           # the last batch may be cut short
        # The first batch may begin before the requested offset; each other batch begins where the previous one ends.
        if whole < 61 or batch[16] != 2 or get64(batch) > at or (at != offset and get64(batch) != at):
            refuse(verdict, b"batch at offset %lld where %lld was due", get64(batch), at)
            return
        if crc and bench_crc32c(batch + 21, whole - 21) != <uint32_t> get32(batch + 17):
            refuse(verdict, b"wrong checksum in the batch at offset %lld of partition %lld", at, fetched.partition)
            return
        if arrivals is not None:
            arrivals.arrived(fetched.partition, get64(batch), now)
        if batch[22] & CONTROL == 0:
            verdict.records += get32(batch + 57)
        elif whole >= MARKER_MIN and batch[MARKER_TYPE_AT] == ABORT:
            aborts += 1
        verdict.bytes += whole
        at = get64(batch) + get32(batch + 23) + 1
        batch += whole
        size -= whole
    if committed and aborts > fetched.aborted:
        refuse(verdict, b"%lld aborts, but %lld aborted transactions are named", aborts, fetched.aborted)
    verdict.next_offset = at
