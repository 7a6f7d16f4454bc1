"""Produce, versions 3 to 13 (advertised from 0, KAFKA-18659: librdkafka before 2.6 drops compression otherwise).

A batch is checked and stamped in the receive buffer, staged in its partition's log, and answered after the write that ends this
turn of the loop. An error in one partition is that partition's error code; the others succeed. acks=0 gets no answer: an error
closes the connection, as in Kafka. acks=1 and acks=all are the same while a partition has one replica. With acks=all, a record that the
other replicas in sync do not have after `timeout_ms` is answered with REQUEST_TIMED_OUT; it stays in the log.

The first transactional batch of a producer in a partition waits until the transaction coordinator confirms that the partition is in
the transaction. From version 12 on the coordinator adds it (KIP-890), which `TransactionService.verify` retries while the previous
transaction is being completed.

Compressed batches, and those that the topic stores with another codec, are checked apart from the append: by the loop, up to
CHECKED_TURN_BYTES in a turn, or by a worker. While a request waits for either, its connection handles no further one.

With an authorizer, a topic that the client may not write is TOPIC_AUTHORIZATION_FAILED before its batches are looked at. Whether a
request is transactional is judged by its batches (CVE-2018-17196): without the right to its transactional id, or without one, it fails
as a whole.

The parsed request (`_view`) is one object that all requests share, so that parsing allocates nothing. Every step that uses it
is in this file, which makes it long.
"""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.clock cimport coarse_ms
from broker_cy.core.cursor cimport Cursor
from broker_cy.replica.partition cimport Partition
from broker_cy.replica.produced cimport append_produced, needs_check, new_check
from broker_cy.replica.replica cimport COMMITTED, PENDING
from broker_cy.replica.verification cimport Verification
from broker_cy.connections.buffers cimport RecvBuffer
from broker_cy.connections.answers cimport MUTED, AnswerQueue, Reply, ServerCore
from broker_cy.connections.current_leader cimport absent_error, topic_named, topic_with_id
from broker_cy.connections.produce_answer cimport ProduceReply, Result
from broker_cy.connections.rights cimport WRITE, Rights, rights_of
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_TRANSACTIONAL, BATCH_ATTRIBUTES_AT, BATCH_HEADER_BYTES, BATCH_MAGIC_AT, BatchHeader,
    batch_bytes, parse_header,
)
from broker_cy.wire.batch_check cimport BatchCheck
from broker_cy.wire.produce cimport FIRST_ID_VERSION, ProducePartition, ProduceView, TopicSpan, topic_key

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import topic_names
from broker_cy.core.text import java_text
from broker_cy.broker.registry import handler
from broker_cy.wire.frame import ApiKey

cdef enum:
    PRODUCE_KEY = 0
    ACKS_NONE = 0
    # Decompressed for validation by one turn of the loop, which takes about 5 ms; a worker does the rest, in jobs of
    # CHECKED_JOB_BYTES, which one batch may exceed (compression.decompressed_limit bounds it).
    CHECKED_TURN_BYTES = 4 << 20
    CHECKED_JOB_BYTES = 16 << 20
    FIRST_ABORTABLE_VERSION = 11    # knows TRANSACTION_ABORTABLE
    FIRST_ADDING_VERSION = 12       # of producers with transaction.version 2
    WRITE_OPERATION = 4             # AclOperation

cdef int64_t UNBOUNDED = (1 << 63) - 1
cdef int64_t FLUSH_NEVER = (1 << 63) - 1    # flush.messages by default

cdef bytes OWN_CLIENT = topic_names.OWN_CLIENT.encode()
cdef object OWN_TOPICS = topic_names.OWN_TOPICS
cdef int16_t UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
cdef int16_t UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
cdef int16_t INVALID_REQUIRED_ACKS = ErrorCode.INVALID_REQUIRED_ACKS
cdef int16_t INVALID_TOPIC_EXCEPTION = ErrorCode.INVALID_TOPIC_EXCEPTION
cdef int16_t TOPIC_AUTHORIZATION_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

# The coordinator could not be asked.
cdef frozenset UNVERIFIED = frozenset((
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
))

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
        unfinished = check_batches(connection, version, owner, checks, denied)
    if unfinished is None and not attributes & ATTRIBUTE_TRANSACTIONAL:
        return append_all(connection, reply, owner, checks, None, denied)
    work = HeldProduce.__new__(HeldProduce)
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


cdef inline bint is_transactional(const ProducePartition* part) noexcept nogil:
    return (part.size >= BATCH_HEADER_BYTES and part.records[BATCH_MAGIC_AT] == 2
            and part.records[BATCH_ATTRIBUTES_AT] & ATTRIBUTE_TRANSACTIONAL)


cdef list check_batches(AnswerQueue connection, int16_t version, RecvBuffer owner, dict checks, set denied):
    """Check the batches of `_view` whose cost is not bounded by their size, within the bound of this turn of the loop. Returns
    those that are left for a worker, in order, or None.
    """
    cdef ServerCore server = connection.server
    cdef TopicSpan* topic
    cdef ProducePartition* part
    cdef Partition partition
    cdef BatchCheck check
    cdef list places, unfinished = None
    cdef int64_t room
    cdef int32_t i, k
    for i in range(_view.topic_count):
        topic = &_view.topics[i]
        places = (server.topics_by_id if version >= FIRST_ID_VERSION else server.topics_by_name).get(topic_key(topic, version))
        if places is None or (denied is not None and i in denied):
            continue
        for k in range(topic.first, topic.first + topic.count):
            part = &_view.partitions[k]
            if not 0 <= part.index < len(places) or places[part.index] is None:
                continue
            partition = <Partition>places[part.index]
            if partition.offline is not None or not needs_check(partition, part.records, part.size):
                continue
            if partition.protected and not is_own_write(connection, partition):
                continue
            check = new_check(partition, <uint8_t*>part.records, part.size, owner, server.wall_ms(), version)
            checks[k] = check
            room = CHECKED_TURN_BYTES - server.checked_bytes
            if unfinished is None and room > part.size:
                if check.run(room, False):
                    server.checked_bytes += check.spent
                    continue
                server.checked_bytes += check.spent
            if unfinished is None:
                unfinished = []
            unfinished.append(check)
    return unfinished


cdef int append_all(AnswerQueue connection, ProduceReply reply, RecvBuffer owner, dict checks, HeldProduce work,
                    set denied) except -1:
    """Append what `_view` holds, batch by batch, and answer after the write. `checks` has the finished BatchChecks by place in the
    request, or is None; `work` is None for a request that never waited, else its reply has its place already; `denied` has the
    places of topics that the client may not write, or is None.
    """
    cdef ServerCore server = connection.server
    cdef TopicSpan* topic
    cdef int32_t i, k
    cdef bint waits = False
    cdef list places
    cdef bytes name
    reply.acks = _view.acks
    reply.timeout_ms = _view.timeout_ms
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
            if append_one(connection, reply, places, k, owner, checks, work, denied is not None and i in denied):
                waits = True
    if waits:
        connection.staged_at = server.flushes
    if _view.acks == ACKS_NONE:
        if waits and connection.awaits_sync:
            # No answer leaves, but the next request waits until the records of this one are on disk.
            reply.connection = connection
            server.unflushed.append(reply)
        return refuse_unacked(connection, reply, reply.version)
    if work is None:
        connection.add_reply(reply)
    if waits:
        server.unflushed.append(reply)
        return 0
    return connection.mark_ready(reply)


cdef bint append_one(AnswerQueue connection, ProduceReply reply, list places, int32_t k, RecvBuffer owner,
                     dict checks, HeldProduce work, bint is_denied) except *:
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
    elif is_denied:
        result.append.error = TOPIC_AUTHORIZATION_FAILED
    elif partition is None:
        result.append.error = error_of_absent(server, reply, places, part.index)
    elif _view.acks < -1 or _view.acks > 1:
        result.append.error = INVALID_REQUIRED_ACKS
    elif partition.protected and not is_own_write(connection, partition):
        result.append.error = INVALID_TOPIC_EXCEPTION
    else:
        append_produced(partition, <uint8_t*>part.records, part.size, owner, server.wall_ms(), _view.acks, reply.version,
                        None if work is None else work.verification_of(partition),
                        None if checks is None else <BatchCheck>checks.get(k), &result.append)
        if result.append.error:
            message, records = partition.last_error
            reply.note(k, message, records)
        else:
            # A batch that was sent again may be one whose write or sync is not done.
            result.staged = partition.replica.fate(result.append.last_offset, COMMITTED) == PENDING
            if partition.log.config.flush_messages != FLUSH_NEVER:
                connection.awaits_sync = True
    return result.staged


cdef bint is_own_write(AnswerQueue connection, Partition partition) except *:
    """Whether another broker writes to one of the brokers' own topics (events.own_topic_leader). Anybody can give this client
    id: where rights count, that of a broker is needed.
    """
    return (connection.client_id == OWN_CLIENT and partition.topic in OWN_TOPICS
            and (connection.server.authorization is None or rights_of(connection).may_act_for_cluster()))


cdef int16_t error_of_absent(ServerCore server, ProduceReply reply, list places, int32_t index) except? -1:
    """The error of a partition that this broker does not have."""
    cdef bytes key = reply.topics[len(reply.topics) - 1][0]
    cdef bint by_id = reply.version >= FIRST_ID_VERSION
    topic = topic_with_id(server, key) if by_id else topic_named(server, key)
    if topic is not None:
        return absent_error(topic, index)
    return UNKNOWN_TOPIC_ID if by_id and places is None else UNKNOWN_TOPIC_OR_PARTITION


cdef int refuse_unacked(AnswerQueue connection, ProduceReply reply, int16_t version) except -1:
    """acks=0: there is no answer to carry an error, so the connection is closed, which clients treat as an error."""
    cdef int32_t i
    for i in range(reply.count):
        if reply.results[i].append.error:
            code = ErrorCode(reply.results[i].append.error).name
            return connection.fail(f"Produce v{version}", f"{code} with acks=0")
    return 0


# ---- requests that wait: for a worker, for the transaction coordinator (KIP-890) ----

@cython.final
cdef class HeldProduce:
    """A Produce request that waits until a worker has checked its batches, and then until the transaction coordinator knows its
    partitions. Meanwhile the connection handles no other; `_view` is read again after each.
    """
    cdef AnswerQueue connection
    cdef ProduceReply reply
    cdef RecvBuffer owner               # keeps `body` alive
    cdef const uint8_t* body
    cdef Py_ssize_t size
    cdef dict checks                    # as append_all takes them
    cdef set denied                     # as append_all takes them
    cdef list unfinished                # those that a worker has not done yet, the next one last
    cdef bint transactional
    cdef bint held                      # waited at least once
    cdef str transactional_id
    cdef bint adds                      # the coordinator adds partitions that it does not know yet
    cdef int64_t producer_id
    cdef int16_t epoch
    cdef dict verifications             # Partition -> Verification
    cdef dict errors                    # Partition -> (code, message), of the verification
    cdef object refused                 # (code, message) for every partition of the request, or None

    cdef int hold(self) except -1:
        self.held = True
        self.connection.running = True
        return 0

    cdef int resume(self) except -1:
        self.connection.running = False
        return parse(Cursor.over(self.body, self.size, self.owner), self.reply.version)

    # ---- the worker ----

    cdef int check(self, list unfinished) except -1:
        self.hold()
        unfinished.reverse()
        self.unfinished = unfinished
        self.connection.server.check_jobs.run(self.check_some, self.on_checked)
        return 0

    def check_some(self):
        """In a worker: a part of the work, so that requests of several connections advance side by side."""
        cdef BatchCheck check
        cdef int64_t spent = 0
        while self.unfinished and spent < CHECKED_JOB_BYTES:
            check = self.unfinished.pop()
            check.run(UNBOUNDED, True)
            spent += check.spent

    def on_checked(self, result, error):
        try:
            if error is not None:
                raise error
            if self.unfinished:
                self.connection.server.check_jobs.run(self.check_some, self.on_checked)
            else:
                self.resume()
                self.checked()
        except Exception as failure:
            self.connection.running = False
            self.connection.broken(failure)

    cdef int checked(self) except -1:
        if not self.transactional:
            self.verifications = self.errors = {}
            return self.finish()
        self.adds = self.reply.version >= FIRST_ADDING_VERSION
        self.transactional_id = java_text(_view.transactional_id[:_view.transactional_id_size])
        return self.verify()

    # ---- the transaction coordinator ----

    cdef int verify(self) except -1:
        """Ask the coordinator about the partitions of `_view` without an open transaction of the producer."""
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
        """Find the transactional batches with a producer id. False if they belong to two producers."""
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
            if self.denied is not None and i in self.denied:
                continue
            for k in range(topic.first, topic.first + topic.count):
                part = &_view.partitions[k]
                if places is None or not 0 <= part.index < len(places) or places[part.index] is None:
                    continue
                # Records other than one single batch are refused without asking the transaction coordinator.
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
        self.hold()
        future.add_done_callback(self.on_answer)
        return 0

    def on_answer(self, future):
        try:
            self.resume()
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
        """Append the batches that are not refused. As in Kafka, they are appended even if the client has disconnected."""
        cdef AnswerQueue connection = self.connection
        append_all(connection, self.reply, self.owner, self.checks, self, self.denied)
        if not self.held:
            return 0
        self.owner = None
        return 0 if connection.closed else connection.output_free()

    cdef bint error_of(self, Partition partition, int32_t k, int16_t* error) except *:
        """Whether the request's k-th batch, for `partition`, is refused without being checked."""
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
    """(code, message) for a producer in place of the coordinator's error, so that clients of this request version handle it
    correctly.
    """
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
