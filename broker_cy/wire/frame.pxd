"""Headers of requests and responses."""

from libc.stdint cimport int16_t, int32_t, uint8_t

from broker_cy.core.cursor cimport Cursor


cdef struct RequestHeader:
    int16_t api_key
    int16_t api_version
    int32_t correlation_id
    const uint8_t* client_id       # in the cursor's bytes; UTF-8, not checked; NULL for null
    Py_ssize_t client_id_size


cdef int read_request_header(Cursor cursor, RequestHeader* header) except -1
cpdef int request_header_version(int api_key, int version) except -1
cpdef int response_header_version(int api_key, int version) except -1
