from broker_cy.core.cursor cimport Cursor
from broker_cy.wire.layout cimport Node


cdef object read_struct(Node node, Cursor cursor)


cdef class Part:
    cdef int left
