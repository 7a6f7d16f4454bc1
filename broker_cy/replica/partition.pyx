"""A partition as clients see it: appends, reads, and who waits for more.

What may be read and acknowledged is decided by its Replica (replica.pxd), to which writes and syncs are reported here and in
group_commit. The group that flushes the partitions is also in this module, because the two depend on each other, which makes the
module long.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EIO

from broker_cy.core.clock cimport coarse_ms
from broker_cy.core.crc32c cimport crc32c
from broker_cy.replica.replica cimport (
    CLOSED, COMMITTED, FOLLOWER, LEADER, LOST, MOVED, OFFLINE, PENDING, TOO_FEW, Fate, Level, Output, Replica,
)
from broker_cy.replica.verification cimport Verification, Verifications, batch_problem, judge, marker_problem
from broker_cy.storage.producer_state cimport (
    PRODUCER_DUPLICATE, PRODUCER_INVALID_EPOCH, PRODUCER_OK, PRODUCER_OUT_OF_ORDER, Producer,
)
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_TRANSACTIONAL, BATCH_ATTRIBUTES_AT, BATCH_CRC_START, BATCH_HEADER_BYTES, BATCH_MAGIC_AT,
    BATCH_SECOND, BatchHeader, BatchVerdict, batch_bytes, parse_header, rejection, stamp_offset_epoch, validate_batch,
)
from broker_cy.wire.marker cimport marker_batch

import os

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.storage.errors import StorageError, errno_of
from broker_cy.storage.jobs import InlineJobs
from broker_cy.replica import following
from broker_cy.replica.following import BatchSpan
from broker_cy.storage.errors import CorruptSegment
from broker_cy.storage.maintenance import delete_records_before
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
        """The fate of the record that was registered as `place` is decided: DONE, LOST, MOVED or TOO_FEW."""
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
        elif fate == TOO_FEW:
            error = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                               f"{partition.topic}-{partition.index} has too few in-sync replicas since the append")
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

    cdef int alter(self, Partition partition) except -1:
        """`partition` leads, and proposes another in-sync set: send the AlterPartition of its InSync."""
        if self.on_alter is not None:
            self.on_alter(partition)
        return 0

    cdef int settle_moved(self, list partitions) except -1:
        """The high watermark of `partitions` has moved, and not by a write of theirs."""
        cdef Partition partition
        for partition in partitions:
            partition.settle_answers()
        self.answer_settled()
        for partition in partitions:
            partition.tell()
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
        self.min_isr = 1
        self.checkpointed_high = self.leader_start = -1
        if log is not None:
            self.serve(log)

    cdef int serve(self, Log log) except -1:
        """Lead with `log`, which has nothing staged."""
        self.log = log
        self.reported_bytes = 0
        if self.assigned is None:
            self.replica.become(LEADER, self.replica.leader_epoch)
            return self.take(self.replica.open(log.written_end_offset, log.synced_end_offset))
        self.replica.follow(self.replica.leader_epoch)
        self.take(self.replica.open(log.written_end_offset, log.synced_end_offset,
                                    following.opening_high_watermark(self.checkpointed_high, log.log_start_offset)))
        return self.take_role()

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

    # ---- several replicas ----

    def assign(self, image, bint leads, new_in_sync, int64_t high_watermark):
        """Take the role that committed metadata gives this broker in a partition with several replicas, now or when the log is open.

        `image` is an in_sync.Assigned, `leads` whether this broker is its leader, `new_in_sync()` creates the InSync of a leader, and
        `high_watermark` is the checkpointed one. Nothing may be staged.
        """
        self.assigned = image
        if self.waiting_followers is None:
            self.waiting_followers = {}
        self.leads = leads
        self.new_in_sync = new_in_sync
        self.checkpointed_high = high_watermark
        self.replication_factor = len(image.replicas)
        self.min_insync_replicas = min(self.min_isr, self.replication_factor)
        if self.log is not None:
            self.take_role()

    cdef int take_role(self) except -1:
        cdef bint is_new = self.assigned.leader_epoch > self.replica.leader_epoch
        if self.leads:
            is_new = is_new or self.replica.role != LEADER
            if is_new:
                self.log.epochs.assign(self.assigned.leader_epoch, self.log.log_end_offset)
            in_sync = self.replica.in_sync if self.replica.in_sync is not None else self.new_in_sync()
            in_sync.min_isr = self.min_isr
            self.take(self.replica.lead(in_sync, self.assigned, coarse_ms(&self.group.clock.source)))
        elif is_new or self.replica.role != FOLLOWER:
            is_new = True
            self.leader_start = -1
            self.verifications = None
            self.take(self.replica.follow(self.assigned.leader_epoch))
        if is_new:
            self.leave_role()
        return self.group.settle_moved([self])

    cdef int leave_role(self) except -1:
        """Answer those that wait for what was asked of this replica in another role, or another leader epoch."""
        cdef list decided
        if self.waiting_appends:
            self.waiting_appends, decided = self.undecided_of(self.waiting_appends)
            self.settle(decided)
        if self.waiting_fetches or self.waiting_followers:
            self.wake(-1)
        return 0

    cdef bint take_fetch(self, int32_t broker_id, int64_t broker_epoch, int64_t offset, int64_t log_start) except *:
        """A follower's fetch acknowledges everything before `offset` (leading.judge). Returns whether the high watermark moved: then
        `settle_moved` has to follow.
        """
        cdef Output progress = self.replica.fetched(broker_id, broker_epoch, offset, log_start,
                                                    coarse_ms(&self.group.clock.source))
        self.take(progress)
        return progress.moved

    def answered(self, proposal, answer):
        """The controller has answered an AlterPartition of this partition (in_sync.Proposal, in_sync.Altered)."""
        self.take(self.replica.answered(proposal, answer))
        self.group.settle_moved([self])

    def tick(self):
        """Have slow followers leave the in-sync set. Called at least twice in replica.lag.time.max.ms."""
        cdef Output progress = self.replica.tick(coarse_ms(&self.group.clock.source))
        self.take(progress)
        if progress.moved:
            self.group.settle_moved([self])

    def spans(self, const uint8_t[::1] records not None):
        """[BatchSpan] of the whole batches that a follower has fetched; the last may be cut. Raises CorruptSegment for anything else."""
        cdef BatchHeader header
        cdef Py_ssize_t at = 0, size = len(records)
        found = []
        while size - at >= BATCH_HEADER_BYTES:
            if parse_header(&records[at], size - at, &header) != 0:
                raise CorruptSegment(f"{self.topic}-{self.index}: the leader sent what is no record batch, at byte {at} of {size}")
            if batch_bytes(&header) > size - at:
                break
            if header.crc != crc32c(0, &records[at] + BATCH_CRC_START, batch_bytes(&header) - BATCH_CRC_START):
                raise CorruptSegment(f"{self.topic}-{self.index}: the leader sent a batch with a wrong checksum, at offset "
                                     f"{header.base_offset}")
            if header.last_offset_delta < 0:
                raise CorruptSegment(f"{self.topic}-{self.index}: the leader sent a batch at offset {header.base_offset} that ends "
                                     f"before it begins")
            found.append(BatchSpan(header.base_offset, header.base_offset + header.last_offset_delta + 1, header.leader_epoch))
            at += batch_bytes(&header)
        return found

    def append_fetched(self, bytes records not None, int32_t count, int64_t now_ms):
        """Stage the first `count` batches of `records`, which `spans` has read, as the leader stamped them. Raises KafkaError if the log
        refuses one; those before it are staged.
        """
        cdef BatchHeader header
        cdef uint8_t* data = <uint8_t*>PyBytes_AS_STRING(records)
        cdef Py_ssize_t at = 0, size
        cdef int32_t _k
        if self.replica.role != FOLLOWER or self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline or f"{self.topic}-{self.index} does not follow")
        for _k in range(count):
            if parse_header(data + at, PyBytes_GET_SIZE(records) - at, &header) != 0:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic}-{self.index}: no batch at byte {at} of the fetched records")
            size = batch_bytes(&header)
            try:
                self.log.stage(&header, data + at, size, records, now_ms)
            except (OSError, StorageError, MemoryError) as error:
                self.group.failed(self, "append", error)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic}-{self.index}: {error}") from error
            self.batches += 1
            self.records += header.count
            self.appended_bytes += size
            self.group.staged_bytes += size
            if self.replica.is_clean():
                self.group.add_dirty(self)
            self.replica.stage(self.log.log_end_offset, size)
            at += size

    def learn(self, int64_t high_watermark, int64_t leader_start):
        """The leader of this follower has committed everything before `high_watermark`, and deleted everything before
        `leader_start` (-1: unknown).
        """
        cdef Output progress
        self.leader_start = max(self.leader_start, leader_start)
        progress = self.replica.learn(high_watermark)
        self.take(progress)
        self.delete_as_leader()
        if progress.moved:
            self.group.settle_moved([self])

    def delete_as_leader(self):
        """Move a follower's log start as far as its leader's, and its high watermark, allow."""
        cdef int64_t start
        if self.replica.role == FOLLOWER and self.leader_start > self.log.log_start_offset:
            start = following.log_start(self.leader_start, self.replica.high.offset)
            if start > self.log.log_start_offset and self.log.staged_batches == 0:
                # The files are removed by the next retention.
                delete_records_before(self.log, start, max(self.log.last_append_ms, 0), 0)

    def was_truncated(self):
        """The log of this follower was truncated, with nothing staged."""
        self.take(self.replica.truncated(self.log.log_end_offset))
        self.verifications = None
        self.wake(-1)

    def was_restarted(self):
        """The log of this follower was replaced by an empty one."""
        self.take(self.replica.restarted(self.log.log_end_offset))
        self.verifications = None
        self.wake(-1)

    cdef int tell_replicas(self) except -1:
        """Wake the followers that wait for what was written or committed, or this follower's own fetches."""
        cdef DelayedFetch waiting
        cdef int64_t bytes = self.replica.written.bytes
        if self.replica.role == FOLLOWER:
            if self.on_written is not None and self.replica.is_clean():
                self.on_written(self)
            return 0
        if self.waiting_followers and (self.told_written != bytes or self.told_high != self.replica.high.offset):
            self.told_written = bytes
            self.told_high = self.replica.high.offset
            for waiting in list(self.waiting_followers):
                waiting.on_advance(self, 0)
        return 0

    cdef int add_follower(self, DelayedFetch waiting) except -1:
        self.told_written = self.replica.written.bytes
        self.told_high = self.replica.high.offset
        self.waiting_followers[waiting] = None
        return 0

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
        self.min_isr = settings["min.insync.replicas"]
        self.min_insync_replicas = min(self.min_isr, self.replication_factor)
        if self.replica.in_sync is not None:
            self.take(self.replica.require(self.min_isr))

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
        if acks == ACKS_ALL and self.replica.under_min:
            return self.refuse(out, NOT_ENOUGH_REPLICAS, self.too_few())
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

    def too_few(self):
        """Why acks=all is refused."""
        return (f"{self.topic}-{self.index} has {len(self.replica.in_sync.isr)} in-sync replicas; min.insync.replicas is "
                f"{self.min_insync_replicas}")

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
        if self.replica.role != LEADER:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {self.topic}-{self.index}")
        if self.replica.under_min:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, self.too_few())
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
        if progress.wants_alter:
            self.group.alter(self)
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
        if self.assigned is not None and self.log is not None:
            self.delete_as_leader()
        if self.waiting_fetches:
            if self.replica.sync_lost:
                self.wake(-1)
            elif more > 0:
                self.wake(more)
        if self.assigned is not None:
            self.tell_replicas()
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
        if written_bytes < 0 and self.waiting_followers:
            for waiting in list(self.waiting_followers):
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
        if self.assigned is not None:
            self.waiting_followers.pop(waiting, None)
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
        if self.waiting_fetches or self.waiting_followers:
            self.wake(-1)
