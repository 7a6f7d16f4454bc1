from libc.stdint cimport int16_t, int32_t

from broker_cy.connections.answers cimport AnswerQueue
from broker_cy.connections.fetch_session cimport FetchContext

# Pieces of the whole frame: bytes, and LogSlice for record sets that are sent with sendfile. Records in the session
# what the client gets.
cdef list encode(AnswerQueue connection, FetchContext context, int32_t correlation_id, int16_t version, int32_t throttle_ms)
