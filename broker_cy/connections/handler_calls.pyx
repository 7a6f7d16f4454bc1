"""Calling the handlers that are written in Python, directly or as a task, and encoding their answers."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyTypeObject

from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer
from broker_cy.metrics.requests cimport RequestMetrics
from broker_cy.connections.answers cimport AnswerQueue, Reply, ServerCore
from broker_cy.connections.charging cimport charge_answer, timed
from broker_cy.connections.gate cimport api_name
from broker_cy.connections.kept_answer cimport KEPT_REQUEST_BYTES_MAX, KeptAnswer
from broker_cy.connections.response_errors cimport count_errors
from broker_cy.connections.share_fetch_answer cimport ShareFetchAnswer, share_fetch_frame
from broker_cy.wire.codec cimport decode_at, encode_at
from broker_cy.wire.frame cimport response_header_version
from broker_cy.wire.layout cimport get_slot, set_slot, slot_offset

import asyncio
from types import CoroutineType

from broker_cy.core.errors import WireError
from broker_cy.broker.context import RequestContext
from broker_cy.wire.frame import request_class

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* cls, Py_ssize_t items)

cdef enum:
    API_VERSIONS_KEY = 18
    # Arrays and tagged fields of an ApiVersions request, which any client may send.
    ANYBODYS_ELEMENTS_MAX = 1000
    # Memory that is kept for the next response.
    KEPT_BYTES_MAX = 65536

cdef Py_ssize_t CONTEXT_BROKER = slot_offset(RequestContext, "broker")
cdef Py_ssize_t CONTEXT_API_KEY = slot_offset(RequestContext, "api_key")
cdef Py_ssize_t CONTEXT_VERSION = slot_offset(RequestContext, "version")
cdef Py_ssize_t CONTEXT_CLIENT_ID = slot_offset(RequestContext, "client_id")
cdef Py_ssize_t CONTEXT_CLIENT_HOST = slot_offset(RequestContext, "client_host")
cdef Py_ssize_t CONTEXT_LISTENER = slot_offset(RequestContext, "listener")
cdef Py_ssize_t CONTEXT_CONNECTION_ID = slot_offset(RequestContext, "connection_id")
cdef Py_ssize_t CONTEXT_PRINCIPAL = slot_offset(RequestContext, "principal")
cdef Py_ssize_t CONTEXT_BY_TOKEN = slot_offset(RequestContext, "by_token")
cdef Py_ssize_t CONTEXT_STILL_STANDS = slot_offset(RequestContext, "still_stands")
# Responses are encoded one after the other.
cdef Writer response_writer = Writer.__new__(Writer)


cdef inline object request_context(AnswerQueue connection, int16_t key, int16_t version, object client_id):
    """A RequestContext without its constructor, which takes 20 times as many instructions."""
    cdef object context = PyType_GenericAlloc(<PyTypeObject*>RequestContext, 0)
    set_slot(context, CONTEXT_BROKER, connection.server.broker)
    set_slot(context, CONTEXT_API_KEY, key)
    set_slot(context, CONTEXT_VERSION, version)
    set_slot(context, CONTEXT_CLIENT_ID, client_id)
    set_slot(context, CONTEXT_CLIENT_HOST, connection.client_host)
    set_slot(context, CONTEXT_LISTENER, connection.listener)
    set_slot(context, CONTEXT_CONNECTION_ID, connection.connection_id)
    set_slot(context, CONTEXT_PRINCIPAL, connection.principal)
    set_slot(context, CONTEXT_BY_TOKEN, connection.by_token)
    set_slot(context, CONTEXT_STILL_STANDS, None)
    return context


cdef bytes response_frame(RequestMetrics metrics, int16_t key, int16_t version, int32_t correlation_id, object response):
    """Length, response header and body of one answer, whose errors are counted."""
    global response_writer
    cdef Writer writer = response_writer
    if metrics.on:
        count_errors(metrics, key, response)
    writer.pos = 0
    writer.i32(0)
    writer.i32(correlation_id)
    if response_header_version(key, version) >= 1:
        writer.i8(0)
    encode_at(writer, response, version)
    writer.patch_i32(0, <int32_t>(writer.pos - 4))
    if writer.capacity > KEPT_BYTES_MAX:
        response_writer = Writer.__new__(Writer)
    return PyBytes_FromStringAndSize(<char*>writer.buf, writer.pos)


cdef bytes charged_frame(AnswerQueue connection, int16_t key, int16_t version, int32_t correlation_id, object response):
    """The same, with the wait of quotas, which is for this client alone: others may get the same object."""
    cdef RequestMetrics metrics = connection.server.metrics
    if connection.server.quotas is None:
        return response_frame(metrics, key, version, correlation_id, response)
    own = getattr(response, "throttle_time_ms", None)
    charge_answer(connection, key, response)
    cdef bytes payload = response_frame(metrics, key, version, correlation_id, response)
    if own is not None:
        response.throttle_time_ms = own
    return payload


cdef object request_class_of(ServerCore server, int16_t key):
    """The class is made with the first request: the classes of all APIs take 0.6 MB, and 5 % of the time of a start."""
    cdef object found = server.request_classes[key]
    if found is None:
        found = server.request_classes[key] = request_class(key)
    return found


cdef int call_handler(Receiver connection, int16_t key, int16_t version, int32_t correlation_id, object client_id,
                      const uint8_t* body, Py_ssize_t n) except -1:
    """Run a handler written in Python, directly or as a task."""
    cdef ServerCore server = connection.server
    cdef object entry = server.registrations[key]
    cdef object request = None
    cdef Cursor cursor
    cdef Reply reply = Reply.__new__(Reply)
    reply.correlation_id = correlation_id
    if body != NULL:
        cursor = Cursor.over(body, n, connection.buffer)
        cursor.lenient_text = True
        if key == API_VERSIONS_KEY:
            cursor.elements_max = cursor.elements_left = ANYBODYS_ELEMENTS_MAX
        try:
            request = decode_at(request_class_of(server, key), version, cursor)
        except WireError as error:
            return connection.fail(f"{api_name(key)} v{version}", str(error))
    cdef object context = request_context(connection, key, version, client_id)
    connection.add_reply(reply)
    response = entry.function(context, request)
    if entry.is_async or type(response) is CoroutineType:
        if server.quotas is not None:
            response = timed(response, connection)
        task = server.loop.create_task(_serve(response, _Completion(reply, key, version)))
        reply.task = task
        connection.running = True
        server.tasks.add(task)
        return 0
    cdef bytes payload = charged_frame(connection, key, max(version, 0), correlation_id, response)
    cdef object still_stands = get_slot(context, CONTEXT_STILL_STANDS)
    # Quotas put the client's own wait into the answer.
    if still_stands is not None and client_id is not None and server.quotas is None and n <= KEPT_REQUEST_BYTES_MAX:
        connection.kept = KeptAnswer.of(key, version, connection.client_id, body, n, payload, still_stands)
    reply.payload = payload
    return connection.mark_ready(reply)


cdef bint repeat_answer(Receiver connection, int16_t key, int16_t version, int32_t correlation_id, const uint8_t* body,
                        Py_ssize_t n) except -1:
    """Answer a request that repeats the one of `connection.kept`, and whose answer still stands; returns whether it was
    that. Without a client id it is none: the connection keeps only those that are not null.
    """
    cdef KeptAnswer kept = connection.kept
    cdef Reply reply
    if not kept.is_for(key, version, connection.client_id, body, n) or connection.server.quotas is not None:
        return False
    if not kept.still_stands():
        connection.kept = None
        return False
    reply = Reply.__new__(Reply)
    reply.correlation_id = correlation_id
    connection.add_reply(reply)
    reply.payload = kept.frame_for(correlation_id)
    connection.mark_ready(reply)
    return True


@cython.final
cdef class _Completion:
    """Turns the result of a handler's task into the answer."""
    cdef Reply reply
    cdef int16_t key
    cdef int16_t version

    def __cinit__(self, Reply reply, int16_t key, int16_t version):
        self.reply = reply
        self.key = key
        self.version = version

    cdef int over(self) except -1:
        """The task is done: the connection continues."""
        cdef AnswerQueue connection = self.reply.connection
        connection.server.tasks.discard(self.reply.task)
        connection.running = False
        self.reply.task = None
        return 0

    cdef int answer(self, object response, object error) except -1:
        cdef AnswerQueue connection = self.reply.connection
        self.over()
        if connection.closed:
            return 0
        if error is not None:
            connection.broken(error)
            return 0
        try:
            if type(response) is ShareFetchAnswer:
                if connection.server.quotas is not None:
                    charge_answer(connection, self.key, response)
                self.reply.payload = share_fetch_frame(connection, response, self.reply.correlation_id)
            else:
                self.reply.payload = charged_frame(connection, self.key, self.version, self.reply.correlation_id, response)
            connection.mark_ready(self.reply)
            # Where an answer before it is still due, sending did not get there.
            connection.output_free()
        except Exception as failure:
            connection.broken(failure)
        return 0


async def _serve(handling, _Completion completion):
    """Await a handler and answer without another turn of the loop."""
    response = error = None
    try:
        response = await handling
    except asyncio.CancelledError:
        completion.over()
        raise
    except Exception as failure:
        error = failure
    completion.answer(response, error)
