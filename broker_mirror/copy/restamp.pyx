"""Fetched batches as batches to produce: their payload is neither decompressed, nor copied, nor read.

A fetched batch that a producer may send gets the identity of another producer, leader epoch -1 and base offset 0. Its checksum
changes by what the header changes: CRC-32C is linear, so the checksum of a batch that was damaged stays wrong, and the target
refuses it. Batches that are not passed on are checked here.

These are decoded and encoded again, because brokers refuse them from a producer or because only a part is wanted:
batches with offsets that compaction removed, batches that begin before the wanted offset, batches with the timestamp of their
arrival or a delete horizon in the header, batches that are larger than the target accepts, and message sets of magic 0 and 1.
All batches are, if the flow has transforms.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker_cy.core.crc32c cimport crc32c
from broker_cy.core.cursor cimport load_u32
from broker_cy.core.writer cimport Writer, store_u16, store_u32, store_u64
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON, ATTRIBUTE_LOG_APPEND_TIME, ATTRIBUTE_TRANSACTIONAL, BATCH_CRC_START,
    BATCH_HEADER_BYTES, BATCH_MAGIC_AT, BatchHeader, batch_bytes, parse_header,
)
from broker_cy.wire.records cimport Batch

from broker_cy.client.aborted import AbortedTransactions
from broker_cy.core.errors import WireError
from broker_cy.wire.compression import decompressed_limit
from broker_cy.wire.records import decode_batches, encode_batch

cdef enum:
    FLEXIBLE_FROM = 9               # of Produce
    IDS_FROM = 13
    # A smaller payload is copied into the request: sending it from its place would cost more.
    PAYLOAD_COPIED_MAX = 8192

# Runs of one batch that are kept. Between them, offsets are translated to the end of the run before, so that no record is lost.
RUNS_MAX = 64


class Damaged(Exception):
    """Bytes of the source without a valid batch; the message names topic, partition and offset."""


@cython.final
cdef class Piece:
    """One batch to produce. `first` and `last` are the offsets of its records in the source, `next_offset` that after it. `runs`
    has (offset in the source, index in the batch, count) of records that follow one another.
    """
    cdef readonly int64_t first
    cdef readonly int64_t last
    cdef readonly int64_t next_offset
    cdef readonly int32_t count
    cdef readonly Py_ssize_t size_bytes
    cdef readonly int64_t max_timestamp
    cdef readonly tuple runs
    cdef readonly bint encoded_again
    cdef Py_ssize_t begin           # of the batch in `owner`
    cdef const uint8_t* at
    cdef bytes owner

    def __init__(self):
        raise TypeError("a Piece is made by cut")

    def stamped(self, int64_t producer_id, int16_t epoch, int32_t sequence, bint transactional):
        """The bytes of the batch, as this producer sends them."""
        cdef uint8_t head[BATCH_HEADER_BYTES]
        stamp(head, self, producer_id, epoch, sequence, transactional)
        return PyBytes_FromStringAndSize(<char*>head, BATCH_HEADER_BYTES) + bytes(self.payload())

    cdef object payload(self):
        return memoryview(self.owner)[self.begin + BATCH_HEADER_BYTES:self.begin + self.size_bytes]

    def is_valid(self):
        """Whether the checksum of the source is correct."""
        return load_u32(self.at + 17) == crc32c(0, self.at + BATCH_CRC_START, self.size_bytes - BATCH_CRC_START)

    def __repr__(self):
        return f"<Piece {self.first}..{self.last}, {self.count} records, {self.size_bytes} bytes>"


cdef uint32_t _powers[32]           # x^(2^n) modulo the polynomial: see `shifted`


cdef uint32_t product(uint32_t a, uint32_t b) noexcept nogil:
    """The product of two polynomials modulo that of CRC-32C, 0x82F63B78; bit 31 is x^0."""
    cdef uint32_t mask = <uint32_t>1 << 31
    cdef uint32_t out = 0
    while mask:
        if a & mask:
            out ^= b
        mask >>= 1
        b = (b >> 1) ^ <uint32_t>0x82F63B78 if b & 1 else b >> 1
    return out


cdef uint32_t shifted(uint32_t crc, uint64_t n) noexcept nogil:
    """Return the difference of checksums after `n` further bytes."""
    cdef int power = 3              # 8 bits
    while n:
        if n & 1:
            crc = product(_powers[power & 31], crc)
        n >>= 1
        power += 1
    return crc


cdef void fill_powers() noexcept:
    cdef int i
    _powers[0] = <uint32_t>1 << 30
    for i in range(1, 32):
        _powers[i] = product(_powers[i - 1], _powers[i - 1])


fill_powers()


cdef void stamp(uint8_t* p, Piece piece, int64_t producer_id, int16_t epoch, int32_t sequence, bint transactional) noexcept:
    """Write the header of the batch with the producer's fields to `p`, with the checksum that follows from that of the source."""
    cdef uint32_t change = crc32c(0, piece.at + BATCH_CRC_START, BATCH_HEADER_BYTES - BATCH_CRC_START)
    memcpy(p, piece.at, BATCH_HEADER_BYTES)
    store_u64(p, 0)
    store_u32(p + 12, <uint32_t>-1)
    p[22] = (p[22] | ATTRIBUTE_TRANSACTIONAL) if transactional else (p[22] & <uint8_t>~ATTRIBUTE_TRANSACTIONAL)
    store_u64(p + 43, <uint64_t>producer_id)
    store_u16(p + 51, <uint16_t>epoch)
    store_u32(p + 53, <uint32_t>sequence)
    change ^= crc32c(0, p + BATCH_CRC_START, BATCH_HEADER_BYTES - BATCH_CRC_START)
    store_u32(p + 17, load_u32(p + 17) ^ shifted(change, piece.size_bytes - BATCH_HEADER_BYTES))


cdef Piece piece_of(bytes owner, const uint8_t* at, const BatchHeader* h, int64_t first, int64_t last, tuple runs, bint again):
    cdef Piece piece = Piece.__new__(Piece)
    piece.owner = owner
    piece.begin = at - <const uint8_t*>PyBytes_AS_STRING(owner)
    piece.at = at
    piece.size_bytes = batch_bytes(h)
    piece.first, piece.last, piece.next_offset = first, last, last + 1
    piece.count = h.count
    piece.max_timestamp = h.max_timestamp
    piece.runs = runs
    piece.encoded_again = again
    return piece


def runs_of(list offsets):
    """The runs of a batch whose records have these offsets in the source; at most RUNS_MAX, the first and the last ones."""
    found = []
    begin = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] != offsets[index - 1] + 1:
            found.append((offsets[begin], begin, index - begin))
            begin = index
    if len(found) > RUNS_MAX:
        found = found[:RUNS_MAX // 2] + found[-(RUNS_MAX // 2):]
    return tuple(found)


cdef int encode_again(
    list pieces, list records, object codec, int64_t start, Py_ssize_t bytes_max, object change
) except -1:
    """Append the records from `start` on as batches of at most `bytes_max` bytes; a larger record is a batch alone. `change` as in
    `cut`.
    """
    records = [each for each in records if each.offset >= start]
    if change is not None:
        records = change(records)
    waiting = [records] if records else []
    cdef BatchHeader header
    cdef bytes data
    while waiting:
        part = waiting.pop()
        data = encode_batch(part, codec=codec)
        if len(data) > bytes_max and len(part) > 1:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
            continue
        parse_header(<const uint8_t*>PyBytes_AS_STRING(data), len(data), &header)
        offsets = [each.offset for each in part]
        pieces.append(
            piece_of(data, <const uint8_t*>PyBytes_AS_STRING(data), &header, offsets[0], offsets[len(offsets) - 1], runs_of(offsets), True)
        )
    return 0


def cut(
    bytes records not None, int64_t start, aborted, str where not None, Py_ssize_t bytes_max=0x7FFFFFFF, change=None
):
    """The batches to produce of one partition's records in a Fetch answer, and the next offset to fetch.

    `start` is the offset that was fetched; `aborted` has the answer's aborted transactions; `where` names the partition. A batch of
    more than `bytes_max` bytes becomes several. `change` gets the records of each batch, and returns those to produce. Raises
    Damaged.
    """
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(records)
    cdef Py_ssize_t n = len(records)
    cdef Py_ssize_t at = 0
    cdef int64_t next_offset = start
    cdef list pieces = []
    hidden = AbortedTransactions(aborted) if aborted else None
    try:
        while at >= 0:
            if n - at > BATCH_MAGIC_AT and p[at + BATCH_MAGIC_AT] < 2:
                at = cut_messages(records, at, &next_offset, pieces, bytes_max, change)
            else:
                at = cut_batches(records, at, &next_offset, pieces, hidden, where, bytes_max, change)
    except WireError as error:
        raise Damaged(f"{where}: the records from offset {next_offset} on are damaged: {error}") from None
    if next_offset == start and n > 0:
        raise Damaged(f"{where}: the answer has {n} bytes and no whole batch from offset {start} on")
    return pieces, next_offset


cdef Py_ssize_t cut_messages(
    bytes records, Py_ssize_t at, int64_t* next_offset, list pieces, Py_ssize_t bytes_max, object change
) except? -2:
    """Append the message sets from the byte `at` on. Returns where they end; -1 if the first one is incomplete."""
    from broker_mirror.copy.message_sets import sections

    cdef Py_ssize_t end = -1
    cdef int64_t last
    for section in sections(records, at):
        encode_again(pieces, section.records, section.codec, next_offset[0], bytes_max, change)
        last = section.next_offset
        next_offset[0] = max(next_offset[0], last)
        end = section.end
    return end


cdef Py_ssize_t cut_batches(
    bytes records, Py_ssize_t at, int64_t* next_offset, list pieces, object hidden, str where, Py_ssize_t bytes_max, object change
) except? -2:
    """Append the batches from the byte `at` on. Returns where a message set begins; -1 at the end."""
    cdef Batch batch
    cdef BatchHeader* h
    cdef int64_t last
    cdef bint is_hidden
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(records)
    cdef Py_ssize_t n = len(records)
    cdef int apart = ATTRIBUTE_CONTROL | ATTRIBUTE_LOG_APPEND_TIME | ATTRIBUTE_DELETE_HORIZON
    batches = decode_batches(memoryview(records)[at:] if at else records)
    while n - at <= BATCH_MAGIC_AT or p[at + BATCH_MAGIC_AT] > 1:
        batch = next(batches, None)
        if batch is None:
            return -1
        h = &batch.header
        at += batch_bytes(h)
        last = h.base_offset + h.last_offset_delta
        if h.last_offset_delta < 0 or h.count < 0 or h.count > <int64_t>h.last_offset_delta + 1:
            raise Damaged(
                f"{where}: the batch at offset {h.base_offset} is damaged: {h.count} records in {h.last_offset_delta + 1} offsets"
            )
        if last < next_offset[0]:
            continue
        is_hidden = hidden is not None and hidden.hides(batch)
        if (
            h.base_offset >= next_offset[0] and h.count and h.count == h.last_offset_delta + 1 and batch_bytes(h) <= bytes_max
            and not h.attributes & apart and not is_hidden and change is None
        ):
            pieces.append(piece_of(records, batch.at, h, h.base_offset, last, ((h.base_offset, 0, h.count),), False))
        else:
            take_apart(batch, next_offset[0], pieces, is_hidden, where, bytes_max, change)
        next_offset[0] = last + 1
    return at


cdef int take_apart(
    Batch batch, int64_t start, list pieces, bint is_hidden, str where, Py_ssize_t bytes_max, object change
) except -1:
    """Append the records of a batch that is not passed on as it is; none for a marker or an aborted transaction."""
    cdef BatchHeader* h = &batch.header
    if crc32c(0, batch.at + BATCH_CRC_START, batch_bytes(h) - BATCH_CRC_START) != h.crc:
        raise Damaged(f"{where}: the batch at offset {h.base_offset} is damaged: its checksum is wrong")
    if is_hidden or h.attributes & ATTRIBUTE_CONTROL or not h.count:
        return 0
    try:
        return encode_again(
            pieces, batch.records(decompressed_limit(batch.size_bytes)), batch.codec, start, bytes_max, change
        )
    except WireError as error:
        raise Damaged(f"{where}: the batch at offset {h.base_offset} is damaged: {error}") from None


def produce_parts(
    int version, str transactional_id, int32_t timeout_ms, list topics not None, int64_t producer_id, int16_t epoch,
    bint transactional,
):
    """The body of a Produce request with acks=all, in a version from 3 on, as parts to send one after the other: the payload of
    a large batch is a part of its own, at its place in the Fetch answer. `topics` has (name, 16 bytes of its id,
    [(partition, piece, base sequence)]).
    """
    cdef Writer out = Writer()
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef Piece piece
    cdef Py_ssize_t payload_bytes
    cdef list parts = []
    put_text(out, transactional_id, flexible, True)
    out.i16(-1)
    out.i32(timeout_ms)
    put_length(out, len(topics), flexible)
    for name, topic_id, of_topic in topics:
        if version >= IDS_FROM:
            out.put_bytes(topic_id)
        else:
            put_text(out, name, flexible, False)
        put_length(out, len(of_topic), flexible)
        for index, each, sequence in of_topic:
            piece = <Piece?>each
            out.i32(index)
            put_length(out, piece.size_bytes, flexible)
            out.reserve(BATCH_HEADER_BYTES)
            stamp(out.buf + out.pos, piece, producer_id, epoch, sequence, transactional)
            out.pos += BATCH_HEADER_BYTES
            payload_bytes = piece.size_bytes - BATCH_HEADER_BYTES
            if payload_bytes <= PAYLOAD_COPIED_MAX:
                out.reserve(payload_bytes)
                memcpy(out.buf + out.pos, piece.at + BATCH_HEADER_BYTES, payload_bytes)
                out.pos += payload_bytes
            else:
                parts.append(out.take_value())
                out.pos = 0
                parts.append(piece.payload())
            if flexible:
                out.i8(0)
        if flexible:
            out.i8(0)
    if flexible:
        out.i8(0)
    parts.append(out.take_value())
    return parts


cdef int put_length(Writer out, Py_ssize_t n, bint flexible) except -1:
    """The length of an array or of bytes."""
    if flexible:
        return out.uvarint(<uint32_t>(n + 1))
    return out.i32(<int32_t>n)


cdef int put_text(Writer out, str text, bint flexible, bint nullable) except -1:
    cdef bytes data
    if text is None:
        return out.i8(0) if flexible else out.i16(-1)
    data = text.encode()
    if flexible:
        out.uvarint(<uint32_t>(len(data) + 1))
    else:
        out.i16(<int16_t>len(data))
    return out.put_bytes(data)
