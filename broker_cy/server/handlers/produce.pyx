"""Produce, versions 3 to 13 (advertised from 0, KAFKA-18659: librdkafka before 2.6 drops compression otherwise).

A batch is checked and stamped in the receive buffer, staged in its partition's log, and answered after the write that ends
this turn of the loop. One partition's fault is that partition's error code; the others succeed. acks=0 is not answered: an
error closes the connection, as in Kafka. acks=1 and acks=all are the same while a partition has one replica.
Omissions: transactions (a transactional request is answered INVALID_TXN_STATE for each partition).
"""

cimport cython
from libc.stdint cimport int16_t, int32_t, uint8_t
from libc.stdlib cimport free, malloc

from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer
from broker_cy.replica.partition cimport AppendResult, Partition
from broker_cy.server.buffers cimport RecvBuffer
from broker_cy.server.answers cimport AnswerQueue, Reply, ServerCore
from broker_cy.wire.produce cimport ProducePartition, ProduceView, TopicSpan, topic_key

from broker_cy.core.errors import ErrorCode
from broker_cy.server.registry import handler
from broker_cy.wire.frame import ApiKey

cdef enum:
    PRODUCE_KEY = 0
    ACKS_NONE = 0
    INLINE_RESULTS = 4

cdef int16_t UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
cdef int16_t UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
cdef int16_t INVALID_REQUIRED_ACKS = ErrorCode.INVALID_REQUIRED_ACKS
cdef int16_t INVALID_TXN_STATE = ErrorCode.INVALID_TXN_STATE
cdef int16_t INVALID_TOPIC_EXCEPTION = ErrorCode.INVALID_TOPIC_EXCEPTION
cdef int16_t KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR

cdef struct Result:
    int32_t index
    bint staged                     # its fate is known after the write of this turn
    AppendResult append


@cython.final
cdef class ProduceReply(Reply):
    """The answer of one Produce request, encoded when it leaves."""
    cdef int16_t version
    cdef int32_t count
    cdef Result inline_results[INLINE_RESULTS]
    cdef Result* results            # inline_results, or a block of its own
    cdef list topics                # (name or id as received, number of its partitions)
    cdef list partitions            # Partition or None, one per result
    cdef dict details               # result position -> (message or None, [(record index, reason)])

    def __cinit__(self):
        self.results = NULL

    def __dealloc__(self):
        if self.results != NULL and self.results != self.inline_results:
            free(self.results)

    cdef int allot(self, int32_t count) except -1:
        self.count = count
        self.results = self.inline_results
        if count > INLINE_RESULTS:
            self.results = <Result*>malloc(count * sizeof(Result))
            if self.results == NULL:
                raise MemoryError(f"no memory for {count} partition results")
        return 0

    cdef int written(self) except -1:
        """The turn's write is done: what did not get to the log has an error now."""
        cdef int32_t i
        cdef Partition partition
        for i in range(self.count):
            if self.results[i].staged:
                partition = <Partition>self.partitions[i]
                if partition.flush_errno:
                    self.results[i].append.error = KAFKA_STORAGE_ERROR
                    self.results[i].append.base_offset = -1
                    self.results[i].append.log_append_time_ms = -1
        return 0

    cdef int emit(self, Writer out) except -1:
        cdef Py_ssize_t start = out.pos
        cdef bint flexible = self.version >= 9
        cdef int32_t at = 0, i, n
        cdef bytes name
        out.i32(0)
        out.i32(self.correlation_id)
        if flexible:
            out.i8(0)
            out.uvarint(len(self.topics) + 1)
        else:
            out.i32(len(self.topics))
        for name, n in self.topics:
            if self.version >= 13:
                out.put_bytes(name)
            elif flexible:
                out.uvarint(len(name) + 1)
                out.put_bytes(name)
            else:
                out.i16(len(name))
                out.put_bytes(name)
            if flexible:
                out.uvarint(n + 1)
            else:
                out.i32(n)
            for i in range(at, at + n):
                self.emit_result(out, i)
            at += n
            if flexible:
                out.i8(0)
        out.i32(0)                  # throttle_time_ms
        if flexible:
            out.i8(0)
        return out.patch_i32(start, <int32_t>(out.pos - start - 4))

    cdef int emit_result(self, Writer out, int32_t i) except -1:
        cdef Result* result = &self.results[i]
        cdef object detail = None
        out.i32(result.index)
        out.i16(result.append.error)
        out.i64(result.append.base_offset)
        out.i64(result.append.log_append_time_ms)
        if self.version >= 5:
            out.i64(result.append.log_start_offset)
        if self.version < 8:
            return 0
        if self.details is not None:
            detail = self.details.get(i)
        if self.version >= 9:
            self.emit_details_compact(out, detail)
            return out.i8(0)
        return self.emit_details(out, detail)

    cdef int emit_details(self, Writer out, object detail) except -1:
        """record_errors and error_message of version 8."""
        message, records = detail if detail is not None else (None, [])
        out.i32(len(records))
        for index, reason in records:
            out.i32(index)
            put_string(out, reason)
        return put_string(out, message)

    cdef int emit_details_compact(self, Writer out, object detail) except -1:
        """record_errors and error_message from version 9 on."""
        if detail is None:
            out.i8(1)
            return out.i8(0)
        message, records = detail
        out.uvarint(len(records) + 1)
        for index, reason in records:
            out.i32(index)
            put_compact_string(out, reason)
            out.i8(0)
        return put_compact_string(out, message)


cdef int put_string(Writer out, object text) except -1:
    if text is None:
        return out.i16(-1)
    data = text.encode()[:32767]
    out.i16(len(data))
    return out.put_bytes(data)


cdef int put_compact_string(Writer out, object text) except -1:
    if text is None:
        return out.i8(0)
    data = text.encode()[:32767]
    out.uvarint(len(data) + 1)
    return out.put_bytes(data)


cdef ProduceView _view = ProduceView()


cdef int handle_produce(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                        RecvBuffer owner) except -1:
    """Parse the whole request first, so that a malformed one changes nothing; then append partition by partition."""
    cdef ServerCore server = connection.server
    cdef ProduceReply reply
    cdef TopicSpan* topic
    cdef int32_t i, k
    cdef bint waits = False
    cdef list places
    cdef bytes name
    _view.parse(Cursor.over(p, n, owner), version)
    reply = ProduceReply.__new__(ProduceReply)
    reply.correlation_id = correlation_id
    reply.version = version
    reply.topics = []
    reply.partitions = []
    reply.allot(_view.partition_count)
    for i in range(_view.topic_count):
        topic = &_view.topics[i]
        if topic.count == 0:
            continue                # as in Kafka, the answer does not name it
        name = topic_key(topic, version)
        reply.topics.append((name, topic.count))
        places = (server.topics_by_id if version >= 13 else server.topics_by_name).get(name)
        for k in range(topic.first, topic.first + topic.count):
            if append_one(server, reply, places, k, version, owner):
                waits = True
    if waits:
        connection.staged_at = server.flushes
    if _view.acks == ACKS_NONE:
        return refuse_unacked(connection, reply, version)
    connection.add_reply(reply)
    if waits:
        server.unflushed.append(reply)
        return 0
    return connection.mark_ready(reply)


cdef bint append_one(ServerCore server, ProduceReply reply, list places, int32_t k, int16_t version,
                     RecvBuffer owner) except *:
    """Append the request's k-th batch; whether its answer must wait for the write."""
    cdef ProducePartition* part = &_view.partitions[k]
    cdef Result* result = &reply.results[k]
    cdef Partition partition = None
    result.index = part.index
    result.staged = False
    result.append.error = 0
    result.append.base_offset = -1
    result.append.log_append_time_ms = -1
    result.append.log_start_offset = -1
    if places is not None and 0 <= part.index < len(places):
        partition = <Partition>places[part.index]
    reply.partitions.append(partition)
    if partition is None:
        result.append.error = UNKNOWN_TOPIC_ID if places is None and version >= 13 else UNKNOWN_TOPIC_OR_PARTITION
    elif _view.acks < -1 or _view.acks > 1:
        result.append.error = INVALID_REQUIRED_ACKS
    elif partition.internal:
        result.append.error = INVALID_TOPIC_EXCEPTION
    elif _view.transactional:
        result.append.error = INVALID_TXN_STATE
        note(reply, k, "transactions are not served by this broker", [])
    else:
        partition.append_produced(<uint8_t*>part.records, part.size, owner, server.wall_ms(), _view.acks, version,
                                  &result.append)
        if result.append.error:
            message, records = partition.last_error
            note(reply, k, message, records)
        else:
            result.staged = partition.dirty
    return result.staged


cdef int note(ProduceReply reply, int32_t k, object message, list records) except -1:
    if reply.details is None:
        reply.details = {}
    reply.details[k] = (message, records)
    return 0


cdef int refuse_unacked(AnswerQueue connection, ProduceReply reply, int16_t version) except -1:
    """acks=0: there is no answer to carry an error, so the connection is closed, which clients take for one."""
    cdef int32_t i
    for i in range(reply.count):
        if reply.results[i].append.error:
            code = ErrorCode(reply.results[i].append.error).name
            return connection.fail(f"Produce v{version}", f"{code} with acks=0")
    return 0


def install(ServerCore server):
    """Let `server` answer Produce here, without a Python call per request."""
    server.set_hot(PRODUCE_KEY, handle_produce)


@handler(ApiKey.PRODUCE, versions=(3, 13), advertise_from=0,
         omissions="versions 0 to 2 are advertised and refused, as in Kafka; transactional requests get INVALID_TXN_STATE")
def produce(ctx, request):
    """Registered for its versions; `install` puts `handle_produce` in its place."""
    raise RuntimeError("Produce is answered by handle_produce")
