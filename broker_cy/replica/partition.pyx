"""A partition as clients see it: appends, reads, and who waits for more.

What may be read and acknowledged is decided by its Replica (replica.pxd), to which writes and syncs are reported here and in
group_commit. The group that flushes the partitions is also in this module, because the two depend on each other, which makes the
module long.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EIO

from broker_cy.replica.replica cimport COMMITTED, LEADER, LOST, OFFLINE, CLOSED, MOVED, PENDING, Fate, Level, Output, Replica
from broker_cy.replica.verification cimport Verification, Verifications, batch_problem, judge, marker_problem
from broker_cy.storage.producer_state cimport (
    PRODUCER_DUPLICATE, PRODUCER_INVALID_EPOCH, PRODUCER_OK, PRODUCER_OUT_OF_ORDER, Producer,
)
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_TRANSACTIONAL, BATCH_ATTRIBUTES_AT, BATCH_HEADER_BYTES, BATCH_MAGIC_AT, BATCH_SECOND,
    BatchHeader, BatchVerdict, parse_header, rejection, stamp_offset_epoch, validate_batch,
)
from broker_cy.wire.marker cimport marker_batch

import os

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.storage.errors import StorageError, errno_of
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.resends import refill_producers
from broker_cy.wire.records import rebuild_batch

cdef int16_t KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
cdef int16_t NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
cdef int16_t NOT_ENOUGH_REPLICAS = ErrorCode.NOT_ENOUGH_REPLICAS
cdef int16_t CORRUPT_MESSAGE = ErrorCode.CORRUPT_MESSAGE
cdef int16_t MESSAGE_TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
cdef enum:
    ACKS_ALL = -1
    NO_EPOCH = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

# compression.type, as ValidationRules.target_codec
CODECS = {"producer": -1, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
# The offline reason of an unopened partition, for callers that do not wait for it to open.
NOT_OPEN = "its log is not open yet"
LEVELS = {"gzip": "compression.gzip.level", "lz4": "compression.lz4.level", "zstd": "compression.zstd.level"}


cdef class DelayedFetch:
    cdef int on_advance(self, Partition partition, Py_ssize_t written_bytes) except -1:
        """Called when `written_bytes` more can be read from `partition`; -1 if it no longer exists or went offline."""
        raise NotImplementedError("a DelayedFetch without on_advance")


cdef class Waiter:
    cdef int settled(self, int32_t place, Partition partition, Fate fate) except -1:
        """The fate of the record that was registered as `place` is decided: DONE, LOST or MOVED."""
        raise NotImplementedError("a Waiter without settled")


cdef class _OwnAppend(Waiter):
    """An append of this broker itself: `future` gets the base offset, or `done` is called."""

    cdef int settled(self, int32_t place, Partition partition, Fate fate) except -1:
        error = None
        if fate == LOST:
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR,
                               f"writing {partition.topic}-{partition.index} failed: {os.strerror(partition.replica.error)}")
        elif fate == MOVED:
            error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER,
                               f"this broker no longer leads {partition.topic}-{partition.index}")
        if self.future is None:
            try:
                self.done(error)
            except Exception as failure:
                # A defect; the other appends and partitions still get their results.
                partition.group.loop.call_exception_handler({"message": "after an append", "exception": failure})
        elif not self.future.done():
            if error is None:
                self.future.set_result(self.base_offset)
            else:
                self.future.set_exception(error)
        return 0


cdef class FlushGroup:
    def __init__(self, loop, Clock clock not None):
        self.loop = loop
        self.clock = clock
        self.dirty = []
        self.verifies = True
        self.stagers = []
        from broker_cy.replica.group_commit import GroupCommit
        # This one syncs at once; the server replaces it with one that has threads.
        self.commit = GroupCommit(self, InlineJobs(), 1)

    cdef int schedule_flush(self) except -1:
        """Schedule a flush after this turn's sockets are read: the loop runs call_soon callbacks after its poll."""
        if not self.flush_scheduled:
            self.flush_scheduled = True
            self.loop.call_soon(self.end_turn)
        return 0

    def end_turn(self):
        self.checked_bytes = 0
        self.flush()

    cdef int add_dirty(self, Partition partition) except -1:
        """`partition` had nothing to write until now."""
        self.dirty.append(partition)
        return self.schedule_flush()

    cdef int before_flush(self, object stage) except -1:
        self.stagers.append(stage)
        return self.schedule_flush()

    cdef int answer_waiting(self) except -1:
        """Called after each flush; the server sends the answers that waited for it."""
        return 0

    cdef int failed(self, Partition partition, object what, object error) except -1:
        """Called for each failed append, write, read or sync of a log; the server logs it."""
        return 0

    cpdef int flush(self) except -1:
        """Write every dirty partition, with one pwritev each, then send the answers."""
        cdef list dirty, stagers
        cdef Partition partition
        self.flush_scheduled = False
        if self.stagers:
            stagers, self.stagers = self.stagers, []
            for stage in stagers:
                stage()
            # The batches that they staged are written by this flush.
            self.flush_scheduled = False
        dirty = self.dirty
        self.staged_bytes = 0
        self.flushes += 1
        if dirty:
            self.dirty = []
            for partition in dirty:
                partition.write_staged()
        self.answer_waiting()
        if dirty:
            for partition in dirty:
                partition.tell()
        if self.sync_wanted:
            self.sync_wanted = False
            self.commit.start()
        return 0

    cdef int answer_settled(self) except -1:
        """Called after the answers that waited for a round of group commit were settled; the server sends them."""
        return 0


cdef class Partition:
    def __init__(self, FlushGroup group, str topic, int32_t index, topic_id, Log log, int32_t leader_epoch,
                 *, bint protected=False, str offline_reason=None, int replication_factor=1, bint unopened=False):
        """`log` is None if the log cannot be served, for `offline_reason`, or, with `unopened`, if it will be opened later."""
        self.group = group
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.offline_reason = NOT_OPEN if unopened else offline_reason
        self.unopened = unopened
        self.protected = protected
        self.replica = Replica(leader_epoch)
        self.waiting_fetches = {}
        self.waiting_answers = []
        self.waiting_appends = []
        self.undone_appends = []
        self.replication_factor = replication_factor
        self.min_insync_replicas = 1
        if log is not None:
            self.serve(log)

    cdef int serve(self, Log log) except -1:
        """Lead with `log`, which has nothing staged."""
        self.log = log
        self.replica.become(LEADER, self.replica.leader_epoch)
        self.reported_bytes = 0
        return self.take(self.replica.open(log.written_end_offset, log.synced_end_offset))

    @property
    def high_watermark(self):
        """-1 without a log."""
        return self.replica.high.offset

    @property
    def leader_epoch(self):
        return self.replica.leader_epoch

    def lead(self, int32_t leader_epoch):
        """Go on as the leader of a newer epoch. Raises ValueError for an epoch that is over."""
        self.replica.become(LEADER if self.log is not None else OFFLINE, leader_epoch)
        if self.waiting_fetches:
            self.wake(-1)           # those of the epoch before are refused

    def configure(self, settings):
        """Apply the topic's settings: a mapping of Kafka's topic setting names to typed values."""
        self.rules.timestamp_type = LOG_APPEND_TIME if settings["message.timestamp.type"] == "LogAppendTime" else CREATE_TIME
        codec = settings["compression.type"]
        self.rules.target_codec = CODECS[codec]
        if self.rules.target_codec > 0:
            self.group.recodes = True
        self.compression_level = settings.get(LEVELS.get(codec))
        self.rules.before_max_ms = settings["message.timestamp.before.max.ms"]
        self.rules.after_max_ms = settings["message.timestamp.after.max.ms"]
        self.rules.max_message_bytes = settings["max.message.bytes"]
        self.rules.compacted = "compact" in settings["cleanup.policy"]
        # At most the number of replicas, as in Kafka.
        self.min_insync_replicas = min(settings["min.insync.replicas"], self.replication_factor)

    # ---- append ----

    cdef int append_produced(self, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms, int16_t acks,
                             int16_t version, Verification verification, BatchCheck check, AppendResult* out) except -1:
        """Check, stamp and stage one batch from a client. A transactional batch comes with the result of start_verification, and
        one for which needs_check is True with its finished `check`. `out.error` is Kafka's code; `last_error` explains it.
        """
        cdef BatchHeader header
        cdef BatchVerdict verdict
        cdef object refused
        cdef int64_t base_offset, timestamp
        cdef int status
        out.base_offset = -1
        out.log_append_time_ms = -1
        out.log_start_offset = -1
        out.error = 0
        if self.log is None or self.log.offline is not None:
            return self.refuse(out, KAFKA_STORAGE_ERROR, self.offline_reason if self.log is None else self.log.offline)
        if self.replica.role != LEADER:
            return self.refuse(out, NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic}-{self.index}")
        if acks == ACKS_ALL and self.min_insync_replicas > 1:
            return self.refuse(out, NOT_ENOUGH_REPLICAS,
                               f"{self.topic}-{self.index} has 1 in-sync replica; min.insync.replicas is {self.min_insync_replicas}")
        if check is not None and check.partition is self:
            header = check.header
            verdict = check.verdict
            refused = check.refusal
        elif self.needs_check(data, size):
            # The topic was created again, came online, or changed its compression.type while a worker checked the request.
            return self.refuse(out, NOT_LEADER_OR_FOLLOWER, f"{self.topic}-{self.index} changed while the batch was checked")
        else:
            refused = None
            self.rules.produce_version = version
            if validate_batch(data, size, &header, &self.rules, now_ms, &verdict, None):
                refused = rejection(data, size, &self.rules, now_ms, &verdict, f"{self.topic}-{self.index}")
        if refused is not None:
            self.refuse(out, verdict.error, refused.message)
            if verdict.fault <= BATCH_SECOND:
                # Kafka refuses these before it reads the log.
                out.log_start_offset = -1
            self.last_error = (refused.message, refused.record_errors)
            return 0
        size = verdict.size
        if header.producer_id >= 0:
            status = self.log.producers.check(&header, &base_offset, &timestamp)
            if status == PRODUCER_OUT_OF_ORDER and self.log.producers.newest_only:
                # The batch may have been sent again after a restart.
                self.refill()
                status = self.log.producers.check(&header, &base_offset, &timestamp)
            if status == PRODUCER_DUPLICATE:
                out.base_offset = base_offset
                out.last_offset = base_offset + header.last_offset_delta
                # Kafka returns the time of a duplicate under CreateTime as well.
                out.log_append_time_ms = timestamp
                out.log_start_offset = self.log.log_start_offset
                return 0
            if header.attributes & ATTRIBUTE_TRANSACTIONAL or self.verifications is not None:
                status = judge(self.verifications, self.log.producers, &header, verification, status, self.group.verifies)
            if status != PRODUCER_OK:
                return self.refuse(out, status, batch_problem(self.verifications, self.log.producers, &header, status))
        if verdict.rebuild:
            return self.stage_rebuilt(self.close_gaps(data, size, now_ms) if check is None else check.stored, now_ms, out)
        return self.stage(data, size, &header, owner, now_ms, out)

    cdef bint needs_check(self, const uint8_t* data, Py_ssize_t size) noexcept:
        """Whether a produced batch is checked with a BatchCheck, separately from its append: it is compressed, or will be."""
        if size < BATCH_HEADER_BYTES or data[BATCH_MAGIC_AT] != 2:
            return False
        return data[BATCH_ATTRIBUTES_AT] & ATTRIBUTE_CODEC_MASK != 0 or self.rules.target_codec > 0

    cdef BatchCheck new_check(self, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms, int16_t version):
        cdef BatchCheck check = BatchCheck.__new__(BatchCheck)
        check.partition = self
        check.owner = owner
        check.data = data
        check.size = size
        check.now_ms = now_ms
        check.rules = self.rules
        check.rules.produce_version = version
        check.level = self.compression_level
        check.topic_partition = (self.topic, self.index)
        return check

    cdef object start_verification(self, int64_t producer_id, int16_t epoch, int32_t sequence, bint adds):
        """Call Verifications.start. Returns its result, or an ErrorCode if the partition is offline."""
        if self.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.verifications is None:
            self.verifications = Verifications.__new__(Verifications)
        return self.verifications.start(self.log.producers, producer_id, epoch, sequence, adds)

    cdef int refill(self) except -1:
        try:
            refill_producers(self.log.segments, self.log.producers)
        except (OSError, StorageError) as error:
            self.group.failed(self, "read", error)
        return 0

    cdef bytes close_gaps(self, uint8_t* data, Py_ssize_t size, int64_t now_ms):
        """The uncompressed batch with offset deltas that have no gaps; None if it exceeds max.message.bytes."""
        append_time_ms = now_ms if self.rules.timestamp_type == LOG_APPEND_TIME else None
        stored = rebuild_batch(PyBytes_FromStringAndSize(<char*>data, size), log_append_time_ms=append_time_ms)
        return stored if len(stored) <= self.rules.max_message_bytes else None

    cdef int stage_rebuilt(self, bytes rebuilt, int64_t now_ms, AppendResult* out) except -1:
        """Stage the rebuilt form of a batch."""
        cdef BatchHeader header
        if rebuilt is None:
            return self.refuse(out, MESSAGE_TOO_LARGE, f"{self.topic}-{self.index}: with the topic's compression.type the batch has "
                               f"more bytes than max.message.bytes, which is {self.rules.max_message_bytes}")
        parse_header(<uint8_t*>PyBytes_AS_STRING(rebuilt), len(rebuilt), &header)
        # There is no other reference to these bytes, so they may be stamped in place.
        return self.stage(<uint8_t*>PyBytes_AS_STRING(rebuilt), len(rebuilt), &header, rebuilt, now_ms, out)

    cdef int stage(self, uint8_t* data, Py_ssize_t size, BatchHeader* header, object owner, int64_t now_ms,
                   AppendResult* out) except -1:
        header.base_offset = self.log.log_end_offset
        header.leader_epoch = self.replica.leader_epoch
        stamp_offset_epoch(data, header.base_offset, header.leader_epoch)
        try:
            self.log.stage(header, data, size, owner, now_ms)
        except (OSError, StorageError, MemoryError) as error:
            # The active segment cannot be opened or read, or there is no memory; this batch was not staged.
            self.group.failed(self, "append", error)
            return self.refuse(out, KAFKA_STORAGE_ERROR, f"{self.topic}-{self.index}: {os.strerror(errno_of(error))}")
        if self.verifications is not None and header.attributes & ATTRIBUTE_TRANSACTIONAL:
            self.verifications.end(header)
        self.batches += 1
        self.records += header.count
        self.appended_bytes += size
        self.group.staged_bytes += size
        if self.replica.is_clean():
            self.group.add_dirty(self)
        self.replica.stage(self.log.log_end_offset, size)
        out.base_offset = header.base_offset
        out.last_offset = self.log.log_end_offset - 1
        out.log_append_time_ms = now_ms if self.rules.timestamp_type == LOG_APPEND_TIME else -1
        out.log_start_offset = self.log.log_start_offset
        return 0

    cdef int refuse(self, AppendResult* out, int16_t error, str message) except -1:
        """Set the error of an append. As in Kafka, some errors come without the log start offset."""
        out.error = error
        if error != KAFKA_STORAGE_ERROR and error != CORRUPT_MESSAGE and error != MESSAGE_TOO_LARGE:
            out.log_start_offset = self.log.log_start_offset
        self.last_error = (message, [])
        return 0

    def append_records(self, bytes batch, int64_t now_ms):
        """Append a batch that this broker (a coordinator) made. Returns a future of its base offset, done after this turn's write.

        Raises KafkaError if the partition is offline; the future gets KafkaError(KAFKA_STORAGE_ERROR) if the write fails.
        """
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)
        return self.append_for_future(bytes(bytearray(batch)), now_ms)

    def before_flush(self, stage):
        """Call `stage()` before the write that ends this turn of the loop, which then includes the batches that it stages."""
        self.group.before_flush(stage)

    def append_then(self, bytes batch, int64_t now_ms, done):
        """Like append_records, but `done(None)` or `done(KafkaError)` is called as soon as the result is known, without a turn of
        the loop in between; an exception that it raises is only logged. There must be no other reference to `batch`, which is
        stamped in place.
        """
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)
        self.append_own(batch, now_ms).done = done

    def append_transactional(self, bytes batch, int64_t now_ms, Verification verification):
        """Like append_records, for a transactional batch, with the result of `verify_producer` for it.

        Also raises KafkaError for INVALID_PRODUCER_EPOCH, and for INVALID_TXN_STATE if the transaction is not open here and its
        verification is no longer valid.
        """
        cdef BatchHeader header
        cdef Producer* producer
        cdef int16_t status = PRODUCER_OK
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)
        if parse_header(<uint8_t*>PyBytes_AS_STRING(batch), PyBytes_GET_SIZE(batch), &header) != 0:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE,
                             f"{self.topic}-{self.index}: the {PyBytes_GET_SIZE(batch)} bytes to append are not a whole record batch")
        producer = self.log.producers.find(header.producer_id)
        if producer != NULL and header.producer_epoch < producer.epoch:
            status = PRODUCER_INVALID_EPOCH
        status = judge(self.verifications, self.log.producers, &header, verification, status, self.group.verifies)
        if status != PRODUCER_OK:
            raise KafkaError(ErrorCode(status), batch_problem(self.verifications, self.log.producers, &header, status))
        return self.append_for_future(bytes(bytearray(batch)), now_ms)

    def append_marker(self, int64_t producer_id, int16_t producer_epoch, int32_t coordinator_epoch, bint commit, int64_t now_ms,
                      int transaction_version=2):
        """Append the marker that ends the producer's transaction. Returns a future of its offset, done after this turn's write.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, NOT_LEADER_OR_FOLLOWER (the topic is deleted),
        KAFKA_STORAGE_ERROR, which the future also gets if the write fails.
        """
        cdef int status
        if self.closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic}-{self.index} is deleted")
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)
        status = self.log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        if status != PRODUCER_OK:
            raise KafkaError(ErrorCode(status), marker_problem(self.log.producers, producer_id, producer_epoch, coordinator_epoch,
                                                               status))
        return self.append_for_future(marker_batch(producer_id, producer_epoch, coordinator_epoch, commit, now_ms,
                                                   self.rules.timestamp_type == LOG_APPEND_TIME), now_ms)

    cdef object append_for_future(self, bytes batch, int64_t now_ms):
        """Call append_own. Returns a future of the base offset."""
        cdef _OwnAppend append = self.append_own(batch, now_ms)
        append.future = self.group.loop.create_future()
        return append.future

    cdef _OwnAppend append_own(self, bytes batch, int64_t now_ms):
        """Call stage_own, and wait until the batch is committed."""
        cdef _OwnAppend append = _OwnAppend.__new__(_OwnAppend)
        append.base_offset = self.stage_own(batch, now_ms)
        self.waiting_appends.append((append, 0, append.base_offset, COMMITTED))
        return append

    cdef int64_t stage_own(self, bytes batch, int64_t now_ms) except -1:
        """Stage a batch in bytes that have no other reference, so they can be stamped in place. Returns its base offset."""
        cdef BatchHeader header
        cdef AppendResult out
        cdef uint8_t* data = <uint8_t*>PyBytes_AS_STRING(batch)
        if parse_header(data, PyBytes_GET_SIZE(batch), &header) != 0:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE,
                             f"{self.topic}-{self.index}: the {PyBytes_GET_SIZE(batch)} bytes to append are not a whole record batch")
        out.error = 0
        self.stage(data, PyBytes_GET_SIZE(batch), &header, batch, now_ms, &out)
        if out.error:
            raise KafkaError(ErrorCode(out.error), self.last_error[0])
        return out.base_offset

    def verify_producer(self, int64_t producer_id, int16_t epoch, *, bint adds):
        """Call start_verification for a batch that this broker made. Returns the verification for append_transactional, or None if
        no verification is needed. Raises KafkaError: INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        if not adds and not self.group.verifies:
            return None
        found = self.start_verification(producer_id, epoch, 0, adds)
        if isinstance(found, ErrorCode):
            if self.offline is not None:
                raise KafkaError(found, self.offline)
            raise KafkaError(found, f"{self.topic}-{self.index}: producer {producer_id} with epoch {epoch} was fenced; a newer epoch "
                                    "has written here")
        return found

    # ---- write ----

    cdef int write_staged(self) except -1:
        """Write the staged batches, and report what became of them; if that fails they are undone."""
        cdef int error
        cdef list undone
        try:
            error = self.log.flush_staged()
        except Exception as failure:
            # A defect, or no memory. The content of the log is unknown now; other partitions are still written, and answers sent.
            error = errno_of(failure)
            self.log.mark_offline(f"writing failed: {failure!r}")
        if self.log.sync_failed and not self.replica.sync_lost:
            # The flush of all logs has found it.
            self.take(self.replica.lose(EIO))
        if self.replica.sync_lost and error == 0:
            error = EIO
        if error == 0:
            return self.take(self.replica.wrote(self.log.written_end_offset, self.log.synced_end_offset,
                                                self.log.config.flush_messages))
        self.take(self.replica.undo(error))
        self.group.failed(self, "write", OSError(error, os.strerror(error)))
        # This has to be done before anything else is staged at these offsets.
        if self.waiting_appends:
            self.waiting_appends, undone = self.undecided_of(self.waiting_appends)
            self.undone_appends += undone
        return 0

    cdef int take(self, Output progress) except -1:
        """Do what a report of progress to the replica asks for."""
        if progress.moved:
            self.log.producers.forget_completed(progress.high_watermark)
        if progress.wants_round:
            self.group.sync_wanted = True
            self.group.commit.add(self)
        return 0

    cdef int wait(self, Waiter waiter, int32_t place, int64_t offset, Level level) except -1:
        """Have `waiter.settled(place, ...)` called once the fate of the record at `offset` is decided, which is pending now."""
        self.waiting_answers.append((waiter, place, offset, level))
        return 0

    cdef tuple undecided_of(self, list waiting):
        """Split waiting entries: those that are still pending, and (waiter, place, fate) of the others."""
        cdef list pending = [], decided = []
        cdef Fate fate
        for entry in waiting:
            waiter, place, offset, level = entry
            fate = self.replica.fate(offset, level)
            if fate == PENDING:
                pending.append(entry)
            else:
                decided.append((waiter, place, fate))
        return pending, decided

    cdef int settle(self, list decided) except -1:
        cdef Waiter waiter
        for waiter, place, fate in decided:
            waiter.settled(place, self, fate)
        return 0

    cdef int settle_answers(self) except -1:
        """Settle the answers whose fate is decided, after a round of syncs."""
        cdef list decided
        if self.waiting_answers:
            self.waiting_answers, decided = self.undecided_of(self.waiting_answers)
            self.settle(decided)
        return 0

    cdef int tell(self) except -1:
        """Complete internal appends and wake fetches, after the answers of the turn or the round."""
        cdef list decided
        cdef int64_t more = self.replica.high.bytes - self.reported_bytes
        self.reported_bytes += more
        if self.undone_appends:
            decided, self.undone_appends = self.undone_appends, []
            self.settle(decided)
        if self.waiting_appends:
            self.waiting_appends, decided = self.undecided_of(self.waiting_appends)
            self.settle(decided)
        if self.waiting_fetches:
            if self.replica.sync_lost:
                self.wake(-1)
            elif more > 0:
                self.wake(more)
        return 0

    cdef int wake(self, Py_ssize_t written_bytes) except -1:
        """Notify waiting fetches that the high watermark moved, or, with -1, that this partition no longer exists or is offline."""
        cdef DelayedFetch waiting
        cdef bint was_open = self.reported_open
        cdef int64_t before = self.reported_stable
        if written_bytes >= 0:
            self.note_stable()
            self.undecided = was_open or self.reported_open
            self.stable_moved = self.reported_stable != before
        for waiting in list(self.waiting_fetches):
            waiting.on_advance(self, written_bytes)
        return 0

    cdef int note_stable(self) except -1:
        self.reported_stable = self.fetch_bound(True)
        self.reported_open = self.reported_stable < self.replica.high.offset
        return 0

    # ---- read ----

    def check_leader_epoch(self, int32_t epoch):
        """None if a client's leader epoch is ours or not given (-1), else the error, which says which side is behind."""
        if epoch == NO_EPOCH or epoch == self.replica.leader_epoch:
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.replica.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    cdef int64_t fetch_bound(self, bint read_committed) except -2:
        """First offset that may not be read: the high watermark, or the last stable offset under read_committed."""
        cdef int64_t stable
        if not read_committed:
            return self.replica.high.offset
        # If an open transaction began before the log start offset, the last stable offset would otherwise be below that.
        stable = max(<int64_t>self.log.producers.last_stable_offset(self.replica.high.offset), self.log.log_start_offset)
        return min(stable, self.replica.high.offset)

    cdef int add_waiting(self, DelayedFetch waiting) except -1:
        self.waiting_fetches[waiting] = None
        self.note_stable()
        return 0

    cdef int remove_waiting(self, DelayedFetch waiting) except -1:
        self.waiting_fetches.pop(waiting, None)
        return 0

    @property
    def offline(self):
        """None if the partition is served, else the reason why it is not."""
        return self.offline_reason if self.log is None else self.log.offline

    def read_failed(self, error):
        """Report that reading this partition's files failed."""
        self.group.failed(self, "read", error)

    @property
    def last_stable_offset(self):
        return self.fetch_bound(True)

    def come_online(self, Log log not None):
        """Serve `log`, which was not available before."""
        self.unopened = False
        self.offline_reason = None
        self.verifications = None
        self.serve(log)

    def stay_offline(self, str reason not None):
        """Note that the log of an unopened partition cannot be served."""
        self.unopened = False
        self.offline_reason = reason

    def close(self):
        """Close the partition of a deleted topic: nothing is appended any more, and waiting fetches are answered."""
        self.closed = True
        self.unopened = False
        self.replica.become(CLOSED, self.replica.leader_epoch)
        if self.waiting_fetches:
            self.wake(-1)
