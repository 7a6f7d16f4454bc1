"""The decoder of messages.

Allocations are bounded by the received bytes: every length is compared with the remaining bytes before anything is allocated, and
the remaining bytes must suffice for the claimed number of array elements of the smallest possible size. The decoder recurses once
per level of the table, and a table has at most `tables.DEPTH_MAX` levels.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_FromDouble
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from broker_cy.core.cursor cimport Cursor, load_u32, load_u64
from broker_cy.wire.layout cimport (
    BOOL, BYTES, INT16, INT32, INT64, INT8, STRING, STRING_SIZE_MAX, STRUCT, UINT16, UINT32, UUID, Kind, Layout, Node, Op, located,
    set_slot,
)
from broker_cy.wire.wire_uuid cimport make_uuid

from uuid import UUID as PyUUID

from broker_cy.core.errors import Truncated, WireError
from broker_cy.core.text import java_text

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* cls, Py_ssize_t items)

# About half a millisecond with the partitions of a Metadata answer.
cdef enum:
    PART_ELEMENTS = 500
    # Tagged fields of one structure of a request; unknown ones are kept, so they are limited (CVE-2022-34917). Kafka has at most 5.
    REQUEST_TAGS_MAX = 1000

cdef object ZERO_UUID = PyUUID(int=0)


cdef inline int set_default(Layout layout, Op* op, object message) except -1:
    set_slot(message, op.offset, <object>op.constant if op.constant != NULL else layout.new_default(op.field))
    return 0


cdef inline object new_message(Node node):
    """Make a message whose fields outside of the body have their defaults."""
    cdef Layout layout = node.layout
    cdef object message = PyType_GenericAlloc(<PyTypeObject*>layout.cls, 0)
    cdef int i
    set_slot(message, layout.offsets[layout.count], ())
    for i in range(node.absent_count):
        set_default(layout, &node.absent[i], message)
    for i in range(node.tagged_count):
        set_default(layout, &node.tagged[i], message)
    return message


cdef inline int read_end(Node node, Cursor cursor, object message) except -1:
    """Read the part after the body of a structure: its tagged fields, in flexible versions."""
    if node.flexible:
        if cursor.ptr < cursor.end and cursor.ptr[0] == 0:
            cursor.ptr += 1
        else:
            read_tags(node, cursor, message)
    return 0


cdef object read_struct(Node node, Cursor cursor):
    cdef object message = new_message(node)
    cdef Op* op = NULL
    cdef int i
    try:
        for i in range(node.body_count):
            op = &node.body[i]
            set_slot(message, op.offset, read_array(op, cursor) if op.is_array else read_value(op, cursor))
    except WireError as error:
        raise located(error, node, op)
    read_end(node, cursor, message)
    return message


cdef class Part:
    """The elements that are left of a part of a message."""

    def __cinit__(self):
        self.left = PART_ELEMENTS


def struct_parts(Node node not None, Cursor cursor not None, Part part not None):
    """A generator that does the same as `read_struct`, in parts: it yields after each PART_ELEMENTS elements of arrays of
    structures, and returns the message. Tagged fields and arrays of simple values are read in one part.
    """
    cdef object message = new_message(node)
    cdef Op* op = NULL
    cdef int i
    try:
        for i in range(node.body_count):
            op = &node.body[i]
            if op.is_array and op.kind == STRUCT:
                set_slot(message, op.offset, (yield from array_parts(node, i, cursor, part)))
            else:
                set_slot(message, op.offset, read_array(op, cursor) if op.is_array else read_value(op, cursor))
    except WireError as error:
        raise located(error, node, op)
    read_end(node, cursor, message)
    return message


def array_parts(Node node not None, int field, Cursor cursor not None, Part part not None):
    """As `struct_parts`, for the array of structures in a field of the body."""
    cdef Op* op = &node.body[field]
    cdef Node child = <Node>op.child
    cdef int64_t length = read_array_length(op, cursor)
    cdef bint has_parts = False
    cdef int k
    # Not a list of this length with holes: others run before it is complete.
    cdef list values = []
    if length < 0:
        return None
    for k in range(child.body_count):
        has_parts = has_parts or (child.body[k].is_array and child.body[k].kind == STRUCT)
    try:
        while len(values) < length:
            if has_parts:
                values.append((yield from struct_parts(child, cursor, part)))
            else:
                values.append(read_struct(child, cursor))
            part.left -= 1
            if part.left <= 0:
                part.left = PART_ELEMENTS
                yield
    except WireError as error:
        error.field = f"[{len(values)}].{error.field}" if error.field else f"[{len(values)}]"
        raise
    return values


cdef int read_tags(Node node, Cursor cursor, object message) except -1:
    cdef int64_t count = cursor.uvarint()
    cdef int64_t tag, size
    cdef uint64_t seen = 0
    cdef int i
    cdef dict unknown = None
    if count > cursor.remaining() // 2:
        raise Truncated(f"{count} tagged fields do not fit in the remaining {cursor.remaining()} bytes", "tagged fields")
    cursor.spend(count)
    if cursor.lenient_text and count > REQUEST_TAGS_MAX:
        raise WireError(f"{count} tagged fields; a structure of a request may have {REQUEST_TAGS_MAX}", "tagged fields")
    while count > 0:
        count -= 1
        tag = cursor.uvarint()
        size = cursor.uvarint()
        if size > cursor.remaining():
            raise Truncated(f"the {size} bytes of tag {tag} do not fit in the remaining {cursor.remaining()}", "tagged fields")
        for i in range(node.tagged_count):
            if node.tagged[i].tag == tag:
                if seen & (<uint64_t>1 << i):
                    raise WireError(f"tag {tag} occurs twice", "tagged fields")
                seen |= <uint64_t>1 << i
                read_tag(node, &node.tagged[i], cursor, size, message)
                break
        else:
            if unknown is None:
                unknown = {}
            if tag in unknown:
                raise WireError(f"tag {tag} occurs twice", "tagged fields")
            unknown[tag] = PyBytes_FromStringAndSize(<const char*>cursor.take(size), size)
    if unknown is not None:
        set_slot(message, node.layout.offsets[node.layout.count], tuple(sorted(unknown.items())))
    return 0


cdef int read_tag(Node node, Op* op, Cursor cursor, Py_ssize_t size, object message) except -1:
    """Read one known tagged field, which must occupy exactly its `size` bytes and cannot read past them."""
    cdef const uint8_t* end = cursor.end
    cursor.end = cursor.ptr + size
    try:
        set_slot(message, op.offset, read_array(op, cursor) if op.is_array else read_value(op, cursor))
        if cursor.ptr != cursor.end:
            raise WireError(f"{cursor.remaining()} bytes of tag {op.tag} are left over")
    except WireError as error:
        raise located(error, node, op)
    finally:
        cursor.end = end
    return 0


cdef int64_t read_length(Op* op, Cursor cursor, Kind kind) except -2:
    """Read the length of a string, of bytes or (kind STRUCT) of an array; -1 for null, which the field must allow."""
    cdef int64_t length
    if op.compact:
        length = cursor.uvarint() - 1
    elif kind == STRING:
        length = cursor.i16()
    else:
        length = cursor.i32()
    if length < 0:
        if length != -1:
            raise WireError(f"negative length {length}")
        if not op.nullable or (op.is_array and kind != STRUCT):
            raise WireError("null is not allowed")
    return length


cdef inline int64_t read_array_length(Op* op, Cursor cursor) except -2:
    """Read the number of elements; the rest must have enough bytes for them; -1 for null."""
    cdef int64_t length = read_length(op, cursor, STRUCT)
    if length < 0:
        return length
    if length > cursor.remaining() // op.element_size:
        raise Truncated(
            f"{length} elements of at least {op.element_size} bytes do not fit in the remaining {cursor.remaining()} bytes"
        )
    cursor.spend(length)
    return length


cdef object read_array(Op* op, Cursor cursor):
    cdef int64_t length = read_array_length(op, cursor)
    cdef const uint8_t* at
    cdef list values
    cdef object value
    cdef Py_ssize_t i = 0
    if length < 0:
        return None
    values = PyList_New(length)
    if op.kind == INT32:
        at = cursor.take(length * 4)
        for i in range(length):
            value = <int32_t>load_u32(at + i * 4)
            Py_INCREF(value)
            PyList_SET_ITEM(values, i, value)
        return values
    try:
        while i < length:
            value = read_value(op, cursor)
            Py_INCREF(value)
            PyList_SET_ITEM(values, i, value)
            i += 1
    except WireError as error:
        error.field = f"[{i}].{error.field}" if error.field else f"[{i}]"
        raise
    return values


cdef object read_value(Op* op, Cursor cursor):
    """Read one value, or one element of an array."""
    cdef int64_t length
    if op.kind == INT32:
        return cursor.i32()
    if op.kind == STRUCT:
        if op.nullable and not op.is_array and is_null_struct(op, cursor):
            return None
        return read_struct(<Node>op.child, cursor)
    if op.kind == STRING:
        length = read_length(op, cursor, STRING)
        if length < 0:
            return None
        if length > STRING_SIZE_MAX:
            raise WireError(f"the string has {length} bytes; at most {STRING_SIZE_MAX} are allowed")
        return read_text(cursor, length)
    if op.kind == INT16:
        return cursor.i16()
    if op.kind == INT64:
        return cursor.i64()
    if op.kind == INT8:
        return cursor.i8()
    if op.kind == BOOL:
        return cursor.i8() != 0
    if op.kind == UUID:
        return read_uuid(cursor.uuid())
    if op.kind == BYTES:
        length = read_length(op, cursor, BYTES)
        if length < 0:
            return None
        return PyBytes_FromStringAndSize(<const char*>cursor.take(length), length)
    if op.kind == UINT16:
        return cursor.u16()
    if op.kind == UINT32:
        return cursor.u32()
    return PyFloat_FromDouble(cursor.f64())


cdef bint is_null_struct(Op* op, Cursor cursor) except -1:
    """Read the byte before a nullable structure (KIP-893), which is negative for null, or 0 in a tagged field."""
    if op.tag >= 0:
        return cursor.uvarint() == 0
    return cursor.i8() < 0


cdef object read_text(Cursor cursor, Py_ssize_t length):
    cdef const char* at = <const char*>cursor.take(length)
    try:
        return PyUnicode_DecodeUTF8(at, length, NULL)
    except UnicodeDecodeError as error:
        if cursor.lenient_text:
            return java_text(PyBytes_FromStringAndSize(at, length))
        raise WireError(f"invalid UTF-8: {error.reason} at byte {error.start} of {length}") from None


cdef object read_uuid(const uint8_t* at):
    cdef uint64_t high = load_u64(at)
    cdef uint64_t low = load_u64(at + 8)
    if high == 0 and low == 0:
        return ZERO_UUID
    return make_uuid(high, low)
