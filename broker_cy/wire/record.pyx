"""The records of a batch, magic 2: their class, reading and writing. walk.pyx describes the layout."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from broker_cy.core.writer cimport Writer, store_u64
from broker_cy.wire.batch cimport ATTRIBUTE_LOG_APPEND_TIME, BatchHeader
from broker_cy.wire.walk cimport read_sized, read_varint, read_varlong

from broker_cy.core.errors import WireError

cdef enum:
    RECORD_BYTES_MIN = 7            # length, attributes, two deltas, two lengths, number of headers
    INT32_MAX = 0x7FFFFFFF


cdef bytes bytes_or_none(object data):
    # Only bytes-like objects have a memoryview; bytes(5) would be five zero bytes.
    return data if data is None or type(data) is bytes else bytes(memoryview(data))


# Bytes and tuples of them cannot form a cycle, so the garbage collector need not visit the 100,000 records of a list.
@cython.no_gc
@cython.freelist(256)
@cython.final
cdef class Record:
    """One record. `headers` is a tuple of (str, bytes or None); header keys that are not UTF-8 are read with U+FFFD.

    The key, the value and header values may be any bytes-like objects. Raises TypeError for others.
    """

    def __init__(self, int64_t offset=0, int64_t timestamp=-1, key=None, value=None, headers=()):
        self.offset = offset
        self.timestamp = timestamp
        self.key = bytes_or_none(key)
        self.value = bytes_or_none(value)
        self.headers = tuple([(<str?>name, bytes_or_none(content)) for name, content in headers])

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        cdef Record that = other
        return (
            self.offset == that.offset and self.timestamp == that.timestamp and self.key == that.key
            and self.value == that.value and self.headers == that.headers
        )

    def __hash__(self):
        return hash((self.offset, self.timestamp, self.key, self.value, self.headers))

    def __repr__(self):
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )


cdef inline bytes slice_or_none(const uint8_t* end, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>end - size, size)


cdef tuple read_headers(const uint8_t** at, const uint8_t* end, int32_t count):
    cdef const uint8_t* p = at[0]
    cdef int32_t size = 0
    if count < 0 or count > end - p:
        raise WireError(f"a record has a header count of {count}, but {end - p} bytes are left in it")
    headers = []
    while count > 0:
        count -= 1
        p = read_sized(p, end, &size)
        if p == NULL or size < 0:
            raise WireError("a header key is null or does not fit in its record")
        name = PyUnicode_DecodeUTF8(<const char*>p - size, size, "replace")
        p = read_sized(p, end, &size)
        if p == NULL:
            raise WireError("a header value does not fit in its record")
        headers.append((name, slice_or_none(p, size)))
    at[0] = p
    return tuple(headers)


cdef list read_records(const uint8_t* p, Py_ssize_t n, const BatchHeader* header):
    # The checks are those of the walk (walk.pyx), in the same order.
    cdef const uint8_t* end = p + n
    cdef const uint8_t* record_end
    cdef const uint8_t* key_end
    cdef int32_t length = 0, offset_delta = 0, key_size = 0, value_size = 0, header_count = 0
    cdef int64_t timestamp_delta = 0
    cdef bint append_time = header.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
    cdef int32_t index
    cdef Record record
    if header.count < 0 or header.count > n // RECORD_BYTES_MIN:
        raise WireError(f"a batch claims {header.count} records in {n} bytes")
    records = []
    for index in range(header.count):
        p = read_varint(p, end, &length)
        if p == NULL:
            raise WireError(f"record {index} of {header.count} has no complete length field")
        if length < 1 or length > end - p:
            raise WireError(f"record {index} of {header.count} has length {length}, but {end - p} bytes are left in its batch")
        record_end = p + length
        p = read_varlong(p + 1, record_end, &timestamp_delta)
        if p != NULL:
            p = read_varint(p, record_end, &offset_delta)
        if p != NULL:
            p = read_sized(p, record_end, &key_size)
        key_end = p
        if p != NULL:
            p = read_sized(p, record_end, &value_size)
        if p == NULL:
            raise WireError(f"record {index} of {header.count} has a field that does not fit in its {length} bytes")
        record = Record.__new__(Record)
        record.key = slice_or_none(key_end, key_size)
        record.value = slice_or_none(p, value_size)
        p = read_varint(p, record_end, &header_count)
        if p == NULL:
            raise WireError(f"record {index} of {header.count} ends before its header count")
        record.headers = read_headers(&p, record_end, header_count) if header_count != 0 else ()
        if p != record_end:
            raise WireError(f"record {index} of {header.count} has {record_end - p} bytes after its fields")
        record.offset = <int64_t>(<uint64_t>header.base_offset + <uint64_t>offset_delta)
        record.timestamp = header.max_timestamp
        if not append_time:
            record.timestamp = <int64_t>(<uint64_t>header.base_timestamp + <uint64_t>timestamp_delta)
        records.append(record)
    if p != end:
        raise WireError(f"{end - p} bytes follow the {header.count} records of a batch")
    return records


cdef Py_ssize_t set_rows(
    dict rows, const uint8_t* p, Py_ssize_t n, const BatchHeader* header, int64_t first, int64_t end, bint timestamps
) except -1:
    # As read_records, without an object for each record.
    cdef const uint8_t* limit = p + n
    cdef const uint8_t* record_end
    cdef const uint8_t* key_end
    cdef int32_t length = 0, offset_delta = 0, key_size = 0, value_size = 0, header_count = 0
    cdef int64_t timestamp_delta = 0, offset, timestamp
    cdef bint append_time = header.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
    cdef int32_t index
    cdef Py_ssize_t count = 0
    cdef bytes value
    if header.count < 0 or header.count > n // RECORD_BYTES_MIN:
        raise WireError(f"a batch claims {header.count} records in {n} bytes")
    for index in range(header.count):
        p = read_varint(p, limit, &length)
        if p == NULL or length < 1 or length > limit - p:
            raise WireError(f"record {index} of {header.count} has a length that does not fit in its batch")
        record_end = p + length
        p = read_varlong(p + 1, record_end, &timestamp_delta)
        if p != NULL:
            p = read_varint(p, record_end, &offset_delta)
        if p != NULL:
            p = read_sized(p, record_end, &key_size)
        key_end = p
        if p != NULL:
            p = read_sized(p, record_end, &value_size)
        if p == NULL:
            raise WireError(f"record {index} of {header.count} has a field that does not fit in its {length} bytes")
        offset = <int64_t>(<uint64_t>header.base_offset + <uint64_t>offset_delta)
        if first <= offset < end:
            count += 1
            if key_size >= 0:
                if timestamps and value_size >= 0:
                    timestamp = header.max_timestamp
                    if not append_time:
                        timestamp = <int64_t>(<uint64_t>header.base_timestamp + <uint64_t>timestamp_delta)
                    value = PyBytes_FromStringAndSize(NULL, 8 + <Py_ssize_t>value_size)
                    store_u64(<uint8_t*>PyBytes_AS_STRING(value), <uint64_t>timestamp)
                    memcpy(PyBytes_AS_STRING(value) + 8, p - value_size, value_size)
                else:
                    value = slice_or_none(p, value_size)
                rows[PyBytes_FromStringAndSize(<const char*>key_end - key_size, key_size)] = value
        p = read_varint(p, record_end, &header_count)
        if p == NULL:
            raise WireError(f"record {index} of {header.count} ends before its header count")
        if header_count != 0:
            read_headers(&p, record_end, header_count)
        if p != record_end:
            raise WireError(f"record {index} of {header.count} has {record_end - p} bytes after its fields")
    if p != limit:
        raise WireError(f"{limit - p} bytes follow the {header.count} records of a batch")
    return count


cdef inline uint64_t zigzag(int64_t v) noexcept:
    return (<uint64_t>v << 1) ^ <uint64_t>(v >> 63)


cdef inline int size_of(uint64_t v) noexcept:
    cdef int n = 1
    while v >= 0x80:
        v >>= 7
        n += 1
    return n


cdef inline Py_ssize_t sized_field(bytes data) except -1:
    return 1 if data is None else size_of(zigzag(PyBytes_GET_SIZE(data))) + PyBytes_GET_SIZE(data)


cdef inline int put_field(Writer out, bytes data) except -1:
    if data is None:
        return out.i8(1)    # the varint -1
    out.varlong(PyBytes_GET_SIZE(data))
    return out.raw(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef int put_record(Writer out, Record record, int64_t base_timestamp, int32_t index) except -1:
    cdef int64_t timestamp_delta = <int64_t>(<uint64_t>record.timestamp - <uint64_t>base_timestamp)
    cdef Py_ssize_t size = 1 + size_of(zigzag(timestamp_delta)) + size_of(zigzag(index))
    size += sized_field(record.key) + sized_field(record.value) + size_of(zigzag(len(record.headers)))
    headers = [((<str>name).encode("utf-8"), value) for name, value in record.headers] if record.headers else ()
    for name, value in headers:
        size += sized_field(name) + sized_field(value)
    if size > INT32_MAX:
        raise WireError(f"record {index} has {size} bytes; at most {INT32_MAX} are allowed")
    out.varint(<int32_t>size)
    out.i8(0)
    out.varlong(timestamp_delta)
    out.varint(index)
    put_field(out, record.key)
    put_field(out, record.value)
    out.varint(<int32_t>len(headers))
    for name, value in headers:
        put_field(out, name)
        put_field(out, value)
    return 0
