"""The encoder of messages, which writes the same bytes as Kafka's own classes."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble, PyFloat_Check
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_AsUnsignedLongLongMask, PyLong_Check
from cpython.object cimport PyObject, PyTypeObject
from cpython.unicode cimport PyUnicode_Check
from libc.limits cimport INT_MAX
from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, int8_t, uint16_t, uint32_t, uint8_t
from libc.string cimport memcpy, memmove

from broker_cy.core.writer cimport Writer, put_uvarlong, store_u32, store_u64
from broker_cy.wire.layout cimport (
    BOOL, BYTES, INT16, INT32, INT64, INT8, STRING, STRING_SIZE_MAX, STRUCT, UINT16, UINT32, UUID, Kind, Layout, Node, Op, get_slot,
    layout_of, located, set_slot, slot_offset,
)

from uuid import UUID as PyUUID

from broker_cy.core.errors import WireError

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* cls, Py_ssize_t items)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef Py_ssize_t UUID_INT = slot_offset(PyUUID, "int")


@cython.final
cdef class EncodedElements:
    """The structures of a large array, encoded in parts: so that a caller with an event loop can let others run between them.
    It stands in place of the list, in a message that is encoded in the same version.
    """

    def __init__(self, type cls not None, int version):
        self.cls = cls
        self.version = version
        self.parts = []

    def add(self, elements):
        """Encode more elements, which are of the class. Raises WireError."""
        cdef Layout layout = layout_of(self.cls)
        cdef Node node = layout.node(self.version)
        cdef Writer writer = Writer.__new__(Writer)
        cdef Py_ssize_t count = 0
        for element in elements:
            write_struct(node, writer, element)
            count += 1
        self.parts.append(writer.take_value())
        self.count += count

    def add_columns(self, ids, *columns):
        """Encode more elements from the values of their fields: one column for each field, in the order of the schema. The
        first column has UUIDs or strings. Many topics have the same partitions: if an element differs from the one before it
        only in its id or name, because its other values are the same objects, the bytes of that element are copied. Raises
        WireError, and ValueError if the columns differ in length.
        """
        cdef Layout layout = layout_of(self.cls)
        cdef Node node = layout.node(self.version)
        cdef Writer writer = Writer.__new__(Writer)
        cdef list lists = [list(column) for column in (ids, *columns)]
        cdef list values
        cdef object message = PyType_GenericAlloc(<PyTypeObject*>layout.cls, 0)
        cdef object value
        cdef Py_ssize_t count = PyList_GET_SIZE(<list>lists[0])
        cdef Py_ssize_t start = 0, size = 0, begin, end, i, field
        cdef bint is_same
        if (
            len(lists) != layout.count
            or node.body_count == 0
            or node.body[0].field != 0
            or (node.body[0].kind != UUID and node.body[0].kind != STRING)
            or node.body[0].is_array
        ):
            raise WireError(f"{layout.name} does not begin with an id or a name, or has other fields than {len(lists)} columns")
        for values in lists:
            if PyList_GET_SIZE(values) != count:
                raise ValueError(f"the columns of {layout.name} differ in length")
        set_slot(message, layout.offsets[layout.count], ())
        for i in range(count):
            set_slot(message, layout.offsets[0], <object>PyList_GET_ITEM(<list>PyList_GET_ITEM(lists, 0), i))
            is_same = i > 0
            for field in range(1, layout.count):
                value = <object>PyList_GET_ITEM(<list>PyList_GET_ITEM(lists, field), i)
                if not is_same or get_slot(message, layout.offsets[field]) is not value:
                    is_same = False
                    set_slot(message, layout.offsets[field], value)
            if is_same:
                write_value(&node.body[0], writer, get_slot(message, layout.offsets[0]))
                writer.reserve(size)
                memcpy(writer.buf + writer.pos, writer.buf + start, size)
                writer.pos += size
            else:
                begin = writer.pos
                write_struct(node, writer, message)
                end = writer.pos
                writer.pos = begin
                # The first field again, for its size.
                write_value(&node.body[0], writer, get_slot(message, layout.offsets[0]))
                start = writer.pos
                writer.pos = end
                size = end - start
        self.parts.append(writer.take_value())
        self.count += count

    cdef int write(self, Node node, Writer writer) except -1:
        cdef bytes part
        if self.cls is not node.layout.cls or self.version != node.version:
            raise WireError(f"encoded elements are of {self.cls.__qualname__} in version {self.version}")
        for part in self.parts:
            writer.raw(PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
        return 0


cdef int write_struct(Node node, Writer writer, object message) except -1:
    cdef Layout layout = node.layout
    cdef Op* op = NULL
    cdef int i
    cdef object value, unknown
    if type(message) is not layout.cls and not isinstance(message, layout.cls):
        raise WireError(f"a {layout.cls.__qualname__} is expected, not a {type(message).__qualname__}")
    try:
        for i in range(node.absent_count):
            op = &node.absent[i]
            value = get_slot(message, op.offset)
            # As in Kafka's classes, a field that has its default value or is ignorable is left out silently.
            if <PyObject*>value == op.constant:
                continue
            if not layout.is_default(op.field, value) and not layout.ignorable[op.field]:
                raise WireError(f"version {node.version} has no such field, and its value is not the default")
        for i in range(node.body_count):
            op = &node.body[i]
            value = get_slot(message, op.offset)
            if op.is_array:
                write_array(op, writer, value)
            else:
                write_value(op, writer, value)
    except WireError as error:
        raise located(error, node, op)
    unknown = get_slot(message, layout.offsets[layout.count])
    if node.flexible:
        if node.tagged_count == 0 and unknown == ():
            writer.i8(0)
        else:
            write_tags(node, writer, message, unknown)
    elif unknown != ():
        raise WireError(f"version {node.version} has no tagged fields", "_unknown_tags")
    return 0


cdef int write_tags(Node node, Writer writer, object message, object unknown) except -1:
    """Write the known fields that do not have their default value, and the unknown ones that were read, by ascending tag."""
    cdef dict extra = {}
    cdef list present = []
    cdef Op* op
    cdef int i
    cdef object value
    for i in range(node.tagged_count):
        value = get_slot(message, node.tagged[i].offset)
        if <PyObject*>value != node.tagged[i].constant and not node.layout.is_default(node.tagged[i].field, value):
            present.append((node.tagged[i].tag, i, None))
    for tag, raw in unknown:
        for i in range(node.tagged_count):
            if node.tagged[i].tag == tag:
                raise WireError(f"tag {tag} belongs to a known field", "_unknown_tags")
        if tag in extra:
            raise WireError(f"tag {tag} occurs twice", "_unknown_tags")
        if not 0 <= tag <= INT_MAX:
            raise WireError(f"tag {tag} is out of range; 0 to {INT_MAX} are allowed", "_unknown_tags")
        if not PyBytes_CheckExact(raw):
            raise WireError(f"tag {tag} must be bytes, not a {type(raw).__qualname__}", "_unknown_tags")
        extra[tag] = raw
        present.append((tag, -1, raw))
    present.sort(key=tag_of)
    writer.uvarint(len(present))
    for tag, i, raw in present:
        writer.uvarint(tag)
        if i < 0:
            writer.uvarint(len(raw))
            writer.put_bytes(raw)
            continue
        op = &node.tagged[i]
        try:
            write_tag(op, writer, get_slot(message, op.offset))
        except WireError as error:
            raise located(error, node, op)
    return 0


def tag_of(entry):
    return entry[0]


cdef int write_tag(Op* op, Writer writer, object value) except -1:
    """Write the size and the value. One byte is reserved for the size; if that is too little, the value is moved."""
    cdef Py_ssize_t start = writer.pos
    cdef Py_ssize_t size
    cdef uint8_t head[10]
    cdef int head_size
    writer.i8(0)
    if op.is_array:
        write_array(op, writer, value)
    else:
        write_value(op, writer, value)
    size = writer.pos - start - 1
    head_size = put_uvarlong(head, size)
    if head_size > 1:
        writer.reserve(head_size - 1)
        memmove(writer.buf + start + head_size, writer.buf + start + 1, size)
        writer.pos += head_size - 1
    put_uvarlong(writer.buf + start, size)
    return 0


cdef int write_length(Op* op, Writer writer, Kind kind, Py_ssize_t length) except -1:
    """Write a length, or -1 for null if the field allows it. `kind` is STRUCT for the length of an array."""
    if length < 0 and (not op.nullable or (op.is_array and kind != STRUCT)):
        raise WireError("None is not allowed")
    if kind == STRING and length > STRING_SIZE_MAX:
        raise WireError(f"the string has {length} bytes; at most {STRING_SIZE_MAX} are allowed")
    if length >= INT_MAX:
        raise WireError(f"the length is {length}; at most {INT_MAX - 1} is allowed")
    if op.compact:
        return writer.uvarint(<uint32_t>(length + 1))
    if kind == STRING:
        return writer.i16(<int16_t>length)
    return writer.i32(<int32_t>length)


cdef int write_array(Op* op, Writer writer, object values) except -1:
    cdef list elements
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t length
    cdef uint8_t* at
    if values is None:
        return write_length(op, writer, STRUCT, -1)
    if type(values) is EncodedElements:
        write_length(op, writer, STRUCT, (<EncodedElements>values).count)
        if op.kind != STRUCT:
            raise WireError("encoded elements are for structures")
        return (<EncodedElements>values).write(<Node>op.child, writer)
    if type(values) is not list:
        if not isinstance(values, (list, tuple)):
            raise WireError(f"a list is expected, not a {type(values).__qualname__}")
        values = list(values)
    elements = values
    length = PyList_GET_SIZE(elements)
    write_length(op, writer, STRUCT, length)
    try:
        if op.kind == INT32:
            writer.reserve(length * 4)
            at = writer.buf + writer.pos
            while i < length:
                store_u32(at + i * 4, <uint32_t>as_int(<object>PyList_GET_ITEM(elements, i), -0x80000000, 0x7FFFFFFF))
                i += 1
            writer.pos += length * 4
            return 0
        while i < length:
            if i >= PyList_GET_SIZE(elements):
                raise WireError("the list shrank while it was written")
            write_value(op, writer, <object>PyList_GET_ITEM(elements, i))
            i += 1
    except WireError as error:
        error.field = f"[{i}].{error.field}" if error.field else f"[{i}]"
        raise
    return 0


cdef int write_value(Op* op, Writer writer, object value) except -1:
    """Write one value, or one element of an array."""
    if op.kind == INT32:
        return writer.i32(<int32_t>as_int(value, -0x80000000, 0x7FFFFFFF))
    if op.kind == STRUCT:
        if value is None:
            if not op.nullable or op.is_array:
                raise WireError("None is not allowed")
            return writer.i8(-1 if op.tag < 0 else 0)
        if op.nullable and not op.is_array:
            writer.i8(1)
        return write_struct(<Node>op.child, writer, value)
    if op.kind == STRING:
        return write_text(op, writer, value)
    if op.kind == INT16:
        return writer.i16(<int16_t>as_int(value, -0x8000, 0x7FFF))
    if op.kind == INT64:
        return writer.i64(as_int(value, INT64_MIN, INT64_MAX))
    if op.kind == INT8:
        return writer.i8(<int8_t>as_int(value, -0x80, 0x7F))
    if op.kind == BOOL:
        return writer.i8(1 if value else 0)
    if op.kind == UUID:
        return write_uuid(writer, value)
    if op.kind == BYTES:
        return write_bytes(op, writer, value)
    if op.kind == UINT16:
        return writer.u16(<uint16_t>as_int(value, 0, 0xFFFF))
    if op.kind == UINT32:
        return writer.u32(<uint32_t>as_int(value, 0, 0xFFFFFFFF))
    if not PyFloat_Check(value) and not PyLong_Check(value):
        raise WireError(f"a number is expected, not a {type(value).__qualname__}")
    return writer.f64(PyFloat_AsDouble(value))


cdef inline int64_t as_int(object value, int64_t low, int64_t high) except? -1:
    cdef int overflow = 0
    cdef int64_t number
    if not PyLong_Check(value):
        raise WireError(f"an integer is expected, not a {type(value).__qualname__}")
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow != 0 or number < low or number > high:
        raise WireError(f"{value} is not within {low} to {high}")
    return number


cdef int write_text(Op* op, Writer writer, object value) except -1:
    cdef Py_ssize_t size = 0
    cdef const char* text
    if value is None:
        return write_length(op, writer, STRING, -1)
    if not PyUnicode_Check(value):
        raise WireError(f"a str is expected, not a {type(value).__qualname__}")
    try:
        text = PyUnicode_AsUTF8AndSize(value, &size)
    except UnicodeEncodeError as error:
        raise WireError(f"cannot be encoded as UTF-8: {error.reason} at character {error.start}") from None
    write_length(op, writer, STRING, size)
    return writer.raw(text, size)


cdef int write_bytes(Op* op, Writer writer, object value) except -1:
    cdef Py_buffer view
    if value is None:
        return write_length(op, writer, BYTES, -1)
    if PyBytes_CheckExact(value):
        write_length(op, writer, BYTES, PyBytes_GET_SIZE(value))
        return writer.raw(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    try:
        PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        raise WireError(f"contiguous bytes are expected, not a {type(value).__qualname__}") from None
    try:
        write_length(op, writer, BYTES, view.len)
        writer.raw(view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int write_uuid(Writer writer, object value) except -1:
    cdef object number
    if not isinstance(value, PyUUID):
        raise WireError(f"a uuid.UUID is expected, not a {type(value).__qualname__}")
    number = get_slot(value, UUID_INT)
    writer.reserve(16)
    store_u64(writer.buf + writer.pos, PyLong_AsUnsignedLongLongMask(number >> 64))
    store_u64(writer.buf + writer.pos + 8, PyLong_AsUnsignedLongLongMask(number))
    writer.pos += 16
    return 0
