"""The codec for Cython callers; the interpreter itself is in `layout`, `decoder` and `encoder`."""

from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer


cdef object decode_at(type cls, int version, Cursor cursor)
cdef int encode_at(Writer writer, object message, int version) except -1
