from broker_cy.core.writer cimport Writer
from broker_cy.wire.layout cimport Node


cdef int write_struct(Node node, Writer writer, object message) except -1


cdef class EncodedElements:
    cdef readonly int version
    cdef readonly Py_ssize_t count
    cdef list parts
    cdef type cls

    cdef int write(self, Node node, Writer writer) except -1
