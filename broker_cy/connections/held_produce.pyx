"""A Produce request that waits: for a worker, for the schemas of its records, or for the transaction coordinator (KIP-890)."""

from libc.stdint cimport int16_t, int32_t, int64_t

from broker_cy.core.cursor cimport Cursor
from broker_cy.replica.partition cimport Partition
from broker_cy.connections.answers cimport ServerCore
from broker_cy.connections.produce_append cimport append_all, judge_schemas
from broker_cy.wire.batch cimport (
    ATTRIBUTE_TRANSACTIONAL, BATCH_ATTRIBUTES_AT, BATCH_HEADER_BYTES, BATCH_MAGIC_AT, BatchHeader, batch_bytes, parse_header,
)
from broker_cy.wire.batch_check cimport BatchCheck
from broker_cy.wire.produce cimport ProducePartition, TopicSpan, topic_key

from broker_cy.core.errors import ErrorCode
from broker_cy.core.text import java_text

cdef enum:
    # Decompressed for validation by one job of a worker; one batch may exceed it (compression.decompressed_limit bounds it).
    CHECKED_JOB_BYTES = 16 << 20
    FIRST_ABORTABLE_VERSION = 11    # knows TRANSACTION_ABORTABLE
    FIRST_ADDING_VERSION = 12       # of producers with transaction.version 2

cdef int64_t UNBOUNDED = (1 << 63) - 1

# The coordinator could not be asked.
cdef frozenset UNVERIFIED = frozenset((
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
))


cdef inline bint is_transactional(const ProducePartition* part) noexcept nogil:
    return (part.size >= BATCH_HEADER_BYTES and part.records[BATCH_MAGIC_AT] == 2
            and part.records[BATCH_ATTRIBUTES_AT] & ATTRIBUTE_TRANSACTIONAL)


cdef class HeldProduce(Verdicts):
    """A Produce request that waits until a worker has checked its batches, then until it is known whether the registry has the schemas
    of its records, and then until the transaction coordinator knows its partitions. Meanwhile the connection handles no other; the request is parsed again after each.
    """

    cdef int hold(self) except -1:
        self.held = True
        self.connection.running = True
        return 0

    cdef int resume(self) except -1:
        self.connection.running = False
        self.view.parse(Cursor.over(self.body, self.size, self.owner), self.reply.version)
        return self.view.keep_last()

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
                return
            self.resume()
            waiting = judge_schemas(self.checks, -1) if self.connection.server.checks_schemas else None
            if waiting is not None:
                self.wait_for_schemas(waiting)
            else:
                self.checked()
        except Exception as failure:
            self.connection.running = False
            self.connection.broken(failure)

    # ---- the schemas of records ----

    cdef int wait_for_schemas(self, future) except -1:
        """Wait until it is known whether the registry has the schemas that the records name."""
        if not future.done():
            self.hold()
            future.add_done_callback(self.on_schemas)
            return 0
        judge_schemas(self.checks, future.result())
        return self.checked()

    def on_schemas(self, future):
        try:
            self.resume()
            judge_schemas(self.checks, future.result())
            self.checked()
        except Exception as failure:
            self.connection.running = False
            self.connection.broken(failure)

    cdef int checked(self) except -1:
        if not self.transactional:
            self.verifications = self.errors = {}
            return self.finish()
        self.adds = self.reply.version >= FIRST_ADDING_VERSION
        self.transactional_id = java_text(self.view.transactional_id[:self.view.transactional_id_size])
        return self.verify()

    # ---- the transaction coordinator ----

    cdef int verify(self) except -1:
        """Ask the coordinator about the partitions of the request without an open transaction of the producer."""
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
        cdef ProduceView view = self.view
        cdef BatchHeader header
        cdef ProducePartition* part
        cdef TopicSpan* topic
        cdef list places
        cdef int32_t i, k
        cdef bint any_yet = False
        for i in range(view.topic_count):
            topic = &view.topics[i]
            places = (server.topics_by_id if self.reply.version >= 13 else server.topics_by_name).get(
                topic_key(topic, self.reply.version))
            if self.denied is not None and i in self.denied:
                continue
            for k in range(topic.first, topic.first + topic.count):
                part = &view.partitions[k]
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
        append_all(self.view, connection, self.reply, self.owner, self.checks, self, self.denied)
        if not self.held:
            return 0
        self.owner = None
        return 0 if connection.closed else connection.output_free()


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
