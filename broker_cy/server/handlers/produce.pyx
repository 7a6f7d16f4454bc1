"""Produce, versions 3 to 13 (advertised from 0, KAFKA-18659: librdkafka before 2.6 drops compression otherwise).

A batch is checked and stamped in the receive buffer, staged in its partition's log, and answered after the write that ends
this turn of the loop. One partition's fault is that partition's error code; the others succeed. acks=0 is not answered: an
error closes the connection, as in Kafka. acks=1 and acks=all are the same while a partition has one replica.

The first transactional batch of a producer in a partition waits until the transaction coordinator says that the partition is in
the transaction; from version 12 on the coordinator adds it (KIP-890), which `TransactionService.verify` tries again while the
transaction before is being ended. Meanwhile the connection handles no further request.
"""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.cursor cimport Cursor
from broker_cy.replica.partition cimport Partition
from broker_cy.replica.verification cimport Verification
from broker_cy.server.buffers cimport RecvBuffer
from broker_cy.server.answers cimport AnswerQueue, ServerCore
from broker_cy.server.produce_answer cimport ProduceReply, Result
from broker_cy.wire.batch cimport ATTRIBUTE_TRANSACTIONAL, BATCH_HEADER_BYTES, BatchHeader, batch_bytes, parse_header
from broker_cy.wire.produce cimport ProducePartition, ProduceView, TopicSpan, topic_key

from broker_cy.core.errors import ErrorCode
from broker_cy.core.text import java_text
from broker_cy.server.registry import handler
from broker_cy.wire.frame import ApiKey

cdef enum:
    PRODUCE_KEY = 0
    ACKS_NONE = 0
    MAGIC_POSITION = 16             # in a batch; the attributes' low byte is the second one
    ATTRIBUTES_POSITION = 22
    FIRST_ABORTABLE_VERSION = 11    # knows TRANSACTION_ABORTABLE
    FIRST_ADDING_VERSION = 12       # of producers with transaction.version 2

cdef int64_t FLUSH_NEVER = (1 << 63) - 1    # flush.messages by default

cdef int16_t UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
cdef int16_t UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
cdef int16_t INVALID_REQUIRED_ACKS = ErrorCode.INVALID_REQUIRED_ACKS
cdef int16_t INVALID_TOPIC_EXCEPTION = ErrorCode.INVALID_TOPIC_EXCEPTION

# The coordinator could not be asked.
cdef frozenset UNVERIFIED = frozenset((
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
))

cdef ProduceView _view = ProduceView()


cdef int handle_produce(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                        RecvBuffer owner) except -1:
    """Parse the whole request first, so that a malformed one changes nothing; then append partition by partition."""
    cdef ProduceReply reply
    cdef int32_t k
    _view.parse(Cursor.over(p, n, owner), version)
    reply = ProduceReply.__new__(ProduceReply)
    reply.correlation_id = correlation_id
    reply.version = version
    for k in range(_view.partition_count):
        if is_transactional(&_view.partitions[k]):
            return handle_transactional(connection, reply, p, n, owner)
    return append_all(connection, reply, owner, None)


cdef inline bint is_transactional(const ProducePartition* part) noexcept nogil:
    return (part.size >= BATCH_HEADER_BYTES and part.records[MAGIC_POSITION] == 2
            and part.records[ATTRIBUTES_POSITION] & ATTRIBUTE_TRANSACTIONAL)


cdef int append_all(AnswerQueue connection, ProduceReply reply, RecvBuffer owner, TransactionalProduce work) except -1:
    """Append what `_view` holds, batch by batch, and answer after the write. `work` is None for a request without
    transactional batches; else its reply has its place already."""
    cdef ServerCore server = connection.server
    cdef TopicSpan* topic
    cdef int32_t i, k
    cdef bint waits = False
    cdef list places
    cdef bytes name
    reply.topics = []
    reply.partitions = []
    reply.allot(_view.partition_count)
    for i in range(_view.topic_count):
        topic = &_view.topics[i]
        if topic.count == 0:
            continue                # as in Kafka, the answer does not name it
        name = topic_key(topic, reply.version)
        reply.topics.append((name, topic.count))
        places = (server.topics_by_id if reply.version >= 13 else server.topics_by_name).get(name)
        for k in range(topic.first, topic.first + topic.count):
            if append_one(connection, reply, places, k, owner, work):
                waits = True
    if waits:
        connection.staged_at = server.flushes
    if _view.acks == ACKS_NONE:
        return refuse_unacked(connection, reply, reply.version)
    if work is None:
        connection.add_reply(reply)
    if waits:
        server.unflushed.append(reply)
        return 0
    return connection.mark_ready(reply)


cdef bint append_one(AnswerQueue connection, ProduceReply reply, list places, int32_t k, RecvBuffer owner,
                     TransactionalProduce work) except *:
    """Append the request's k-th batch; whether its answer must wait for the write."""
    cdef ServerCore server = connection.server
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
    if work is not None and work.error_of(partition, k, &result.append.error):
        pass
    elif partition is None:
        result.append.error = UNKNOWN_TOPIC_ID if places is None and reply.version >= 13 else UNKNOWN_TOPIC_OR_PARTITION
    elif _view.acks < -1 or _view.acks > 1:
        result.append.error = INVALID_REQUIRED_ACKS
    elif partition.internal:
        result.append.error = INVALID_TOPIC_EXCEPTION
    else:
        partition.append_produced(<uint8_t*>part.records, part.size, owner, server.wall_ms(), _view.acks, reply.version,
                                  None if work is None else work.verification_of(partition), &result.append)
        if result.append.error:
            message, records = partition.last_error
            reply.note(k, message, records)
        else:
            # A batch that was sent again may be one whose write or sync is not done.
            result.staged = partition.dirty or partition.syncing or partition.sync_due
            if partition.log.config.flush_messages != FLUSH_NEVER:
                connection.synced_at = server.flushes
    return result.staged


cdef int refuse_unacked(AnswerQueue connection, ProduceReply reply, int16_t version) except -1:
    """acks=0: there is no answer to carry an error, so the connection is closed, which clients take for one."""
    cdef int32_t i
    for i in range(reply.count):
        if reply.results[i].append.error:
            code = ErrorCode(reply.results[i].append.error).name
            return connection.fail(f"Produce v{version}", f"{code} with acks=0")
    return 0


# ---- transactional batches (KIP-890) ----

cdef int handle_transactional(AnswerQueue connection, ProduceReply reply, const uint8_t* p, Py_ssize_t n,
                              RecvBuffer owner) except -1:
    cdef TransactionalProduce work = TransactionalProduce.__new__(TransactionalProduce)
    work.connection = connection
    work.reply = reply
    work.body = p
    work.size = n
    work.owner = owner
    work.adds = reply.version >= FIRST_ADDING_VERSION
    if _view.acks != ACKS_NONE:
        connection.add_reply(reply)
    if _view.transactional_id_size < 0:
        return work.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
    work.transactional_id = java_text(_view.transactional_id[:_view.transactional_id_size])
    return work.start()


@cython.final
cdef class TransactionalProduce:
    """A Produce request that waits until the transaction coordinator knows its partitions; `_view` is read again then."""
    cdef AnswerQueue connection
    cdef ProduceReply reply
    cdef RecvBuffer owner               # keeps `body` alive
    cdef const uint8_t* body
    cdef Py_ssize_t size
    cdef str transactional_id
    cdef bint adds                      # the coordinator adds partitions that it does not know yet
    cdef bint waiting                   # the connection handles nothing else meanwhile
    cdef int64_t producer_id
    cdef int16_t epoch
    cdef dict verifications             # Partition -> Verification
    cdef dict errors                    # Partition -> (code, message), of the verification
    cdef object refused                 # (code, message) for every partition of the request; None where there is none

    cdef int start(self) except -1:
        """Ask the coordinator about the partitions of `_view` in which the producer's transaction is not open."""
        cdef dict batches = {}          # Partition -> base sequence
        cdef Partition partition
        cdef object found
        if not self.collect(batches):
            return self.refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID")
        self.verifications = {}
        self.errors = {}
        if self.adds or self.connection.server.verifies:
            for partition, sequence in batches.items():
                found = partition.start_verification(self.producer_id, self.epoch, sequence, self.adds)
                if isinstance(found, ErrorCode):
                    self.errors[partition] = (found, None)
                elif found is not None:
                    self.verifications[partition] = found
        if not self.verifications:
            return self.finish()
        return self.ask()

    cdef bint collect(self, dict batches) except *:
        """Find the transactional batches with a producer id; False where there are two producers."""
        cdef ServerCore server = self.connection.server
        cdef BatchHeader header
        cdef ProducePartition* part
        cdef TopicSpan* topic
        cdef list places
        cdef int32_t i, k
        cdef bint any_yet = False
        for i in range(_view.topic_count):
            topic = &_view.topics[i]
            places = (server.topics_by_id if self.reply.version >= 13 else server.topics_by_name).get(
                topic_key(topic, self.reply.version))
            for k in range(topic.first, topic.first + topic.count):
                part = &_view.partitions[k]
                if places is None or not 0 <= part.index < len(places) or places[part.index] is None:
                    continue
                # What is no single batch is refused before anybody is asked.
                if (not is_transactional(part) or parse_header(part.records, part.size, &header) != 0
                        or batch_bytes(&header) != part.size or header.producer_id < 0):
                    continue
                if any_yet and (header.producer_id != self.producer_id or header.producer_epoch != self.epoch):
                    return False
                any_yet = True
                self.producer_id = header.producer_id
                self.epoch = header.producer_epoch
                batches[places[part.index]] = header.base_sequence
        return True

    cdef int ask(self) except -1:
        cdef ServerCore server = self.connection.server
        cdef Partition partition
        future = server.broker.transactions.verify(
            self.transactional_id, self.producer_id, self.epoch,
            [(partition.topic, partition.index) for partition in self.verifications], add=self.adds)
        if future.done():
            return self.on_verified(future)
        self.waiting = True
        self.connection.running = True
        future.add_done_callback(self.on_answer)
        return 0

    def on_answer(self, future):
        try:
            self.on_verified(future)
        except Exception as error:
            self.connection.running = False
            self.connection.broken(error)

    cdef int on_verified(self, future) except -1:
        cdef Partition partition
        cdef dict answers = future.result()
        for partition in self.verifications:
            code = answers[partition.topic, partition.index]
            if code != ErrorCode.NONE:
                self.errors[partition] = verification_error(code, self.reply.version)
        return self.finish()

    cdef int refuse(self, code, message) except -1:
        self.refused = (code, message)
        return self.finish()

    cdef int finish(self) except -1:
        """Append what may be appended. The client may be gone by now, as in Kafka."""
        cdef AnswerQueue connection = self.connection
        if not self.waiting:
            return append_all(connection, self.reply, self.owner, self)
        self.waiting = False
        connection.running = False
        _view.parse(Cursor.over(self.body, self.size, self.owner), self.reply.version)
        append_all(connection, self.reply, self.owner, self)
        self.owner = None
        return 0 if connection.closed else connection.output_free()

    cdef bint error_of(self, Partition partition, int32_t k, int16_t* error) except *:
        """Whether the request's k-th batch, for `partition`, is refused before it is looked at."""
        cdef object found = self.refused
        if found is None and partition is not None:
            found = self.errors.get(partition)
        if found is None:
            return False
        error[0] = found[0]
        if found[1] is not None:
            self.reply.note(k, found[1], [])
        return True

    cdef Verification verification_of(self, Partition partition):
        return <Verification>self.verifications.get(partition)


cdef tuple verification_error(code, int16_t version):
    """(code, message) that a producer is told for the coordinator's error, so that clients of its time do the right thing."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH, None
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_ABORTABLE_VERSION:
        code = ErrorCode.INVALID_TXN_STATE
    if code == ErrorCode.INVALID_TXN_STATE:
        return code, "Partition was not added to the transaction"
    if code in UNVERIFIED or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_ADDING_VERSION):
        # Clients send again at this one, and do not ask for metadata first.
        return (ErrorCode.NOT_ENOUGH_REPLICAS, "Unable to verify the partition has been added to the transaction. "
                                               f"Underlying error: {ErrorCode(code).name}")
    return code, None


def install(ServerCore server):
    """Let `server` answer Produce here, without a Python call per request."""
    server.set_hot(PRODUCE_KEY, handle_produce)


@handler(ApiKey.PRODUCE, versions=(3, 13), advertise_from=0,
         omissions="versions 0 to 2 are advertised and refused, as in Kafka")
def produce(ctx, request):
    """Registered for its versions; `install` puts `handle_produce` in its place."""
    raise RuntimeError("Produce is answered by handle_produce")
