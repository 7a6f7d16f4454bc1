"""Record batches for Python: reading and writing whole batches, magic 2.

Everything except the data path uses this form: internal topics, the metadata log, tools. Message sets of magic 0 and 1, which
Kafka 4 still reads from disk, are refused with a WireError that says so.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from broker_cy.core.crc32c cimport crc32c
from broker_cy.core.cursor cimport load_u32
from broker_cy.core.writer cimport Writer, store_u16, store_u32, store_u64
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_CONTROL, ATTRIBUTE_LOG_APPEND_TIME, ATTRIBUTE_TRANSACTIONAL, BATCH_CRC_START,
    BATCH_HEADER_BYTES, BATCH_MAGIC_AT, BATCH_OVERHEAD_BYTES, BatchHeader, batch_bytes, parse_header,
)
from broker_cy.wire.record cimport Record as CRecord, put_record, read_records, set_rows

from broker_cy.core.errors import Truncated, WireError
from broker_cy.wire.compression import Codec, CorruptPayload, PayloadTooLarge, compress, decompress, decompressed_limit
from broker_cy.wire.record import Record    # no-cython-lint: other modules import it from here


cdef extern from "Python.h":
    int PyBUF_READ

cdef extern from "<string.h>" nogil:
    # Provided by glibc and musl; Python.h requests its declaration (_GNU_SOURCE).
    void* memmem(const void* haystack, size_t haystack_bytes, const void* needle, size_t needle_bytes)

cdef enum:
    INT32_MAX = 0x7FFFFFFF

# The largest size of the records of a batch that is already in a log: the largest value of a length field.
MAX_PAYLOAD_BYTES = INT32_MAX


cdef inline bint _has(const uint8_t* at, Py_ssize_t n, bytes needle) noexcept:
    return memmem(at, n, <const char*>needle, len(needle)) != NULL


@cython.freelist(64)
@cython.final
cdef class Batch:
    """One batch of a buffer, whose records are decoded on demand. Keeps the buffer alive.

    Made by decode_batches. Attributes are the header's fields; `position` and `size_bytes` are its place in the buffer.
    """

    def __init__(self):
        raise TypeError("a Batch is made by decode_batches")

    @property
    def size_bytes(self):
        return batch_bytes(&self.header)

    @property
    def base_offset(self):
        return self.header.base_offset

    @property
    def last_offset(self):
        return self.header.base_offset + self.header.last_offset_delta

    @property
    def leader_epoch(self):
        return self.header.leader_epoch

    @property
    def crc(self):
        return self.header.crc

    @property
    def attributes(self):
        return self.header.attributes

    @property
    def codec(self):
        """A Codec, or the plain number if there is no such Codec."""
        cdef int number = self.header.attributes & ATTRIBUTE_CODEC_MASK
        return Codec(number) if number <= 4 else number

    @property
    def is_transactional(self):
        return self.header.attributes & ATTRIBUTE_TRANSACTIONAL != 0

    @property
    def is_control(self):
        return self.header.attributes & ATTRIBUTE_CONTROL != 0

    @property
    def last_offset_delta(self):
        return self.header.last_offset_delta

    @property
    def base_timestamp(self):
        return self.header.base_timestamp

    @property
    def max_timestamp(self):
        return self.header.max_timestamp

    @property
    def producer_id(self):
        return self.header.producer_id

    @property
    def producer_epoch(self):
        return self.header.producer_epoch

    @property
    def base_sequence(self):
        return self.header.base_sequence

    @property
    def last_sequence(self):
        """-1 without a base sequence; after 2**31 - 1, sequence numbers continue at 0."""
        if self.header.base_sequence < 0:
            return -1
        return (self.header.base_sequence + <int64_t>self.header.last_offset_delta) & INT32_MAX

    @property
    def count(self):
        return self.header.count

    @property
    def data(self):
        """A read-only memoryview of the whole batch, which must be released before the buffer."""
        return memoryview(self.owner.buffer).cast("B")[self.position:self.position + self.size_bytes].toreadonly()

    def computed_crc(self):
        """The checksum of the actual bytes."""
        return crc32c(0, self.at + BATCH_CRC_START, self.size_bytes - BATCH_CRC_START)

    def is_valid(self):
        """Whether the checksum is correct."""
        return self.computed_crc() == self.header.crc

    def records(self, max_payload_bytes=MAX_PAYLOAD_BYTES, bytes containing=None):
        """A new list of the batch's records.

        With `containing`, returns None if these bytes occur nowhere in the records, which are then not decoded.
        Raises WireError if they are malformed, do not decompress, or decompress to more than `max_payload_bytes`. The checksum
        is not checked: see is_valid.
        """
        cdef Py_buffer plain
        cdef const uint8_t* at = self.at + BATCH_HEADER_BYTES
        cdef Py_ssize_t n = self.header.length - (BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES)
        cdef int codec = self.header.attributes & ATTRIBUTE_CODEC_MASK
        if codec == 0:
            if containing is not None and not _has(at, n, containing):
                return None
            return read_records(at, n, &self.header)
        # Compaction leaves empty batches, with no payload at all, to keep a producer's last sequence.
        if self.header.count == 0 and n == 0:
            return []
        payload = self._decompressed(at, n, max_payload_bytes)
        PyObject_GetBuffer(payload, &plain, PyBUF_SIMPLE)
        try:
            if containing is not None and not _has(<const uint8_t*>plain.buf, plain.len, containing):
                return None
            return read_records(<const uint8_t*>plain.buf, plain.len, &self.header)
        finally:
            PyBuffer_Release(&plain)

    def set_rows(self, dict rows not None, int64_t first, int64_t end, *, bint timestamps=False, max_payload_bytes=MAX_PAYLOAD_BYTES):
        """Set the values of keys, None for a deletion, by the records with offsets from `first` to `end` (not included). Returns
        how many these are; those without a key set nothing. With `timestamps`, each value has its timestamp before it, as a
        big-endian int64.

        Raises WireError as `records`; some rows may be set then.
        """
        cdef Py_buffer plain
        cdef const uint8_t* at = self.at + BATCH_HEADER_BYTES
        cdef Py_ssize_t n = self.header.length - (BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES)
        if self.header.attributes & ATTRIBUTE_CODEC_MASK == 0:
            return set_rows(rows, at, n, &self.header, first, end, timestamps)
        if self.header.count == 0 and n == 0:
            return 0
        payload = self._decompressed(at, n, max_payload_bytes)
        PyObject_GetBuffer(payload, &plain, PyBUF_SIMPLE)
        try:
            return set_rows(rows, <const uint8_t*>plain.buf, plain.len, &self.header, first, end, timestamps)
        finally:
            PyBuffer_Release(&plain)

    cdef object _decompressed(self, const uint8_t* at, Py_ssize_t n, object max_payload_bytes):
        cdef int codec = self.header.attributes & ATTRIBUTE_CODEC_MASK
        try:
            return decompress(codec, PyMemoryView_FromMemory(<char*>at, n, PyBUF_READ), max_payload_bytes)
        except (CorruptPayload, PayloadTooLarge, ValueError) as error:
            raise WireError(f"batch at offset {self.header.base_offset}: {error}") from error

    def __iter__(self):
        return iter(self.records())

    def __repr__(self):
        return (
            f"<Batch offsets {self.base_offset}..{self.last_offset}, {self.count} records, {self.size_bytes} bytes, "
            f"codec {self.codec!s}, epoch {self.leader_epoch}>"
        )


@cython.final
cdef class _Reader:
    cdef Py_buffer view
    cdef bint held
    cdef Py_ssize_t position
    cdef readonly object buffer

    def __cinit__(self, buffer not None):
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.held = True
        self.buffer = buffer

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t* at = <const uint8_t*>self.view.buf + self.position
        cdef Py_ssize_t n = self.view.len - self.position
        cdef Batch batch
        cdef int32_t length
        if n <= BATCH_MAGIC_AT:
            raise StopIteration
        if at[BATCH_MAGIC_AT] != 2:
            raise WireError(
                f"batch at byte {self.position} has magic {<int8_t>at[BATCH_MAGIC_AT]}; only 2 is supported"
                + (" (message sets of magic 0 and 1, from before Kafka 0.11, are not read)" if at[BATCH_MAGIC_AT] < 2 else "")
            )
        length = <int32_t>load_u32(at + 8)
        if length < BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES:
            raise WireError(f"batch at byte {self.position} has length {length}; at least 49 is required")
        if length > n - BATCH_OVERHEAD_BYTES:
            raise StopIteration
        batch = Batch.__new__(Batch)
        parse_header(at, n, &batch.header)
        batch.at = at
        batch.position = self.position
        batch.owner = self
        self.position += batch_bytes(&batch.header)
        return batch


def decode_batches(buffer not None):
    """An iterator over the batches of a bytes-like object, such as a segment file or the records field of a Fetch response.

    An incomplete batch at the end is ignored, as consumers do. Raises WireError for magic 0 and 1 or a length that is too small.
    The buffer must not change while the iterator or one of its batches lives.
    """
    return _Reader(buffer)


cdef void put_header(uint8_t* p, const BatchHeader* h) noexcept:
    store_u64(p, <uint64_t>h.base_offset)
    store_u32(p + 8, <uint32_t>h.length)
    store_u32(p + 12, <uint32_t>h.leader_epoch)
    p[BATCH_MAGIC_AT] = 2
    store_u16(p + 21, <uint16_t>h.attributes)
    store_u32(p + 23, <uint32_t>h.last_offset_delta)
    store_u64(p + 27, <uint64_t>h.base_timestamp)
    store_u64(p + 35, <uint64_t>h.max_timestamp)
    store_u64(p + 43, <uint64_t>h.producer_id)
    store_u16(p + 51, <uint16_t>h.producer_epoch)
    store_u32(p + 53, <uint32_t>h.base_sequence)
    store_u32(p + 57, <uint32_t>h.count)
    store_u32(p + 17, crc32c(0, p + BATCH_CRC_START, batch_bytes(h) - BATCH_CRC_START))


cdef bytes finish(Writer out, BatchHeader* header, object codec, object level):
    cdef Py_ssize_t payload_bytes = out.pos - BATCH_HEADER_BYTES
    cdef bytes batch
    if codec:
        plain = PyMemoryView_FromMemory(<char*>out.buf + BATCH_HEADER_BYTES, payload_bytes, PyBUF_READ)
        payload = compress(codec, plain, level)
        out.pos = BATCH_HEADER_BYTES
        out.put_bytes(payload)
        payload_bytes = len(payload)
    if payload_bytes > INT32_MAX - BATCH_HEADER_BYTES:
        raise WireError(f"a batch has {payload_bytes} bytes of records; at most {INT32_MAX - BATCH_HEADER_BYTES} are allowed")
    header.length = <int32_t>(payload_bytes + BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES)
    put_header(out.buf, header)
    batch = out.take_value()
    return batch


def encode_batch(
    records not None, *, int64_t base_offset=0, codec=None, level=None, int64_t producer_id=-1, int16_t producer_epoch=-1,
    int32_t base_sequence=-1, bint transactional=False, bint control=False, int32_t leader_epoch=-1, log_append_time_ms=None,
):
    """One batch of `records` (at least one Record), at consecutive offsets from `base_offset`; the records' own offsets are
    ignored.

    `codec` is a Codec, its number, or None; `level` as in compression.compress. Timestamps are the records' own (CreateTime),
    unless `log_append_time_ms` is given, which then applies to all (LogAppendTime). Raises ValueError for no records, an unknown
    codec or a level out of range; TypeError for something that is not a Record; WireError for more than a batch can hold.
    """
    cdef Writer out = Writer()
    cdef BatchHeader header
    cdef CRecord record
    cdef int32_t index = 0
    codec = 0 if codec is None else int(codec)
    if codec < 0 or codec > 4:
        raise ValueError(f"compression codec {codec} is not one of 0 (none), 1 (gzip), 2 (snappy), 3 (lz4), 4 (zstd)")
    header.base_timestamp = -1
    header.max_timestamp = -1
    out.reserve(BATCH_HEADER_BYTES)
    out.pos = BATCH_HEADER_BYTES
    for each in records:
        record = <CRecord?>each
        if index == 0:
            header.base_timestamp = record.timestamp
        header.max_timestamp = max(header.max_timestamp, record.timestamp)
        put_record(out, record, header.base_timestamp, index)
        index += 1
    if index == 0:
        raise ValueError("a batch needs at least one record")
    header.base_offset = base_offset
    header.leader_epoch = leader_epoch
    header.attributes = codec
    if transactional:
        header.attributes |= ATTRIBUTE_TRANSACTIONAL
    if control:
        header.attributes |= ATTRIBUTE_CONTROL
    if log_append_time_ms is not None:
        header.attributes |= ATTRIBUTE_LOG_APPEND_TIME
        header.max_timestamp = log_append_time_ms
    header.last_offset_delta = index - 1
    header.producer_id = producer_id
    header.producer_epoch = producer_epoch
    header.base_sequence = base_sequence
    header.count = index
    return finish(out, &header, codec, level)


def rebuild_batch(data not None, *, codec=None, level=None, log_append_time_ms=None):
    """Encode the one batch in `data` again, with consecutive offset deltas, and with another codec if `codec` is not None.

    For a batch whose verdict has `rebuild` set: the topic's compression.type is not what the producer used, or deltas had gaps.
    Raises WireError if `data` does not contain a whole batch, or if its records are malformed or exceed
    compression.decompressed_limit.
    """
    cdef Batch batch = next(_Reader(data), None)
    if batch is None:
        raise Truncated("the data to rebuild is not a complete record batch")
    return encode_batch(
        batch.records(decompressed_limit(batch.size_bytes)), base_offset=batch.base_offset,
        codec=batch.codec if codec is None else codec, level=level, producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence, transactional=batch.is_transactional,
        control=batch.is_control, leader_epoch=batch.leader_epoch, log_append_time_ms=log_append_time_ms,
    )


def recoded_batch(data not None, plain not None, int codec, level=None, *, Py_ssize_t size_max=INT32_MAX):
    """The one batch in `data`, stored with another codec. `plain` has its uncompressed records, which are not parsed.

    None if the result has more than `size_max` bytes. Raises WireError if `data` does not contain a whole batch.
    """
    cdef Batch batch = next(_Reader(data), None)
    cdef BatchHeader header
    cdef Writer out
    if batch is None:
        raise Truncated("the data to store with another codec is not a complete record batch")
    payload = compress(codec, plain, level) if codec else plain
    if len(payload) > size_max - BATCH_HEADER_BYTES:
        return None
    header = batch.header
    header.attributes = (header.attributes & (ATTRIBUTE_LOG_APPEND_TIME | ATTRIBUTE_TRANSACTIONAL)) | codec
    header.length = <int32_t>len(payload) + BATCH_HEADER_BYTES - BATCH_OVERHEAD_BYTES
    out = Writer()
    out.reserve(BATCH_HEADER_BYTES + len(payload))
    out.pos = BATCH_HEADER_BYTES
    out.put_bytes(payload)
    put_header(out.buf, &header)
    return out.take_value()
