"""See partition.pxd.

The Replica (replica.pxd) decides which records may be read and acknowledged; every write, sync and change of the role is reported
to it. Appends change the log only through `stage` and follower_log, so that offsets, counters and the replica agree. The file is
one extension class, because handlers, coordinators and the follower share one object; what is a function of it is elsewhere.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EIO

from broker_cy.core.clock cimport coarse_ms
from broker_cy.replica.replica cimport CLOSED, COMMITTED, FOLLOWER, LEADER, OFFLINE, Output, Replica
from broker_cy.replica.verification cimport batch_problem, judge, marker_problem
from broker_cy.storage.producer_state cimport PRODUCER_INVALID_EPOCH, PRODUCER_OK, Producer
from broker_cy.wire.batch cimport ATTRIBUTE_TRANSACTIONAL, parse_header, stamp_offset_epoch
from broker_cy.wire.marker cimport marker_batch

import logging
import os

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.storage.errors import StorageError, errno_of
from broker_cy.storage.log_deletion import delete_records_before

logger = logging.getLogger(__name__)

cdef int16_t KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
cdef int16_t CORRUPT_MESSAGE = ErrorCode.CORRUPT_MESSAGE
cdef int16_t MESSAGE_TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
cdef enum:
    NO_EPOCH = -1

# The module replica.following, from the first partition with several replicas on: a node that is alone starts sooner without it.
cdef object following = None

# compression.type, as ValidationRules.target_codec
CODECS = {"producer": -1, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
# The offline reason of an unopened partition, for callers that do not wait for it to open.
NOT_OPEN = "its log is not open yet"
LEVELS = {"gzip": "compression.gzip.level", "lz4": "compression.lz4.level", "zstd": "compression.zstd.level"}


cdef int import_following() except -1:
    global following
    from broker_cy.replica import following as module
    following = module
    return 0


cdef int begin_epoch(Partition partition) except -1:
    """Begin the assigned leader epoch at the end of the log. The batches of a mirror have the epochs of its source: an epoch of this
    cluster that has no batch would be unknown there.
    """
    if not partition.mirrors:
        partition.log.epochs.assign(partition.assigned.leader_epoch, partition.log.log_end_offset)
        return 0
    from broker_cy.storage.log_truncation import truncate_to
    try:
        truncate_to(partition.log, partition.log.log_end_offset, 0)
    except OSError as error:
        partition.group.failed(partition, "append", error)
    return 0


cdef class Partition(FlushedPartition):
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
        self.protected = self.is_own = protected
        self.replica = Replica(leader_epoch)
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

    def mirror(self, bint mirrors, bint has_mirrored):
        """Whether the leader copies a partition of another cluster from now on, and whether it has done so before. `assign` follows,
        and nothing may be staged.
        """
        self.mirrors = mirrors
        self.has_mirrored = mirrors or has_mirrored
        self.protected = self.is_own or mirrors

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
        if following is None:
            import_following()
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
                begin_epoch(self)
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
        else:
            self.settle_deletes()
        return self.group.settle_moved([self])

    cdef int leave_role(self) except -1:
        """Answer requests that this replica got in another role, or in another leader epoch."""
        cdef list decided
        if self.waiting_appends:
            self.waiting_appends, decided = self.undecided_of(self.waiting_appends)
            self.settle(decided)
        if self.waiting_fetches or self.waiting_followers:
            self.wake(-1)
        return self.settle_deletes()

    cdef bint take_fetch(self, int32_t broker_id, int64_t broker_epoch, int64_t offset, int64_t log_start) except *:
        """A follower's fetch acknowledges everything before `offset` (leading.judge). Returns whether the high watermark moved: then
        `settle_moved` has to follow.
        """
        cdef Output progress = self.replica.fetched(broker_id, broker_epoch, offset, log_start,
                                                    coarse_ms(&self.group.clock.source))
        self.take(progress)
        if self.waiting_deletes is not None:
            self.settle_deletes()
        return progress.moved

    cdef bint is_member(self, int32_t broker_id) except *:
        """Whether a follower is in the in-sync set that is committed, and no other one is proposed."""
        in_sync = self.replica.in_sync
        return in_sync is not None and in_sync.proposal is None and broker_id in in_sync.isr

    cdef int kept_up(self, int32_t broker_id, int64_t until_ms) except -1:
        """See InSync.kept_up."""
        if self.replica.in_sync is not None:
            self.replica.in_sync.kept_up(broker_id, until_ms)
        return 0

    def answered(self, proposal, answer):
        """The controller has answered an AlterPartition of this partition (in_sync.Proposal, in_sync.Altered)."""
        self.take(self.replica.answered(proposal, answer))
        self.group.settle_moved([self])
        self.settle_deletes()

    def tick(self):
        """Have slow followers leave the in-sync set. Called at least twice in replica.lag.time.max.ms."""
        cdef Output progress = self.replica.tick(coarse_ms(&self.group.clock.source))
        self.take(progress)
        if progress.moved:
            self.group.settle_moved([self])

    # ---- DeleteRecords of a leader ----

    def low_watermark(self):
        """Everything before it is deleted on all replicas (InSync.low_watermark). Only a leader knows it."""
        if self.replica.in_sync is None:
            return self.log.log_start_offset
        return self.replica.in_sync.low_watermark(self.log.log_start_offset)

    def until_deleted(self, int64_t offset):
        """A future that is done once the low watermark has reached `offset`, or this broker no longer leads. One that is cancelled is
        forgotten with the next `settle_deletes`.
        """
        if self.waiting_deletes is None:
            self.waiting_deletes = []
        future = self.group.loop.create_future()
        self.waiting_deletes.append((offset, future))
        self.settle_deletes()
        return future

    cpdef int settle_deletes(self) except -1:
        """A replica may have deleted more, or may not be waited for any longer."""
        cdef list left
        if self.waiting_deletes is None:
            return 0
        leads = self.replica.role == LEADER and self.offline is None
        low = self.low_watermark() if leads else None
        left = []
        for entry in self.waiting_deletes:
            offset, future = entry
            if future.done():
                continue
            if leads and low < offset:
                left.append(entry)
            else:
                future.set_result(None)
        self.waiting_deletes = left or None
        return 0

    def tell_log_start(self):
        """The log start offset of a leader has moved: answer followers that wait for records immediately."""
        if self.waiting_followers:
            self.wake_followers()

    cdef int follow_log_start(self) except -1:
        """Move a follower's log start as far as its leader's, and its high watermark, allow."""
        cdef int64_t start
        if self.log is not None and self.replica.role == FOLLOWER and self.leader_start > self.log.log_start_offset:
            start = following.log_start(self.leader_start, self.replica.high.offset)
            if start > self.log.log_start_offset and self.log.staged_batches == 0:
                # The files are removed by the next retention.
                try:
                    delete_records_before(self.log, start, max(self.log.last_append_ms, 0), 0)
                except OSError as error:
                    # The log starts there now, and the deleted records stay in its last segment.
                    logger.warning("could not replace the last segment of a follower by an empty one",
                                   extra=facts(path=self.log.directory, reason=error))
        return 0

    def configure(self, settings):
        """Apply the topic's settings: a mapping of Kafka's topic setting names to typed values."""
        self.rules.timestamp_type = LOG_APPEND_TIME if settings["message.timestamp.type"] == "LogAppendTime" else CREATE_TIME
        codec = settings["compression.type"]
        self.rules.target_codec = CODECS[codec]
        if self.rules.target_codec > 0:
            self.group.recodes = True
        self.checks_apart = self.rules.target_codec > 0 or self.record_schemas is not None
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

    def check_schemas(self, schemas):
        """Check the schemas that records of clients name, or with None no longer."""
        self.record_schemas = schemas
        if schemas is not None:
            self.group.recodes = self.group.checks_schemas = True
        self.checks_apart = self.rules.target_codec > 0 or schemas is not None

    # ---- append ----

    def too_few(self):
        """Why acks=all is refused."""
        return (f"{self.topic}-{self.index} has {len(self.replica.in_sync.isr)} in-sync replicas; min.insync.replicas is "
                f"{self.min_insync_replicas}")

    cdef object start_verification(self, int64_t producer_id, int16_t epoch, int32_t sequence, bint adds):
        """Call Verifications.start. Returns its result, or an ErrorCode if the partition is offline or led elsewhere."""
        if self.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.replica.role != LEADER:
            # A sequence that is noted here would be the lowest one that is accepted when this broker leads.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.verifications is None:
            self.verifications = Verifications.__new__(Verifications)
        return self.verifications.start(self.log.producers, producer_id, epoch, sequence, adds)

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
        self.note_staged(size)
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
        self.append_internal(batch, now_ms).done = done

    def call_when_committed(self, int64_t end_offset, done):
        """Call `done(None)` once all records before `end_offset`, which are in the log, are committed, or `done(KafkaError)` once
        this broker can no longer find that out. An exception that it raises is only logged.
        """
        cdef InternalAppend append = InternalAppend.__new__(InternalAppend)
        append.base_offset = end_offset - 1
        append.done = done
        self.wait_internal(append, COMMITTED)

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
        UNSUPPORTED_FOR_MESSAGE_FORMAT for a mirror, KAFKA_STORAGE_ERROR, which the future also gets if the write fails.
        """
        cdef int status
        if self.mirrors:
            # It refuses records, so no transaction of this cluster waits for it: the error with which Kafka's coordinators drop a
            # partition whose records must have been refused.
            raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"{self.topic}-{self.index} is a mirror")
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
        """Call append_internal. Returns a future of the base offset."""
        cdef InternalAppend append = self.append_internal(batch, now_ms)
        append.future = self.group.loop.create_future()
        return append.future

    cdef InternalAppend append_internal(self, bytes batch, int64_t now_ms):
        """Call stage_own, and wait until the batch is committed."""
        cdef InternalAppend append = InternalAppend.__new__(InternalAppend)
        append.base_offset = self.stage_own(batch, now_ms)
        self.wait_internal(append, COMMITTED)
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
        no verification is needed. Raises KafkaError: INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER.
        """
        if not adds and not self.group.verifies:
            return None
        found = self.start_verification(producer_id, epoch, 0, adds)
        if isinstance(found, ErrorCode):
            if self.offline is not None:
                raise KafkaError(found, self.offline)
            if found is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(found, f"this broker does not lead {self.topic}-{self.index}")
            raise KafkaError(found, f"{self.topic}-{self.index}: producer {producer_id} with epoch {epoch} was fenced; a newer epoch "
                                    "has written here")
        return found

    # ---- read ----

    def check_leader_epoch(self, int32_t epoch):
        """None if a client's leader epoch is ours or missing (-1), else the error, which shows the side that is behind."""
        if epoch == NO_EPOCH or epoch == self.replica.leader_epoch:
            return None
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.replica.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

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

    def lose_disk(self):
        """The disk of its log has failed: answer all requests that wait for it."""
        self.take(self.replica.lose(EIO))
        self.group.settle_moved([self])

    def close(self):
        """Close the partition of a deleted topic, or one that was moved to other brokers: further appends are refused, and requests
        that wait for records are answered.
        """
        self.closed = True
        self.unopened = False
        self.replica.become(CLOSED, self.replica.leader_epoch)
        self.leave_role()
        if self.waiting_answers:
            self.group.settle_moved([self])
