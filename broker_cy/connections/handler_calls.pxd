from libc.stdint cimport int16_t, int32_t, uint8_t

from broker_cy.connections.receiver cimport Receiver

# Runs the handler of an API for a request with this body, which is NULL if the version is not served.
cdef int call_handler(Receiver connection, int16_t key, int16_t version, int32_t correlation_id, object client_id,
                      const uint8_t* body, Py_ssize_t n) except -1
# Answers a request with a copy of the answer to the one before, if it may; returns whether it did.
cdef bint repeat_answer(Receiver connection, int16_t key, int16_t version, int32_t correlation_id, const uint8_t* body,
                        Py_ssize_t n) except -1
