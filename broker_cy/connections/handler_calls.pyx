"""Calling the handlers that are written in Python, directly or as a task, and encoding their answers."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize

from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer
from broker_cy.metrics.requests cimport RequestMetrics
from broker_cy.connections.answers cimport AnswerQueue, Reply, ServerCore
from broker_cy.connections.charging cimport charge_answer, timed
from broker_cy.connections.gate cimport api_name
from broker_cy.connections.response_errors cimport count_errors
from broker_cy.connections.share_fetch_answer cimport ShareFetchAnswer, share_fetch_frame
from broker_cy.wire.codec cimport decode_at

import asyncio
from types import CoroutineType

from broker_cy.core.errors import WireError
from broker_cy.broker.context import RequestContext
from broker_cy.wire import codec, frame

cdef enum:
    API_VERSIONS_KEY = 18
    # Arrays and tagged fields of an ApiVersions request, which any client may send.
    ANYBODYS_ELEMENTS_MAX = 1000


cdef bytes response_frame(RequestMetrics metrics, int16_t key, int16_t version, int32_t correlation_id, object response):
    """Length, response header and body of one answer, whose errors are counted."""
    cdef Writer writer = Writer()
    if metrics.on:
        count_errors(metrics, key, response)
    writer.i32(0)
    writer.i32(correlation_id)
    if frame.response_header_version(key, version) >= 1:
        writer.i8(0)
    codec.encode_into(writer, response, version)
    writer.patch_i32(0, <int32_t>(writer.pos - 4))
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
            request = decode_at(server.request_classes[key], version, cursor)
        except WireError as error:
            return connection.fail(f"{api_name(key)} v{version}", str(error))
    context = RequestContext(server.broker, key, version, client_id, connection.client_host, connection.listener,
                             connection.connection_id, connection.principal, connection.by_token)
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
    reply.payload = charged_frame(connection, key, max(version, 0), correlation_id, response)
    return connection.mark_ready(reply)


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
