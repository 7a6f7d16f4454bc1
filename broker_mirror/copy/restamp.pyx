"""Fetched batches as batches to produce: their payload is not decompressed, and is copied once, into the request.

A fetched batch that a producer may send gets the identity of another producer, leader epoch -1, base offset 0 and a new
checksum. These are decoded and encoded again, because brokers refuse them from a producer or because only a part is wanted:
batches with offsets that compaction removed, batches that begin before the wanted offset, batches with the timestamp of their
arrival or a delete horizon in the header, and batches that are larger than the target accepts.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker_cy.core.crc32c cimport crc32c
from broker_cy.core.writer cimport Writer, store_u16, store_u32, store_u64
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CONTROL, ATTRIBUTE_DELETE_HORIZON, ATTRIBUTE_LOG_APPEND_TIME, ATTRIBUTE_TRANSACTIONAL, BATCH_CRC_START,
    BatchHeader, batch_bytes, parse_header,
)
from broker_cy.wire.records cimport Batch

from broker_cy.client.aborted import AbortedTransactions
from broker_cy.core.errors import WireError
from broker_cy.wire.compression import decompressed_limit
from broker_cy.wire.records import decode_batches, encode_batch

cdef enum:
    FLEXIBLE_FROM = 9               # of Produce
    IDS_FROM = 13

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
    cdef const uint8_t* at
    cdef object owner

    def __init__(self):
        raise TypeError("a Piece is made by cut")

    def stamped(self, int64_t producer_id, int16_t epoch, int32_t sequence, bint transactional):
        """The bytes of the batch, as this producer sends them."""
        cdef Writer out = Writer()
        put_stamped(out, self, producer_id, epoch, sequence, transactional)
        return out.take_value()

    def __repr__(self):
        return f"<Piece {self.first}..{self.last}, {self.count} records, {self.size_bytes} bytes>"


cdef int put_stamped(Writer out, Piece piece, int64_t producer_id, int16_t epoch, int32_t sequence, bint transactional) except -1:
    """Write the batch with the producer's fields, and its checksum, which covers the payload: it was checked by `cut`."""
    cdef uint8_t* p
    out.reserve(piece.size_bytes)
    p = out.buf + out.pos
    memcpy(p, piece.at, piece.size_bytes)
    store_u64(p, 0)
    store_u32(p + 12, <uint32_t>-1)
    p[22] = (p[22] | ATTRIBUTE_TRANSACTIONAL) if transactional else (p[22] & <uint8_t>~ATTRIBUTE_TRANSACTIONAL)
    store_u64(p + 43, <uint64_t>producer_id)
    store_u16(p + 51, <uint16_t>epoch)
    store_u32(p + 53, <uint32_t>sequence)
    store_u32(p + 17, crc32c(0, p + BATCH_CRC_START, piece.size_bytes - BATCH_CRC_START))
    out.pos += piece.size_bytes
    return 0


cdef Piece piece_of(object owner, const uint8_t* at, const BatchHeader* h, int64_t first, int64_t last, tuple runs, bint again):
    cdef Piece piece = Piece.__new__(Piece)
    piece.owner = owner
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


cdef int encode_again(list pieces, Batch batch, int64_t start, Py_ssize_t bytes_max) except -1:
    """Append the records from `start` on as batches of at most `bytes_max` bytes; a larger record is a batch alone."""
    records = [each for each in batch.records(decompressed_limit(batch.size_bytes)) if each.offset >= start]
    waiting = [records] if records else []
    cdef BatchHeader header
    cdef bytes data
    while waiting:
        part = waiting.pop()
        data = encode_batch(part, codec=batch.codec)
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


def cut(bytes records not None, int64_t start, aborted, str where not None, Py_ssize_t bytes_max=0x7FFFFFFF):
    """The batches to produce of one partition's records in a Fetch answer, and the next offset to fetch.

    `start` is the offset that was fetched; `aborted` has the answer's aborted transactions; `where` names the partition. A batch of
    more than `bytes_max` bytes becomes several. Raises Damaged.
    """
    cdef Batch batch
    cdef BatchHeader* h
    cdef int64_t next_offset = start
    cdef int64_t last
    cdef list pieces = []
    cdef int skip_mask = ATTRIBUTE_LOG_APPEND_TIME | ATTRIBUTE_DELETE_HORIZON
    hidden = AbortedTransactions(aborted) if aborted else None
    batches = decode_batches(records)
    while True:
        try:
            batch = next(batches, None)
        except WireError as error:
            raise Damaged(f"{where}: the records from offset {next_offset} on are damaged: {error}") from None
        if batch is None:
            break
        h = &batch.header
        last = h.base_offset + h.last_offset_delta
        if crc32c(0, batch.at + BATCH_CRC_START, batch_bytes(h) - BATCH_CRC_START) != h.crc:
            raise Damaged(f"{where}: the batch at offset {h.base_offset} is damaged: its checksum is wrong")
        if h.last_offset_delta < 0 or h.count < 0 or h.count > <int64_t>h.last_offset_delta + 1:
            raise Damaged(
                f"{where}: the batch at offset {h.base_offset} is damaged: {h.count} records in {h.last_offset_delta + 1} offsets"
            )
        if last < next_offset:
            continue
        is_hidden = hidden is not None and hidden.hides(batch)
        if not is_hidden and not h.attributes & ATTRIBUTE_CONTROL and h.count:
            if (
                h.base_offset >= next_offset and h.count == h.last_offset_delta + 1 and not h.attributes & skip_mask
                and batch_bytes(h) <= bytes_max
            ):
                pieces.append(
                    piece_of(records, batch.at, h, h.base_offset, last, ((h.base_offset, 0, h.count),), False)
                )
            else:
                try:
                    encode_again(pieces, batch, next_offset, bytes_max)
                except WireError as error:
                    raise Damaged(f"{where}: the batch at offset {h.base_offset} is damaged: {error}") from None
        next_offset = last + 1
    if next_offset == start and len(records) > 0:
        raise Damaged(f"{where}: the answer has {len(records)} bytes and no whole batch from offset {start} on")
    return pieces, next_offset


def produce_body(
    int version, str transactional_id, int32_t timeout_ms, list topics not None, int64_t producer_id, int16_t epoch,
    bint transactional,
):
    """The body of a Produce request with acks=all, in a version from 3 on. `topics` has (name, 16 bytes of its id,
    [(partition, piece, base sequence)]).
    """
    cdef Writer out = Writer()
    cdef bint flexible = version >= FLEXIBLE_FROM
    cdef Piece piece
    put_text(out, transactional_id, flexible, True)
    out.i16(-1)
    out.i32(timeout_ms)
    put_length(out, len(topics), flexible)
    for name, topic_id, parts in topics:
        if version >= IDS_FROM:
            out.put_bytes(topic_id)
        else:
            put_text(out, name, flexible, False)
        put_length(out, len(parts), flexible)
        for index, each, sequence in parts:
            piece = <Piece?>each
            out.i32(index)
            put_length(out, piece.size_bytes, flexible)
            put_stamped(out, piece, producer_id, epoch, sequence, transactional)
            if flexible:
                out.i8(0)
        if flexible:
            out.i8(0)
    if flexible:
        out.i8(0)
    return out.take_value()


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
