from libc.stdint cimport int16_t, int32_t

from broker_cy.connections.answers cimport AnswerQueue
from broker_cy.connections.fetch_session cimport FetchContext
from broker_cy.core.writer cimport Writer
from broker_cy.storage.log_slice cimport LogSlice

cdef enum:
    INLINE_BYTES_MAX = 32768        # a record set of up to this is copied into the answer: one writev for all
    INLINE_TOTAL_MAX = 262144       # ... and at most this much per answer, the rest goes by sendfile

# Pieces of the whole frame: bytes, and LogSlice for record sets that are sent with sendfile. Records in the session
# what the client gets.
cdef list encode(AnswerQueue connection, FetchContext context, int32_t correlation_id, int16_t version, int32_t throttle_ms)
# Copies a small record set into the answer if all of it is in the page cache; returns whether it did.
cdef bint inline_records(Writer out, LogSlice part) except *
# Writes the length of a frame of `size` bytes after it into the first piece, to which nothing else refers yet.
cdef int patch_length(bytes first, Py_ssize_t size) except -1
