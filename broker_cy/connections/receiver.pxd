"""The receiving half of a client connection: reads bytes, and cuts them into requests.

The memory of one connection is bounded: one buffer of BUFFER_BYTES, or, for a larger request, of at most twice the bytes
really received of it or of an earlier one (socket.request.max.bytes caps that); with less than CARRY_BYTES unparsed, only
those bytes; a kept answer, whose bound is in kept_answer.pxd; and the answers, whose bounds are in answers.pxd.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from broker_cy.metrics.requests cimport RequestMetrics
from broker_cy.connections.answers cimport (
    HELD_FOR_SYNC, PENDING_MAX, SCRATCH_BYTES, STAGED_BYTES_MAX, AnswerQueue, Reply, ServerCore,
)
from broker_cy.connections.buffers cimport BUFFER_BYTES, RecvBuffer
from broker_cy.connections.kept_answer cimport KeptAnswer

cdef extern from "arpa/inet.h" nogil:
    unsigned int ntohl(unsigned int)
    unsigned short ntohs(unsigned short)

cdef enum:
    CARRY_BYTES = 4096              # an unparsed rest below this is copied out of the pooled buffer
    READ_TURN_BYTES = 1048576       # read from one socket in one turn of the loop, before others get theirs
    READ_AHEAD_BYTES = 32768        # read at most this far past the end of a large request, to keep copies small
    # The kernel wakes the loop for the rest of a request when all of it has arrived, or this much of it: each wake-up for a
    # piece costs a poll, a recv, and a window update that makes the peer send its next packets. A slow peer sends far
    # more than this within connections.max.idle.ms.
    WAKE_BYTES_MAX = 524288
    WAKE_BYTES_MIN = 65536          # a rest below this is not worth two system calls
    # As CARRY_BYTES, before the login: so connections that never log in hold no more memory than the bytes that they sent.
    LOGIN_CARRY_BYTES = 65536
    # The memory for incomplete requests of all clients that are not logged in: beyond it, the client that has held memory for
    # longest is disconnected. Up to LOGIN_BYTES_FREE of a client do not count: no login needs as much.
    LOGIN_BYTES_MAX = 67108864
    LOGIN_BYTES_FREE = 8192

cdef inline int32_t be32(const uint8_t* p) noexcept nogil:
    cdef unsigned int v
    memcpy(&v, p, 4)
    return <int32_t>ntohl(v)


cdef inline int16_t be16(const uint8_t* p) noexcept nogil:
    cdef unsigned short v
    memcpy(&v, p, 2)
    return <int16_t>ntohs(v)


cdef class Receiver(AnswerQueue):
    cdef RecvBuffer buffer
    cdef bytes carry
    cdef Py_ssize_t in_start
    cdef Py_ssize_t in_end
    cdef Py_ssize_t proven_bytes    # largest request that really arrived: the buffer taken for the next large one
    cdef int wake_bytes             # the last size given to the transport
    cdef bint resume_scheduled
    cdef Py_ssize_t frame_bytes_max     # socket.request.max.bytes; sasl.server.max.receive.size before the login
    cdef Py_ssize_t carry_bytes
    cdef readonly bint logging_in            # each frame is for the login
    cdef KeptAnswer kept            # to the newest request, if its handler lets it be repeated
    cdef Py_ssize_t login_bytes     # the part of server.login_bytes that this connection holds before its login

    cdef int process(self, const uint8_t* p, Py_ssize_t n) except -1
    cdef int read(self) except -1
    cdef int go_on(self) except -1
    cdef int counted(self, bint from_buffer) except -1
    cdef int settle(self) except -1
    cdef bint gives_answer(self, int64_t sent) noexcept
    cdef int peer_gone(self) except -1
    cdef int wake_when_worth_it(self, Py_ssize_t unparsed) except -1
    cdef int parse(self) except -1
    cdef int64_t count_handled(self, RequestMetrics metrics, Py_ssize_t size, int64_t started) except -1
    cdef int hold_for_login(self, Py_ssize_t held) except -1
    cdef bint must_wait(self) noexcept
    cdef bint waits_for_sync(self) except *
    cdef Py_ssize_t make_room(self) except -1
