"""The answer that a connection keeps because its request may be repeated; the .pxd describes it.

A heartbeat without news is the same bytes as the one before, and has the same answer: decoding, a context, the handler
and encoding would take most of its instructions.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

from broker_cy.core.writer cimport store_u32

cdef enum:
    CORRELATION_AT = 4              # behind the size of the frame


cdef class KeptAnswer:
    @staticmethod
    cdef KeptAnswer of(int16_t key, int16_t version, bytes client_id, const uint8_t* body, Py_ssize_t n, bytes frame,
                       object stands):
        cdef KeptAnswer kept = KeptAnswer.__new__(KeptAnswer)
        kept.key = key
        kept.version = version
        kept.client_id = client_id
        kept.body = PyBytes_FromStringAndSize(<const char*>body, n)
        kept.frame = frame
        kept.stands = stands
        return kept

    cdef bint is_for(self, int16_t key, int16_t version, bytes client_id, const uint8_t* body, Py_ssize_t n) noexcept:
        return (
            key == self.key
            and version == self.version
            and client_id is self.client_id
            and n == PyBytes_GET_SIZE(self.body)
            and memcmp(body, PyBytes_AS_STRING(self.body), n) == 0
        )

    cdef bint still_stands(self) except -1:
        return self.stands()

    cdef bytes frame_for(self, int32_t correlation_id):
        cdef bytes frame = PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.frame), PyBytes_GET_SIZE(self.frame))
        store_u32(<uint8_t*>PyBytes_AS_STRING(frame) + CORRELATION_AT, <unsigned int>correlation_id)
        return frame
