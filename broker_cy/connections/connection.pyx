"""A client connection: hands its requests to the login, the gate and their handlers.

`receiver` cuts the bytes into requests, and `answers` sends the answers in their order.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t
from libc.string cimport memcmp

from broker_cy.core.clock cimport coarse_ms
from broker_cy.core.cursor cimport Cursor
from broker_cy.connections.answers cimport AnswerQueue, Reply, ServerCore
from broker_cy.connections.gate cimport ADMITTED, WITHOUT_BODY, Gate, admits_at_once, api_name
from broker_cy.connections.handler_calls cimport call_handler, repeat_answer
from broker_cy.connections.receiver cimport CARRY_BYTES, LOGIN_CARRY_BYTES, Receiver, be16, be32
from broker_cy.network.transport cimport Transport
from broker_cy.wire.produce cimport skip_tags

from broker_cy.core.errors import WireError
from broker_cy.core.text import java_text
from broker_cy.security.acls import ANONYMOUS

cdef enum:
    PRODUCE_KEY = 0
    SASL_HANDSHAKE_KEY = 17
    SASL_AUTHENTICATE_KEY = 36


cdef object client_text(const char* at, Py_ssize_t n):
    """The text of a client id. Raises WireError as `java_text` does, which takes a thousand instructions."""
    try:
        return PyUnicode_DecodeUTF8(at, n, NULL)
    except UnicodeDecodeError:
        return java_text(PyBytes_FromStringAndSize(at, n))


cdef class Connection(Receiver):
    def __init__(self, ServerCore server, Transport transport not None, str listener, str client_host, int client_port, str local,
                 logins=None):
        """`logins` makes the login of a connection (login.Logins); None on listeners without SASL."""
        self.server = server
        self.transport = transport
        self.listener = listener
        self.principal = ANONYMOUS
        self.client_host = client_host
        self.client_port = client_port
        self.connection_id = f"{local}-{client_host}:{client_port}-{server.connections_opened}"
        server.connections_opened += 1
        self.queue = []
        self.loop = server.loop
        self.clock = server.clock
        self.client_id = b""
        self.opened_ms = self.last_active_ms = coarse_ms(&self.clock.source)
        self.staged_at = -1
        self.wake_bytes = 1
        self.gate = server.gate
        self.frame_bytes_max = server.request_bytes_max
        self.carry_bytes = CARRY_BYTES
        if logins is not None:
            self.begin_login(logins.receive_bytes_max)
            self.login = logins.begin(self)
        server.connections[self] = None
        server.loop.add_reader(transport.fd, self.on_readable)
        self.reading = True

    cdef int process(self, const uint8_t* p, Py_ssize_t n) except -1:
        """One request: header, then the handler of its API."""
        cdef int16_t key, version, client_id_length
        cdef int32_t correlation_id
        cdef Cursor cursor
        cdef object client_id = None
        cdef Py_ssize_t at
        cdef int verdict
        cdef Gate gate = self.gate
        if n < 8:
            if self.logging_in:
                return self.to_login(p, n)
            return self.fail("", f"a request of {n} bytes is shorter than its header")
        key = be16(p)
        version = be16(p + 2)
        correlation_id = be32(p + 4)
        if not admits_at_once(gate, key, version):
            if self.login is not None:
                if self.logging_in or self.is_for_login(key):
                    return self.to_login(p, n)
                if self.closed:
                    return 0
                gate = self.server.gate
            verdict = gate.judge(key, version, self.principal, self.listener)
            if verdict == WITHOUT_BODY:
                self.key = key
                return call_handler(self, key, -1, correlation_id, None, NULL, 0)
            if verdict != ADMITTED:
                return self.fail(api_name(key), gate.refusal)
        if n < 10:
            return self.fail(api_name(key), "the request ends within its header")
        client_id_length = be16(p + 8)
        at = 10
        # Any negative length is null, as Kafka reads it.
        if client_id_length >= 0:
            if at + client_id_length > n:
                return self.fail(api_name(key), f"client_id of {client_id_length} bytes passes the request's end")
            at += client_id_length
        self.server.requests += 1
        self.requests += 1
        self.key = key
        if client_id_length >= 0 and (client_id_length != PyBytes_GET_SIZE(self.client_id)
                                      or memcmp(p + 10, PyBytes_AS_STRING(self.client_id), client_id_length) != 0):
            self.client_id = PyBytes_FromStringAndSize(<char*>p + 10, client_id_length)
        if key != PRODUCE_KEY and self.staged_at == self.server.flushes:
            # Kafka handles the requests of a connection one by one: this one finds the records of earlier ones.
            self.server.flush()
            if self.closed:
                return 0
        try:
            if version >= self.server.flexible_from[key]:
                if at < n and p[at] == 0:
                    at += 1
                else:
                    cursor = Cursor.over(p + at, n - at, self.buffer)
                    skip_tags(cursor)
                    at = n - cursor.remaining()
            if self.server.hot[key] != NULL:
                return self.server.hot[key](self, correlation_id, version, p + at, n - at, self.buffer)
            if client_id_length >= 0:
                if self.kept is not None and repeat_answer(self, key, version, correlation_id, p + at, n - at):
                    return 0
                client_id = client_text(<const char*>p + 10, client_id_length)
        except WireError as error:
            return self.fail(f"{api_name(key)} v{version}", str(error))
        return call_handler(self, key, version, correlation_id, client_id, p + at, n - at)

    # ---- the login: calls by `login` ----

    cdef bint is_for_login(self, int16_t key) except *:
        """Whether a request of a client that is logged in begins another login. An expired session ends with any other."""
        if key == SASL_HANDSHAKE_KEY and self.login.begins_again():
            return True
        if self.login.has_expired:
            self.login.expired()
            self.close()
        return False

    cdef int to_login(self, const uint8_t* p, Py_ssize_t n) except -1:
        self.server.requests += 1
        self.requests += 1
        self.login.take(PyBytes_FromStringAndSize(<char*>p, n))
        return 0

    def begin_login(self, Py_ssize_t frame_bytes_max):
        """Each frame is for the login from now on, and not larger than this."""
        self.logging_in = True
        self.frame_bytes_max = frame_bytes_max
        self.gate = self.server.login_gate
        self.carry_bytes = LOGIN_CARRY_BYTES

    def answer_login(self, int key, bytes payload not None):
        """Send the frame as the answer to the request that is being handled. -1: it was a token without a header."""
        cdef Reply reply = Reply.__new__(Reply)
        if self.closed:
            return
        self.key = key if key >= 0 else SASL_AUTHENTICATE_KEY
        self.add_reply(reply)
        reply.payload = payload
        self.mark_ready(reply)

    def identify(self, str principal not None):
        """Set the principal of a client without a login: its certificate names it."""
        self.principal = principal
        self.kept = None

    def admit(self, str principal not None, bint by_token=False):
        """The client is logged in, perhaps by a delegation token: its requests are handled."""
        self.principal = principal
        self.by_token = by_token
        self.kept = None
        self.logging_in = False
        self.frame_bytes_max = self.server.request_bytes_max
        self.carry_bytes = CARRY_BYTES
        self.gate = self.server.session_gate
        self.gate.rule = self.server.gate.rule

    def expire(self):
        """The session has ended: each request is shown to the login."""
        if not self.logging_in:
            self.gate = self.server.login_gate

    def pause_login(self):
        """Handle nothing more until `resume_login`, or `end_refused`."""
        self.running = True

    def resume_login(self):
        if self.closed:
            return
        self.running = False
        self.output_free()

    def end_refused(self, int key, bytes payload not None):
        """Send the frame, if it is not empty, behind the due answers, and close the connection."""
        if self.closed:
            return
        try:
            self.closing = True
            # Drop the bytes after the refused request.
            self.in_start = self.in_end = 0
            self.release_input()
            if payload:
                self.answer_login(key, payload)
            else:
                self.after_output()
        except Exception as error:
            self.broken(error)

    cpdef int close(self) except -1:
        if self.login is not None:
            self.login.closed()
            self.login = None
        if self.login_bytes:
            self.hold_for_login(0)
        self.kept = None
        return AnswerQueue.close(self)
