"""The schemas that the records of a batch name, in a header or in front of the key or value, for topics that check them.

    0, id int32                  in front of the payload
    1, GUID 16 bytes             in the header `__value_schema_id` or `__key_schema_id`, or in front

As in Confluent's deserializers, the last header of the name goes before the bytes; a header without a value counts as none.
serdes.framing of the registry reads records the same way.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp

from broker_cy.core.cursor cimport load_u32
from broker_cy.wire.walk cimport read_sized, read_varint, read_varlong

from broker_cy.core.errors import WireError
from broker_cy.wire import schema_header

cdef enum:
    # Schemas that the keys, or the values, of one batch may name. Producers use a few; each one takes 300 bytes here.
    SCHEMAS_MAX = 1000
    # Records of one schema that are reported if it is refused, as for other reasons (RECORD_ERRORS_MAX in batch.pyx).
    PLACES_MAX = 4096
    MAGIC_ID = 0
    MAGIC_GUID = 1
    ID_BYTES = 5
    GUID_BYTES = 17

cdef bytes KEY_HEADER = schema_header.KEY_HEADER.encode()
cdef bytes VALUE_HEADER = schema_header.VALUE_HEADER.encode()
cdef int64_t ID_MAX = schema_header.ID_MAX


# The bytes that may name the schema of a key or value: those of a header, else its own. `n` is negative for null.
cdef struct Place:
    const uint8_t* p
    int32_t n


@cython.final
cdef class SchemaUse:
    """The records that name one schema."""
    cdef readonly int32_t records       # the number of all
    cdef readonly list places           # in the batch, of the first PLACES_MAX


@cython.final
cdef class SchemaUses:
    """Those of the keys, or of the values, of a batch."""
    cdef readonly dict found            # id (int), GUID (16 bytes) or None (no schema is named) -> SchemaUse
    cdef readonly bint is_full          # the batch names more than SCHEMAS_MAX schemas: the others are not in `found`
    cdef int64_t last_id
    cdef SchemaUse last

    def __cinit__(self):
        self.found = {}
        self.last_id = -1

    cdef int note(self, int32_t place, const uint8_t* p, Py_ssize_t n) except -1:
        """Note the schema that the n bytes at p name."""
        cdef SchemaUse use
        cdef int64_t schema_id = -1
        if n >= ID_BYTES and p[0] == MAGIC_ID:
            schema_id = load_u32(p + 1)
        if 0 <= schema_id <= ID_MAX:
            # Most batches name one schema.
            if schema_id != self.last_id:
                self.last = self.use_of(schema_id)
                self.last_id = schema_id
            use = self.last
        elif n >= GUID_BYTES and p[0] == MAGIC_GUID:
            use = self.use_of(PyBytes_FromStringAndSize(<const char*>p + 1, GUID_BYTES - 1))
        else:
            use = self.use_of(None)
        if use is None:
            return 0
        use.records += 1
        if use.records <= PLACES_MAX:
            use.places.append(place)
        return 0

    cdef SchemaUse use_of(self, object schema):
        """The entry of a schema; None if there is no room for it."""
        cdef SchemaUse use = self.found.get(schema)
        if use is None:
            if len(self.found) >= SCHEMAS_MAX:
                self.is_full = True
                return None
            use = self.found[schema] = SchemaUse.__new__(SchemaUse)
            use.places = []
        return use


cdef inline bint is_named(const uint8_t* p, int32_t n, bytes name) noexcept:
    return n == len(name) and memcmp(p, <const char*>name, n) == 0


cdef const uint8_t* read_headers(const uint8_t* p, const uint8_t* end, int32_t count, Place* key, Place* value) noexcept:
    """Find the headers that name schemas. Returns the place after the headers, or NULL if they do not fit."""
    cdef const uint8_t* name
    cdef int32_t name_size = 0, size = 0
    while count > 0:
        count -= 1
        p = read_varint(p, end, &name_size)
        if p == NULL or name_size < 0 or name_size > end - p:
            return NULL
        name = p
        p = read_sized(p + name_size, end, &size)
        if p == NULL:
            return NULL
        if is_named(name, name_size, VALUE_HEADER):
            value.p = p - max(size, 0)
            value.n = size
        elif is_named(name, name_size, KEY_HEADER):
            key.p = p - max(size, 0)
            key.n = size
    return p


cdef const uint8_t* read_record(const uint8_t* p, const uint8_t* end, Place* own, Place* headed) noexcept:
    """Read one record: its key and value, in this order, into `own`, the values of their headers into `headed`. Returns the place after
    it, or NULL if it is malformed.
    """
    cdef const uint8_t* record_end
    cdef int64_t timestamp_delta = 0
    cdef int32_t length = 0, offset_delta = 0, headers = 0
    cdef int i
    headed[0].n = headed[1].n = -1
    p = read_varint(p, end, &length)
    if p == NULL or length < 1 or length > end - p:
        return NULL
    record_end = p + length
    p = read_varlong(p + 1, record_end, &timestamp_delta)
    if p != NULL:
        p = read_varint(p, record_end, &offset_delta)
    for i in range(2):
        if p != NULL:
            p = read_sized(p, record_end, &own[i].n)
        if p != NULL:
            own[i].p = p - max(own[i].n, 0)
    if p != NULL:
        p = read_varint(p, record_end, &headers)
    if p == NULL or read_headers(p, record_end, headers, &headed[0], &headed[1]) == NULL:
        return NULL
    return record_end


cdef int collect(const uint8_t* p, Py_ssize_t n, int32_t count, SchemaUses keys, SchemaUses values) except -1:
    """Collect the schemas of `count` records in the n bytes at p. `keys` or `values` may be None. A null key or value names no schema,
    and is not collected.
    """
    cdef const uint8_t* end = p + n
    cdef Place own[2]
    cdef Place headed[2]
    cdef Place* found
    cdef int32_t place
    for place in range(count):
        p = read_record(p, end, own, headed)
        if p == NULL:
            raise WireError(f"record {place} is malformed")
        if keys is not None and own[0].n >= 0:
            found = &headed[0] if headed[0].n >= 0 else &own[0]
            keys.note(place, found.p, found.n)
        if values is not None and own[1].n >= 0:
            found = &headed[1] if headed[1].n >= 0 else &own[1]
            values.note(place, found.p, found.n)
    return 0


def schemas_of(records not None, int32_t count, *, bint keys=False, bint values=False):
    """Collect the schemas of `count` records: the uncompressed bytes behind the header of a batch. Returns the SchemaUses of keys and
    values, None for those that are not asked for. Raises WireError.
    """
    cdef Py_buffer view
    cdef SchemaUses of_keys = SchemaUses.__new__(SchemaUses) if keys else None
    cdef SchemaUses of_values = SchemaUses.__new__(SchemaUses) if values else None
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        collect(<const uint8_t*>view.buf, view.len, count, of_keys, of_values)
    finally:
        PyBuffer_Release(&view)
    return of_keys, of_values
