from libc.stdint cimport int16_t

from broker_cy.metrics.requests cimport RequestMetrics

cdef int count_errors(RequestMetrics metrics, int16_t key, object response) except -1
