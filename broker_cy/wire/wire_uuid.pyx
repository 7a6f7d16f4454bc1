"""The ids in decoded messages and records: uuid.UUID with its hash and its comparisons in C.

A group may read 10,000 topics, and tables by their ids are looked at several times in one turn of the loop. The hash of a
uuid.UUID is Python code, which takes three quarters of the time of a look-up; a comparison takes even longer.
"""

from cpython.object cimport PyObject_Hash, PyObject_RichCompare, PyTypeObject
from libc.stdint cimport uint64_t

from broker_cy.wire.layout cimport get_slot, set_slot, slot_offset

from uuid import UUID as PyUUID, SafeUUID

cdef extern from "Python.h":
    ctypedef struct PyType_Slot:
        int slot
        void* pfunc
    ctypedef struct PyType_Spec:
        const char* name
        int basicsize
        int itemsize
        unsigned int flags
        PyType_Slot* slots
    enum:
        Py_tp_hash
        Py_tp_richcompare
        Py_TPFLAGS_DEFAULT
    object PyType_FromSpecWithBases(PyType_Spec* spec, object bases)
    object PyType_GenericAlloc(PyTypeObject* cls, Py_ssize_t items)
    bint PyObject_IS_GC(object value)
    void PyObject_GC_UnTrack(void* value)

cdef Py_ssize_t INT = slot_offset(PyUUID, "int")
cdef Py_ssize_t IS_SAFE = slot_offset(PyUUID, "is_safe")
cdef object UNKNOWN_SAFETY = SafeUUID.unknown


cdef Py_hash_t hash_of(object value) except -1:
    return PyObject_Hash(get_slot(value, INT))


cdef object compared(object value, object other, int how):
    if not isinstance(other, PyUUID):
        return NotImplemented
    return PyObject_RichCompare(get_slot(value, INT), get_slot(other, INT), how)


cdef object make_class():
    """A subclass with these two functions in C. Those of a Python class are looked up with each call."""
    cdef PyType_Slot slots[3]
    cdef PyType_Spec spec
    slots[0].slot = Py_tp_hash
    slots[0].pfunc = <void*>hash_of
    slots[1].slot = Py_tp_richcompare
    slots[1].pfunc = <void*>compared
    slots[2].slot = 0
    slots[2].pfunc = NULL
    # The name of the class that it stands for: texts have `repr` of ids.
    spec.name = b"broker_cy.wire.wire_uuid.UUID"
    spec.basicsize = spec.itemsize = 0
    spec.flags = Py_TPFLAGS_DEFAULT
    spec.slots = slots
    return PyType_FromSpecWithBases(&spec, (PyUUID,))


UUID = make_class()
cdef PyTypeObject* CLASS = <PyTypeObject*>UUID


cdef object make_uuid(uint64_t high, uint64_t low):
    """Made without the constructor, which takes several times as long as the rest of a Fetch topic."""
    cdef object value = PyType_GenericAlloc(CLASS, 0)
    set_slot(value, INT, (<object>high << 64) | low)
    set_slot(value, IS_SAFE, UNKNOWN_SAFETY)
    # It is part of no cycle: the garbage collector need not look at 10,000 of them.
    if PyObject_IS_GC(value):
        PyObject_GC_UnTrack(<void*>value)
    return value
