"""Produce, versions 3 to 13 (advertised from 0, KAFKA-18659: librdkafka before 2.6 drops compression otherwise).

A batch is checked and stamped in the receive buffer, staged in its partition's log, and answered after the write that ends this
turn of the loop. An error in one partition is that partition's error code; the others succeed. acks=0 gets no answer: an error
closes the connection, as in Kafka. acks=1 and acks=all are the same while a partition has one replica. With acks=all, a record that the
other replicas in sync do not have after `timeout_ms` is answered with REQUEST_TIMED_OUT; it stays in the log.

The first transactional batch of a producer in a partition waits until the transaction coordinator confirms that the partition is in
the transaction. From version 12 on the coordinator adds it (KIP-890), which `TransactionService.verify` retries while the previous
transaction is being completed.

Compressed batches, and those that the topic stores with another codec, are checked apart from the append: by the loop, up to
CHECKED_TURN_BYTES in a turn, or by a worker. So are batches of topics that check the schemas of records; one that names a schema that
is not known waits until the topic of the registry was read to its end. While a request waits for one of these, its connection handles
no further one.

With an authorizer, a topic that the client may not write is TOPIC_AUTHORIZATION_FAILED before its batches are looked at. Whether a
request is transactional is judged by its batches (CVE-2018-17196): without the right to its transactional id, or without one, it fails
as a whole.

The parsed request (`_view`) is one object that all requests share, so that parsing allocates nothing; a request that waits parses
again. produce_append checks and appends what it holds, and held_produce is a request that waits for a worker or the coordinator.
"""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.clock cimport coarse_ms
from broker_cy.core.cursor cimport Cursor
from broker_cy.replica.partition cimport Partition
from broker_cy.connections.answers cimport MUTED, AnswerQueue, Reply, ServerCore
from broker_cy.connections.buffers cimport RecvBuffer
from broker_cy.connections.current_leader cimport topic_named, topic_with_id
from broker_cy.connections.held_produce cimport HeldProduce
from broker_cy.connections.produce_answer cimport ProduceReply
from broker_cy.connections.produce_append cimport append_all, check_batches, judge_schemas
from broker_cy.connections.rights cimport WRITE, Rights, rights_of
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_TRANSACTIONAL, BATCH_ATTRIBUTES_AT, BATCH_HEADER_BYTES, BATCH_MAGIC_AT,
)
from broker_cy.wire.produce cimport FIRST_ID_VERSION, ProducePartition, ProduceView, TopicSpan, topic_key

from broker_cy.core.errors import ErrorCode
from broker_cy.core.text import java_text
from broker_cy.metadata import topic_names
from broker_cy.broker.registry import handler
from broker_cy.wire.frame import ApiKey

cdef enum:
    PRODUCE_KEY = 0
    ACKS_NONE = 0
    WRITE_OPERATION = 4             # AclOperation

cdef bytes OWN_CLIENT = topic_names.OWN_CLIENT.encode()
cdef object OWN_TOPICS = topic_names.OWN_TOPICS

cdef ProduceView _view = ProduceView()


cdef int parse(Cursor cursor, int16_t version) except -1:
    """Read a request into `_view`, each partition once."""
    _view.parse(cursor, version)
    return _view.keep_last()


cdef int handle_produce(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                        RecvBuffer owner) except -1:
    """Parse the whole request first, so that a malformed one changes nothing; then append partition by partition."""
    parse(Cursor.over(p, n, owner), version)
    return take(connection, correlation_id, version, p, n, owner, None)


cdef int judge_produce(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                       RecvBuffer owner) except -1:
    """In place of handle_produce where an authorizer is configured."""
    parse(Cursor.over(p, n, owner), version)
    return take(connection, correlation_id, version, p, n, owner, denied_topics(connection, version))


cdef set denied_topics(AnswerQueue connection, int16_t version):
    """The places of topics in `_view` that the client may not write; None if it may write all."""
    cdef Rights rights = rights_of(connection)
    cdef TopicSpan* topic
    cdef set denied = None
    cdef bytes key
    cdef int32_t i
    cdef int mask
    cdef bint by_id = version >= FIRST_ID_VERSION
    for i in range(_view.topic_count):
        topic = &_view.topics[i]
        key = topic_key(topic, version)
        mask = rights.of_topic_id(key, WRITE) if by_id else rights.of_topic(key, WRITE)
        # -1: the topic does not exist, so the usual error answers it.
        if mask & WRITE or mask < 0 or (connection.client_id == OWN_CLIENT and is_own_topic(connection, key, by_id)
                                        and rights.may_act_for_cluster()):
            continue
        if denied is None:
            denied = set()
        denied.add(i)
        rights.refused(PRODUCE_KEY, WRITE_OPERATION, key, by_id)
    return denied


cdef bint is_own_topic(AnswerQueue connection, bytes key, bint by_id) except *:
    topic = topic_with_id(connection.server, key) if by_id else topic_named(connection.server, key)
    return topic is not None and topic.name in OWN_TOPICS


cdef int take(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n, RecvBuffer owner,
              set denied) except -1:
    """Answer the request in `_view`, without the topics in `denied`."""
    cdef ProduceReply reply
    cdef HeldProduce work
    cdef ProducePartition* part
    cdef int32_t k
    cdef uint8_t attributes = 0         # of any of the batches
    cdef dict checks = None             # place in the request -> BatchCheck
    cdef list unfinished = None         # those of them that a worker does
    cdef object waiting = None          # a future: whether their schemas are known
    reply = ProduceReply.__new__(ProduceReply)
    reply.correlation_id = correlation_id
    reply.version = version
    for k in range(_view.partition_count):
        part = &_view.partitions[k]
        if part.size >= BATCH_HEADER_BYTES and part.records[BATCH_MAGIC_AT] == 2:
            attributes |= part.records[BATCH_ATTRIBUTES_AT]
    refused = attributes & ATTRIBUTE_TRANSACTIONAL and not may_write_transaction(connection)
    if not refused and (attributes & ATTRIBUTE_CODEC_MASK or connection.server.recodes):
        checks = {}
        unfinished = check_batches(_view, connection, version, owner, checks, denied)
        if connection.server.checks_schemas and unfinished is None:
            waiting = judge_schemas(checks, -1)
    if unfinished is None and waiting is None and not attributes & ATTRIBUTE_TRANSACTIONAL:
        return append_all(_view, connection, reply, owner, checks, None, denied)
    work = HeldProduce.__new__(HeldProduce)
    work.view = _view
    work.connection = connection
    work.reply = reply
    work.body = p
    work.size = n
    work.owner = owner
    work.checks = checks
    work.denied = denied
    work.transactional = attributes & ATTRIBUTE_TRANSACTIONAL != 0
    if _view.acks != ACKS_NONE:
        connection.add_reply(reply)
    if refused:
        return work.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
    if unfinished is not None:
        return work.check(unfinished)
    if waiting is not None:
        return work.wait_for_schemas(waiting)
    return work.checked()


cdef bint may_write_transaction(AnswerQueue connection) except *:
    """Whether the client may write transactional batches as the producer that the request names."""
    if _view.transactional_id_size < 0:
        return False
    if connection.server.authorization is None:
        return True
    return rights_of(connection).may_write_as(java_text(_view.transactional_id[:_view.transactional_id_size]))


cdef int hold_produce(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                      RecvBuffer owner) except -1:
    """In place of handle_produce while some logs are not open yet: a request waits for those of its own partitions."""
    cdef UnopenedProduce held
    cdef list unopened
    parse(Cursor.over(p, n, owner), version)
    unopened = unopened_partitions(connection.server, version)
    if not unopened:
        if connection.server.authorization is not None:
            return judge_produce(connection, correlation_id, version, p, n, owner)
        return handle_produce(connection, correlation_id, version, p, n, owner)
    held = UnopenedProduce.__new__(UnopenedProduce)
    held.connection = connection
    held.correlation_id = correlation_id
    held.version = version
    held.body = p
    held.size = n
    held.owner = owner
    connection.running = True
    connection.server.broker.openings.when_open(unopened, held.opened)
    return 0


cdef list unopened_partitions(ServerCore server, int16_t version):
    """The partitions of `_view` whose logs are not open yet."""
    cdef TopicSpan* topic
    cdef Partition partition
    cdef list places, found = []
    cdef int32_t i, k, index
    for i in range(_view.topic_count):
        topic = &_view.topics[i]
        places = (server.topics_by_id if version >= FIRST_ID_VERSION else server.topics_by_name).get(topic_key(topic, version))
        if places is None:
            continue
        for k in range(topic.first, topic.first + topic.count):
            index = _view.partitions[k].index
            if 0 <= index < len(places) and places[index] is not None:
                partition = <Partition>places[index]
                if partition.unopened:
                    found.append(partition)
    return found


@cython.final
cdef class UnopenedProduce:
    """A Produce request that waits until its partitions are open. Meanwhile the connection handles no other."""
    cdef AnswerQueue connection
    cdef RecvBuffer owner               # keeps `body` alive
    cdef const uint8_t* body
    cdef Py_ssize_t size
    cdef int32_t correlation_id
    cdef int16_t version

    def opened(self):
        cdef AnswerQueue connection = self.connection
        cdef Reply reply, before = connection.tail
        cdef int64_t now_ms
        connection.running = False
        if connection.closed:
            return
        try:
            # The answer must not leave before it has the client's throttle time.
            connection.parsing = True
            try:
                # A topic may have been created again meanwhile.
                hold_produce(connection, self.correlation_id, self.version, self.body, self.size, self.owner)
            finally:
                connection.parsing = False
            self.owner = None
            reply = connection.tail
            if reply is not None and reply is not before and connection.held & MUTED:
                # A quota was charged when the request arrived (`charging.charge_produce`).
                now_ms = coarse_ms(&connection.server.clock.source)
                reply.throttle_ms = <int32_t>max(0, connection.muted_until_ms - now_ms)
            if not connection.closed and connection.head is not None and connection.head.ready:
                connection.drain()
            if not connection.closed:
                connection.output_free()
        except Exception as error:
            connection.broken(error)


def install(ServerCore server, bint some_unopened=False):
    """Let `server`, whose `authorization` is set, answer Produce here, without a Python call per request. With `some_unopened`, requests wait for logs that are
    not open yet; the check is gone from their path once all are.
    """
    if some_unopened:
        server.set_hot(PRODUCE_KEY, hold_produce)
    else:
        server.set_hot(PRODUCE_KEY, handle_produce if server.authorization is None else judge_produce)


@handler(ApiKey.PRODUCE, versions=(3, 13), advertise_from=0,
         requires="WRITE on each topic; on the transactional id for transactional batches",
         omissions="versions 0 to 2 are advertised and refused, as in Kafka")
def produce(ctx, request):
    """Registered for its versions; `install` puts `handle_produce` in its place."""
    raise RuntimeError("Produce is answered by handle_produce")
