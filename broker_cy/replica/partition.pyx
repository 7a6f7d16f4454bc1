"""A partition as clients see it: appends, the readable end of the log, and the fetches that wait for more.

This broker has the only replica, so the high watermark is the end of the written records (of the synced ones, if flush.messages
requires that) and moves with each flush. The group that flushes the partitions is also in this module, because the two depend on
each other, which makes the module long.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EIO

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


cdef class FlushGroup:
    def __init__(self, loop):
        self.loop = loop
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

    cdef int add_dirty(self, Partition partition, Py_ssize_t staged_bytes) except -1:
        self.staged_bytes += staged_bytes
        if not partition.dirty:
            partition.dirty = True
            self.dirty.append(partition)
            self.schedule_flush()
        return 0

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

    cdef int answer_synced(self, list answers) except -1:
        """Called after each round of group commit; the server sends the answers that waited for it."""
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
        self.leader_epoch = leader_epoch
        self.protected = protected
        self.high_watermark = -1
        if log is not None:
            self.high_watermark = log.written_end_offset
            log.producers.forget_completed(self.high_watermark)
        self.waiting_fetches = {}
        self.waiting_appends = []
        self.replication_factor = replication_factor
        self.min_insync_replicas = 1

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
        header.leader_epoch = self.leader_epoch
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
        self.staged_bytes += size
        self.group.add_dirty(self, size)
        out.base_offset = header.base_offset
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
        return self.append_own(bytes(bytearray(batch)), now_ms)

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
        self.waiting_appends.append((None, done, self.stage_own(batch, now_ms)))

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
        return self.append_own(bytes(bytearray(batch)), now_ms)

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
        return self.append_own(marker_batch(producer_id, producer_epoch, coordinator_epoch, commit, now_ms,
                                            self.rules.timestamp_type == LOG_APPEND_TIME), now_ms)

    cdef object append_own(self, bytes batch, int64_t now_ms):
        """Call stage_own. Returns a future of the base offset."""
        cdef int64_t base_offset = self.stage_own(batch, now_ms)
        future = self.group.loop.create_future()
        self.waiting_appends.append((future, None, base_offset))
        return future

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
        """Write the staged batches; on failure they are undone and `flush_errno` is set."""
        try:
            self.flush_errno = self.log.flush_staged()
        except Exception as error:
            # A defect, or no memory. The content of the log is unknown now; other partitions are still written, and answers sent.
            self.flush_errno = errno_of(error)
            self.log.mark_offline(f"writing failed: {error!r}")
        if self.sync_lost() and self.flush_errno == 0:
            self.flush_errno = EIO
        if self.flush_errno == 0:
            if self.syncing or self.log.sync_is_due(self.log.synced_end_offset):
                return self.await_sync()
            self.high_watermark = self.log.written_end_offset
            self.log.producers.forget_completed(self.high_watermark)
        else:
            self.group.failed(self, "write", OSError(self.flush_errno, os.strerror(self.flush_errno)))
            # This has to be done before anything else is staged at these offsets.
            self.complete_appends(True)
        return 0

    cdef int tell(self) except -1:
        """Complete internal appends and wake fetches, after the answers of the turn."""
        cdef Py_ssize_t written = self.staged_bytes
        self.dirty = False
        self.staged_bytes = 0
        if self.waiting_appends:
            self.complete_appends(False)
        if self.flush_errno == 0:
            if self.syncing or self.sync_due:
                self.unsettled_bytes += written
            elif self.waiting_fetches:
                self.wake(written)
        return 0

    cdef int complete_appends(self, bint undone) except -1:
        """Complete the waiting appends: those below the high watermark have succeeded; those that may not be on disk have failed,
        and with `undone` also those that are not written; the others, such as batches staged since the last write, keep waiting.
        """
        appends, self.waiting_appends = self.waiting_appends, []
        for entry in appends:
            future, done, base_offset = entry
            error = None
            if base_offset >= self.high_watermark:
                if not (self.sync_lost() or (undone and base_offset >= self.log.written_end_offset)):
                    self.waiting_appends.append(entry)
                    continue
                error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR,
                                   f"writing {self.topic}-{self.index} failed: {os.strerror(self.flush_errno)}")
            if future is None:
                try:
                    done(error)
                except Exception as failure:
                    # A defect; the other appends and partitions still get their results.
                    self.group.loop.call_exception_handler({"message": "after an append", "exception": failure})
            elif not future.done():
                if error is None:
                    future.set_result(base_offset)
                else:
                    future.set_exception(error)
        return 0

    cdef bint sync_lost(self) noexcept:
        """Whether a sync failed: written data may not be on disk, and the partition stays offline until the next start."""
        return self.log is not None and self.log.sync_failed

    cdef int await_sync(self) except -1:
        """Have the records just written wait for the running round, or for the next one if flush.messages is reached again."""
        if self.sync_due:
            return 0
        if self.log.sync_is_due(self.synced_to if self.syncing else self.log.synced_end_offset):
            self.sync_due = True
            self.group.sync_wanted = True
            self.group.commit.add(self)
        else:
            self.settles_to = self.log.written_end_offset
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
        self.reported_open = self.reported_stable < self.high_watermark
        return 0

    # ---- read ----

    def check_leader_epoch(self, int32_t epoch):
        """None if a client's leader epoch is ours or not given (-1), else the error, which says which side is behind."""
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    cdef int64_t fetch_bound(self, bint read_committed) except -2:
        """First offset that may not be read: the high watermark, or the last stable offset under read_committed."""
        cdef int64_t stable
        if not read_committed:
            return self.high_watermark
        # If an open transaction began before the log start offset, the last stable offset would otherwise be below that.
        stable = max(<int64_t>self.log.producers.last_stable_offset(self.high_watermark), self.log.log_start_offset)
        return min(stable, self.high_watermark)

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
        self.log = log
        self.unopened = False
        self.offline_reason = None
        self.high_watermark = log.written_end_offset
        log.producers.forget_completed(self.high_watermark)
        self.verifications = None

    def stay_offline(self, str reason not None):
        """Note that the log of an unopened partition cannot be served."""
        self.unopened = False
        self.offline_reason = reason

    def close(self):
        """Close the partition of a deleted topic: nothing is appended any more, and waiting fetches are answered."""
        self.closed = True
        self.unopened = False
        if self.waiting_fetches:
            self.wake(-1)
