"""The compiled form of a table: a `Layout` per structure (a Python class with slots), and a `Node` per version that is used (flat
arrays of `Op`, one per field). The encoder and the decoder iterate over those arrays and access the slots of the objects directly.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

cdef enum Kind:
    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, STRUCT

cdef enum:
    # Kafka refuses longer strings in both encodings, although the compact one could carry them.
    STRING_SIZE_MAX = 0x7FFF


cdef struct Op:
    Kind kind                # of the value, or of one element where `is_array`
    bint is_array
    bint nullable            # in this version
    bint compact             # lengths are unsigned varints of length + 1 (flexible versions)
    int tag                  # -1 for a field that is not tagged in this version
    int field                # index into the layout's lists
    Py_ssize_t offset        # of the slot in the object
    Py_ssize_t element_size  # the fewest bytes one element can take; at least 1
    PyObject* constant       # the default; NULL for a list or a message, because each object gets a new one; borrowed from Layout
    PyObject* child          # the structure's Node; borrowed from Node.children


cdef class Message:
    pass


cdef class Layout:
    cdef readonly type cls
    cdef readonly object spec            # MessageSpec the structure belongs to
    cdef readonly str name               # as in errors: `FetchRequest`, or the structure's own name
    cdef readonly list attributes        # of str: the slots in wire order
    cdef list defaults                   # the default of each field; immutable, or a list or message to copy
    cdef list ignorable                  # of bool: whether the field is left out silently if a version does not have it
    cdef list child_layouts              # of Layout or None
    cdef dict index                      # attribute -> index
    cdef list nodes                      # by version; None until it is used
    cdef Py_ssize_t* offsets             # of the slots; the last one is that of _unknown_tags
    cdef Py_ssize_t count

    cdef Node node(self, int version)
    cdef object new_default(self, Py_ssize_t field)
    cdef bint is_default(self, Py_ssize_t field, object value) except -1
    cdef bint is_constant(self, Py_ssize_t field) except -1


cdef class Node:
    cdef Layout layout
    cdef int version
    cdef bint flexible
    cdef Op* body                        # in wire order
    cdef int body_count
    cdef Op* tagged                      # by ascending tag
    cdef int tagged_count
    cdef Op* absent                      # fields that this version does not have
    cdef int absent_count
    cdef Py_ssize_t size_min             # the fewest bytes the structure can take
    cdef list children                   # keeps the nodes alive that ops point to


cdef Py_ssize_t slot_offset(type cls, str attribute) except -1
cdef Layout layout_of(object cls)
cdef int unset() except -1
cdef object located(object error, Node node, Op* op)


cdef inline PyObject** slot_at(object message, Py_ssize_t offset) noexcept:
    return <PyObject**>(<char*><PyObject*>message + offset)


cdef inline object get_slot(object message, Py_ssize_t offset):
    cdef PyObject* value = slot_at(message, offset)[0]
    if value == NULL:
        unset()
    return <object>value


cdef inline void set_slot(object message, Py_ssize_t offset, object value) noexcept:
    cdef PyObject** slot = slot_at(message, offset)
    cdef PyObject* old = slot[0]
    Py_INCREF(value)
    slot[0] = <PyObject*>value
    Py_XDECREF(old)
