from libc.stdint cimport int16_t, int32_t, uint8_t

cdef enum:
    # A longer request body is not kept; heartbeats are far shorter.
    KEPT_REQUEST_BYTES_MAX = 1024


cdef class KeptAnswer:
    """The answer to a request that its client sends again and again, byte for byte, as heartbeats are."""
    cdef int16_t key
    cdef int16_t version
    cdef bytes client_id            # the object of the connection, which has another one for another client id
    cdef bytes body                 # of the request
    cdef bytes frame                # the whole answer, with any correlation id
    cdef object stands              # RequestContext.still_stands

    @staticmethod
    cdef KeptAnswer of(int16_t key, int16_t version, bytes client_id, const uint8_t* body, Py_ssize_t n, bytes frame,
                       object stands)
    cdef bint is_for(self, int16_t key, int16_t version, bytes client_id, const uint8_t* body, Py_ssize_t n) noexcept
    cdef bint still_stands(self) except -1
    cdef bytes frame_for(self, int32_t correlation_id)
