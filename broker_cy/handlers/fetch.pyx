"""Fetch, versions 4 to 18: sessions (KIP-227), long polling by min_bytes and max_wait_ms, leader epochs (KIP-320, KIP-595).

Answers are pieces: small record sets are read from the page cache into the answer itself, large ones are sent with sendfile. Data
that left the page cache - records, but also the index entries and batch headers that lead to them - is read by a worker thread, and
then the lookup is repeated, so that a cold read stalls no other client. A worker also checks the checksums of a segment that
existed when the broker started, before any of its records is sent for the first time. A fetch that finds less than min_bytes waits
at its partitions and is repeated when enough was written, or answered with the available records after max_wait_ms.

A follower (replica_id >= 0) reads up to the end of the log. The offset that it fetches from acknowledges all records before it
(replica.leading); its fetch waits for the next write. The follower gets a high watermark with the next record, or after max_wait_ms
(KAFKA-9952): an answer for the high watermark alone would double the fetches. A throttled follower (KIP-73) that is not in sync gets
no records, and waits only for max_wait_ms. A waiting fetch is answered when its follower sends another one behind it. The leader
reads only the partitions of the session that have changed since the last check: a follower fetches thousands, and few have news.
From version 11 on, consumers may read from followers up to their high watermarks, and the leader names a follower in their rack if
replica.selector.class says so (KIP-392); then followers learn of each high watermark immediately.

With an authorizer, consumers need READ on each topic for each read, so also within a session. A request with a replica id needs
CLUSTER_ACTION; without it, the fetch has no effect as a follower's (CVE-2018-1288). An unknown topic id is not a secret.
Omissions: snapshots (SnapshotId is the metadata quorum's); custom classes as replica.selector.class.

The file is long because an answer and its lookups, which wait and are repeated, call each other as C functions.
"""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.clock cimport coarse_ms, now_ns
from broker_cy.core.cursor cimport Cursor
from broker_cy.metrics.requests cimport DATA, DISK, RequestMetrics
from broker_cy.replica.flush_group cimport DelayedFetch, FlushedLog
from broker_cy.replica.partition cimport Partition
from broker_cy.replica.replica cimport LEADER
from broker_cy.connections.buffers cimport RecvBuffer
from broker_cy.connections.answers cimport AnswerQueue, Reply, ServerCore
from broker_cy.connections.charging cimport charge_fetch, fetch_bytes_max
from broker_cy.connections.current_leader cimport absent_error, topic_named, topic_with_id
from broker_cy.connections.fetch_answer cimport encode
from broker_cy.connections.fetch_session cimport (
    FetchContext, FetchPartition, FetchSession, SessionCache, refused, requested,
)
from broker_cy.connections.rights cimport READ, Rights, rights_of
from broker_cy.storage.disk cimport confine_reads
from broker_cy.storage.log cimport LogSlice
from broker_cy.storage.segment cimport Segment
from broker_cy.wire.fetch cimport FetchView

from broker_cy.core.errors import ErrorCode
from broker_cy.broker.registry import handler
from broker_cy.storage.errors import ColdRead, OffsetOutOfRange, StorageError
from broker_cy.storage.lookups import aborted_in_slice
from broker_cy.storage.page_cache import warm, warm_path
from broker_cy.storage.recovery import verify_part
from broker_cy.wire.frame import ApiKey

cdef enum:
    FETCH_KEY = 1
    READ_OPERATION = 3              # AclOperation
    # Times that a lookup is repeated after a worker read the missing data; after that, the loop waits for the disk. One or two are
    # usual; data that is missing again and again is evicted as fast as it is read.
    COLD_LOOKUPS_MAX = 16
    FOLLOWER_VERSION = 11           # from here on consumers may fetch from followers (KIP-392)
    AHEAD_FROM_BYTES = 262144       # a client that fetches this much in one request likely fetches the following records, too
    # The least that is checked of a segment that existed at the start, before a fetch of it is answered: it takes some
    # milliseconds, and a consumer that continues does not wait for a worker in each request.
    VERIFY_BYTES = 4194304
    # After so many writes without a fetch of the follower, its session is no longer registered at the written partitions.
    UNHEARD_MAX = 1000
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    # The approximate size of an answer, and of each partition in it, without the records, from version 13 on.
    ANSWER_BYTES = 20
    PARTITION_BYTES = 58

cdef int16_t UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
cdef int16_t UNKNOWN_SERVER_ERROR = ErrorCode.UNKNOWN_SERVER_ERROR
cdef int16_t NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
cdef int16_t INCONSISTENT_TOPIC_ID = ErrorCode.INCONSISTENT_TOPIC_ID
cdef int16_t UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
cdef int16_t KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
cdef int16_t OFFSET_OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
cdef int16_t FENCED_LEADER_EPOCH = ErrorCode.FENCED_LEADER_EPOCH
cdef int16_t UNKNOWN_LEADER_EPOCH = ErrorCode.UNKNOWN_LEADER_EPOCH
cdef int16_t TOPIC_AUTHORIZATION_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

cdef FetchView _view = FetchView()
# The module replica.leading, from the first fetch of a follower on: a node that is alone starts sooner without it.
cdef object leading = None


@cython.final
cdef class FetchReply(Reply):
    """The answer of one Fetch request, and its wait."""
    cdef int16_t version
    cdef FetchContext context
    cdef int32_t max_bytes
    cdef int32_t min_bytes
    cdef int32_t replica_id             # of a follower; -1 from consumers
    cdef int64_t broker_epoch           # of a follower
    cdef str rack                       # of a consumer that is sent to a replica in it; None otherwise
    cdef bint acknowledged              # its acknowledgement was reported: a fetch that is read again does not report it again
    cdef bint asks                      # a fetch that FollowerSilence takes for unanswered
    cdef bint held                      # the throttle of followers that are not in sync is exceeded
    cdef list moved                     # partitions whose high watermark that has moved; None without any
    cdef Rights rights                  # of a consumer; None if none are needed
    cdef bint read_committed
    cdef bint answered
    cdef int32_t max_wait_ms
    cdef int64_t deadline_ms            # of the wait, on coarse_ms
    cdef list cold                      # (path, position, size, ahead) that the last read_all found missing from memory
    cdef list unopened                  # partitions that it found not open yet; None, also if `cold` is set
    cdef int cold_lookups               # how often that happened
    cdef bint from_disk                 # a worker read something for it
    cdef int64_t missing_bytes          # still to be written before min_bytes is reached
    cdef DelayedFetch waiting           # ConsumerWait or StandingWait; None: it does not wait
    cdef object timer

    cdef int cancel(self) except -1:
        self.answered = True
        self.asks_no_more()
        self.leave()
        if self.replica_id >= 0 and self.context is not None and self.context.session is not None:
            # The follower begins another session on another connection.
            self.context.session.leave()
        return 0

    cdef int asks_no_more(self) except -1:
        cdef Py_ssize_t size = 0
        if self.asks:
            self.asks = False
            if self.payload is not None:
                for part in self.payload:
                    size += len(<bytes>part) if type(part) is bytes else (<LogSlice>part).size
            self.connection.server.silence.answered(self.replica_id, coarse_ms(&self.connection.clock.source), size)
        return 0

    cdef int hurry(self) except -1:
        if self.waiting is not None:
            self.try_again()
        return 0

    cdef int leave(self) except -1:
        """End the wait."""
        cdef FetchPartition target
        if self.waiting is None:
            return 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.replica_id >= 0 and self.context.session is not None:
            (<StandingWait>self.waiting).reply = None
        else:
            for target in self.context.targets:
                if target.partition is not None:
                    target.partition.remove_waiting(self.waiting)
        self.waiting = None
        return 0

    cdef int64_t read_all(self) except -1:
        """Read every target within max_bytes. Returns the number of bytes of records, or INT64_MAX to answer immediately."""
        cdef FetchPartition target
        cdef FetchSession session = self.context.session if self.replica_id >= 0 else None
        cdef Py_ssize_t left = self.max_bytes
        cdef int64_t found = 0
        cdef bint at_once = False
        self.cold = None
        self.context.any_unknown = False
        if self.rights is not None:
            self.rights.renew()
        if self.replica_id >= 0 and self.connection.server.leader_throttle is not None:
            self.held = self.connection.server.leader_throttle.is_exceeded(coarse_ms(&self.connection.clock.source))
        if session is not None:
            session.be_asked_by(self.broker_epoch)
        confine_reads(self.cold_lookups < COLD_LOOKUPS_MAX)
        try:
            for target in self.context.targets:
                if session is not None:
                    if target.is_still_quiet():
                        continue
                    session.wake_up(target)
                # KIP-74: the first record set of an answer is whole, however small the limits.
                read_one(self, target, left, found == 0)
                if session is not None and self.cold is None and target.error == 0:
                    target.note_quiet(self.replica_id)
                if target.error or target.diverging_epoch >= 0 or target.preferred_replica >= 0:
                    at_once = True
                elif target.records is not None:
                    found += target.records.size
                    left -= target.records.size
                left = max(0, left)
                if self.replica_id >= 0 and self.context.incremental and not target.held and target.is_urgent(
                        self.connection.server.selects_replicas):
                    at_once = True
        finally:
            confine_reads(False)
        if self.cold is None:
            if session is not None and not self.acknowledged:
                session.fetched_ms = coarse_ms(&self.connection.clock.source)
            self.acknowledged = True
        return 0x7fffffffffffffff if at_once else found

    cdef int settle(self) except -1:
        """Read, and answer or wait: for memory to be filled, or for more to be written."""
        cdef FetchPartition target
        cdef int64_t found = self.read_all()
        cdef list moved
        if self.moved is not None:
            # This wakes others, but not this fetch, which waits nowhere.
            moved, self.moved = self.moved, None
            self.connection.server.settle_moved(moved)
            if self.answered or self.connection.closed:
                return 0
        if self.cold is not None:
            if self.unopened is not None:
                return self.await_opening()
            self.cold_lookups += 1
            return self.in_worker(warm_paths, self.cold, self.looked_up)
        if found >= self.min_bytes or self.max_wait_ms <= 0 or not self.context.targets or self.connection.server.stopping:
            return self.answer()
        self.missing_bytes = self.min_bytes - found
        self.deadline_ms = coarse_ms(&self.connection.clock.source) + self.max_wait_ms
        self.enter(DATA, now_ns(&self.connection.clock.source) if self.mark_ns else 0)
        if self.replica_id >= 0:
            self.stand()
        else:
            self.waiting = ConsumerWait.__new__(ConsumerWait)
            (<ConsumerWait>self.waiting).reply = self
            for target in self.context.targets:
                target.partition.add_waiting(self.waiting)
        self.timer = self.connection.server.loop.call_later(self.max_wait_ms / 1000.0, self.expire)
        return 0

    cdef int stand(self) except -1:
        """A follower waits, at all partitions but those that a throttle holds. In a session it stands there already."""
        cdef FetchPartition target
        cdef FetchSession session = self.context.session
        cdef StandingWait wait = <StandingWait>session.wait if session is not None else None
        if wait is None:
            wait = StandingWait.__new__(StandingWait)
            if session is not None:
                session.wait = wait
        self.waiting = wait
        wait.reply = self
        wait.unheard = 0
        for target in self.context.targets:
            if target.held:
                if target.stands_at is not None:
                    target.stands_at.remove_waiting(wait)
                    target.stands_at = None
            elif target.stands_at is not target.partition or target.wait_generation != wait.generation:
                target.partition.add_follower(wait)
                target.stands_at = target.partition
                target.wait_generation = wait.generation
        return 0

    cdef int in_worker(self, function, list what, then) except -1:
        cdef ServerCore server = self.connection.server
        self.enter(DISK, now_ns(&self.connection.clock.source) if self.mark_ns else 0)
        self.from_disk = True
        server.loop.run_in_executor(server.cold_reader, function, what).add_done_callback(then)
        return 0

    cdef int await_opening(self) except -1:
        """Read again once the partitions are open that are not open yet, however long the client wants to wait for data: as if
        the broker were still starting.
        """
        cdef list partitions = self.unopened
        self.unopened = None
        self.enter(DISK, now_ns(&self.connection.clock.source) if self.mark_ns else 0)
        self.connection.server.broker.openings.when_open(partitions, self.opened)
        return 0

    def opened(self):
        if self.answered or self.connection.closed:
            return
        try:
            self.settle()
        except Exception as error:
            self.connection.broken(error)

    def looked_up(self, future):
        """The worker read the missing data, or failed: then the lookup meets the same error."""
        if future.cancelled() or self.answered or self.connection.closed:
            return
        future.exception()
        try:
            self.settle()
        except Exception as error:
            self.connection.broken(error)

    cdef int answer(self) except -1:
        """Build the answer from the last read, and send it once its records are checked and in memory."""
        cdef list cold, unchecked
        cdef object part
        self.answered = True
        self.leave()
        unchecked = self.unchecked_parts()
        if unchecked:
            return self.in_worker(verify_all, unchecked, self.verified)
        if self.replica_id >= 0:
            if self.connection.server.leader_throttle is not None:
                self.count_throttled(self.connection.server.leader_throttle)
        elif self.connection.account is not None and charge_fetch(self.connection, self, self.answer_bytes()):
            self.give_nothing()
        self.payload = encode(self.connection, self.context, self.correlation_id, self.version, self.throttle_ms)
        cold = [part for part in self.payload if type(part) is not bytes
                and not (<Segment>(<LogSlice>part).segment).in_memory((<LogSlice>part).position, (<LogSlice>part).size)]
        self.count(bool(cold))
        if not cold:
            self.context = None
            self.asks_no_more()
            return self.connection.mark_ready(self)
        return self.in_worker(warm_all, cold, self.warmed)

    cdef Py_ssize_t answer_bytes(self) except -1:
        """The size of the answer of the last read, as quotas count it."""
        cdef FetchPartition target
        cdef Py_ssize_t size = ANSWER_BYTES
        for target in self.context.targets:
            if not self.context.incremental or target.is_news():
                size += PARTITION_BYTES
                if target.records is not None:
                    size += target.records.size
        return size

    cdef int give_nothing(self) except -1:
        """Answer with no partitions, because of a quota. As in Kafka, a session that would begin with this answer does not."""
        if self.context.session is not None and not self.context.incremental:
            (<SessionCache>self.connection.server.fetch_sessions).drop(self.context.session_id)
            self.context.session = None
            self.context.session_id = 0
        self.context.targets = []
        self.context.any_unknown = False
        return 0

    cdef int count_throttled(self, throttle) except -1:
        """Report the bytes that listed replicas copy, in sync or not."""
        cdef FetchPartition target
        cdef int64_t found = 0
        for target in self.context.targets:
            if target.records is not None and throttle.lists(target.partition.topic, target.index):
                found += target.records.size
        if found:
            throttle.record(found, coarse_ms(&self.connection.clock.source))
        return 0

    cdef int count(self, bint cold) except -1:
        """Count a fetch that found records, and whether all came from memory."""
        cdef RequestMetrics metrics = self.connection.server.metrics
        cdef FetchPartition target
        cdef int64_t found = 0
        for target in self.context.targets:
            if target.records is not None:
                found += target.records.size
        if not found:
            return 0
        if cold or self.from_disk:
            metrics.cold_reads += 1
            metrics.cold_bytes += found
        else:
            metrics.hot_reads += 1
            metrics.hot_bytes += found
        return 0

    cdef list unchecked_parts(self):
        """(log, segment, start, stop, end, offset at which the next segment begins) of the parts that were read and not checked since
        the broker started: to be checked from `start` to `stop` at least, and to `end` at most.
        """
        cdef FetchPartition target
        cdef Segment segment
        cdef int64_t position
        cdef list found = []
        for target in self.context.targets:
            if target.records is None or not (<Segment>target.records.segment).unverified_bytes:
                continue
            segment = <Segment>target.records.segment
            position = target.records.position
            part = segment.unverified_part(position, position + target.records.size)
            if part is not None:
                start, end = part
                stop = max(position + target.records.size, start + VERIFY_BYTES)
                found.append((target.partition.log, segment, start, stop, end, target.partition.log.end_of(segment)))
        return found

    def verified(self, future):
        """The worker checked segments: those that are sound are never checked again, the others' logs are offline."""
        if future.cancelled() or self.connection.closed:
            return
        try:
            for log, segment, start, end, damage in future.result():
                segment.mark_verified(start, end)
                if damage is not None and not segment.deleted:
                    log.mark_offline(str(damage))
            self.read_again()
        except Exception as error:
            self.connection.broken(error)

    def warmed(self, future):
        """The worker read the cold slices, or failed: then sendfile meets the same error and closes this connection."""
        if not future.cancelled():
            future.exception()
        self.context = None
        if not self.connection.closed:
            try:
                self.asks_no_more()
                self.connection.mark_ready(self)
            except Exception as error:
                self.connection.broken(error)

    def expire(self):
        """max_wait_ms is over: answer with the available records."""
        self.timer = None
        self.try_again()

    cdef int read_again(self) except -1:
        """Read once more and answer with the available records."""
        self.leave()
        self.answered = False
        self.max_wait_ms = 0
        return self.settle()

    cdef int look_again(self) except -1:
        """Transactions ended: answer if that is enough, or wait on."""
        if self.answered or self.connection.closed:
            return 0
        self.leave()
        self.max_wait_ms = <int32_t>max(0, self.deadline_ms - coarse_ms(&self.connection.clock.source))
        try:
            self.settle()
        except Exception as error:
            self.connection.broken(error)
        return 0

    cdef int try_again(self) except -1:
        if self.answered or self.connection.closed:
            return 0
        try:
            self.read_again()
        except Exception as error:
            self.connection.broken(error)
        return 0


def warm_all(list slices):
    """In a worker thread."""
    for part in slices:
        warm(part.fd, part.position, part.size, True)


def warm_paths(list parts):
    """In a worker thread."""
    for part in parts:
        warm_path(*part)


def verify_all(list parts):
    """In a worker thread: [(log, segment, start, end of the valid part, error or None)]."""
    found = []
    for log, segment, start, stop, end, limit in parts:
        try:
            sound, damage = verify_part(segment.path, segment.base_offset, start, stop, end, limit)
        except FileNotFoundError as error:
            # Deleted or replaced meanwhile: then it is no longer read, which `verified` checks.
            sound, damage = start, error
        found.append((log, segment, start, sound, damage))
    return found


@cython.final
cdef class StandingWait(DelayedFetch):
    """Is registered at every partition of a follower's session; without one, of its fetch."""
    cdef FetchReply reply               # which waits; None: the follower has not fetched since the last answer
    cdef int unheard                    # writes since then
    cdef int64_t generation             # counts how often it was removed because the follower did not fetch

    cdef int on_advance(self, FlushedLog partition, Py_ssize_t written_bytes) except -1:
        if self.reply is not None:
            return self.reply.try_again()
        self.unheard += 1
        if self.unheard > UNHEARD_MAX:
            # The session seems unused. If a fetch still comes, the next wait is registered at all partitions again.
            partition.remove_waiting(self)
            self.generation += 1
        return 0


@cython.final
cdef class ConsumerWait(DelayedFetch):
    """Is registered at every partition of a consumer's waiting fetch."""
    cdef FetchReply reply

    cdef int on_advance(self, FlushedLog partition, Py_ssize_t written_bytes) except -1:
        if self.reply.read_committed and partition.undecided and written_bytes >= 0:
            # The bytes written and the bytes that may be read now differ.
            return self.reply.look_again() if partition.stable_moved else 0
        self.reply.missing_bytes -= written_bytes
        if self.reply.missing_bytes <= 0 or written_bytes < 0:
            return self.reply.try_again()
        return 0


cdef int read_one(FetchReply reply, FetchPartition target, Py_ssize_t left, bint at_least_one) except -1:
    """Read one partition, or its error, into `target`."""
    cdef Partition partition
    cdef int64_t bound
    cdef Py_ssize_t limit = min(left, target.max_bytes)
    target.unknown = target.held = False
    target.error = 0
    target.records = None
    target.aborted = None
    target.diverging_epoch = target.preferred_replica = -1
    target.high_watermark = target.last_stable_offset = target.log_start_offset = -1
    if reply.rights is not None and is_denied(reply, target):
        return deny(reply.context, target)
    if target.partition is None or target.partition.closed:
        look_up(reply, target)
        if target.partition is None:
            return 0
    partition = target.partition
    if partition.log is None or partition.log.offline is not None:
        if partition.unopened:
            return wait_for_opening(reply, partition)
        target.error = KAFKA_STORAGE_ERROR
        return 0
    if target.current_leader_epoch >= 0 and target.current_leader_epoch != partition.replica.leader_epoch:
        target.error = (FENCED_LEADER_EPOCH if target.current_leader_epoch < partition.replica.leader_epoch
                        else UNKNOWN_LEADER_EPOCH)
        return 0
    if reply.replica_id >= 0:
        if not judge_follower(reply, target):
            return 0
    elif reply.version < FOLLOWER_VERSION and partition.replica.role != LEADER:
        target.error = NOT_LEADER_OR_FOLLOWER
        return 0
    elif target.last_fetched_epoch >= 0:
        epoch, end_offset = partition.log.end_offset_for_epoch(target.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            target.error = OFFSET_OUT_OF_RANGE
            return 0
        if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
            target.diverging_epoch = epoch
            target.diverging_end_offset = end_offset
    if reply.rack is not None and partition.replica.in_sync is not None:
        target.preferred_replica = partition.replica.in_sync.nearest(reply.rack, target.fetch_offset)
        if target.preferred_replica == partition.replica.in_sync.broker_id:
            target.preferred_replica = -1
    bound = partition.log.written_end_offset if reply.replica_id >= 0 else partition.fetch_bound(reply.read_committed)
    if reply.held and target.diverging_epoch < 0:
        target.held = (reply.replica_id not in partition.replica.in_sync.isr
                       and reply.connection.server.leader_throttle.lists(partition.topic, partition.index))
    if target.diverging_epoch < 0 and target.preferred_replica < 0 and not target.held:
        try:
            target.records = partition.log.read(target.fetch_offset, bound, max(limit, 0), at_least_one or limit < 0)
            if limit < 0 and target.records is not None:
                # Kafka fails on a negative limit as soon as a record is available.
                target.records = None
                target.error = UNKNOWN_SERVER_ERROR
                return 0
        except ColdRead as missing:
            return wait_for_disk(reply, target, missing, limit)
        except OffsetOutOfRange:
            target.error = OFFSET_OUT_OF_RANGE
            return 0
        except (OSError, StorageError) as error:
            partition.read_failed(error)
            target.error = KAFKA_STORAGE_ERROR
            return 0
    target.high_watermark = partition.replica.high.offset
    target.last_stable_offset = partition.fetch_bound(True)
    target.log_start_offset = partition.log.log_start_offset
    if reply.read_committed and target.diverging_epoch < 0 and target.preferred_replica < 0:
        try:
            target.aborted = ([] if target.records is None
                              else aborted_in_slice(partition.log, target.records, target.fetch_offset, bound))
        except ColdRead as missing:
            return wait_for_disk(reply, target, missing, 0)
        except StorageError as error:
            # Without them aborted records would be taken for committed ones.
            partition.read_failed(error)
            target.records = None
            target.error = KAFKA_STORAGE_ERROR
    return 0


cdef bint is_denied(FetchReply reply, FetchPartition target) except *:
    """Whether the consumer may not read the topic."""
    cdef bint by_id = reply.version >= 13
    cdef int mask = reply.rights.of_topic_id(target.topic, READ) if by_id else reply.rights.of_topic(target.topic, READ)
    # -1: the topic does not exist, so the usual error answers it.
    if mask & READ or mask < 0:
        return False
    reply.rights.refused(FETCH_KEY, READ_OPERATION, target.topic, by_id)
    return True


cdef int deny(FetchContext context, FetchPartition target) except -1:
    target.error = TOPIC_AUTHORIZATION_FAILED
    target.aborted = []
    # Kafka answers these behind all others, too.
    target.unknown = context.any_unknown = True
    return 0


cdef int deny_all(FetchReply reply) except -1:
    """A client without the rights of a broker has given a replica id: it gets errors, and nothing is noted of its fetch."""
    cdef FetchPartition target
    for target in reply.context.targets:
        target.held = False
        target.records = None
        target.diverging_epoch = target.preferred_replica = -1
        target.high_watermark = target.last_stable_offset = target.log_start_offset = -1
        deny(reply.context, target)
    return reply.answer()


cdef int import_leading() except -1:
    global leading
    from broker_cy.replica import leading as module
    leading = module
    return 0


cdef bint judge_follower(FetchReply reply, FetchPartition target) except *:
    """Judge a follower's fetch of one partition, and report its acknowledgement. Returns whether to read.

    A fetch that is read again is not judged again in the same leader epoch: a leader's log does not come to diverge, and `read`
    finds an offset that was deleted meanwhile.
    """
    cdef Partition partition = target.partition
    if reply.acknowledged and target.judged_epoch == partition.replica.leader_epoch and partition.replica.role == LEADER:
        return True
    target.judged_epoch = -1
    verdict = leading.judge(partition.replica, partition.log, leading.FollowerFetch(
        reply.replica_id, reply.broker_epoch, target.current_leader_epoch, target.fetch_offset, target.last_fetched_epoch,
        target.follower_start))
    if verdict.error:
        target.error = verdict.error
        return False
    if verdict.diverging is not None:
        target.diverging_epoch, target.diverging_end_offset = verdict.diverging
        return True
    if not reply.acknowledged and partition.take_fetch(
            reply.replica_id, reply.broker_epoch, target.fetch_offset, target.follower_start):
        if reply.moved is None:
            reply.moved = []
        reply.moved.append(partition)
    target.judged_epoch = partition.replica.leader_epoch
    return True


cdef int wait_for_opening(FetchReply reply, Partition partition) except -1:
    if reply.cold is None:
        reply.cold = []
    if reply.unopened is None:
        reply.unopened = []
    reply.unopened.append(partition)
    return 0


cdef int wait_for_disk(FetchReply reply, FetchPartition target, object missing, int64_t wanted) except -1:
    """Have a worker read the data that a lookup needs, together with the likely following records. `wanted` is the number of bytes
    that the client asked for.
    """
    target.records = None
    if reply.cold is None:
        reply.cold = []
    reply.cold.append((missing.path, missing.position, max(<int64_t>missing.size, wanted), wanted >= AHEAD_FROM_BYTES))
    return 0


cdef int look_up(FetchReply reply, FetchPartition target) except -1:
    cdef ServerCore server = reply.connection.server
    cdef list places = (server.topics_by_id if reply.version >= 13 else server.topics_by_name).get(target.topic)
    target.partition = None
    if places is not None and 0 <= target.index < len(places):
        target.partition = <Partition>places[target.index]
    if target.partition is not None:
        if reply.version >= 13:
            target.known_name = target.partition.topic
        return 0
    if places is None and target.known_name is not None and target.known_name.encode() in server.topics_by_name:
        # The session's topic was deleted, and another topic has its name.
        target.error = INCONSISTENT_TOPIC_ID
        return 0
    topic = topic_with_id(server, target.topic) if reply.version >= 13 else topic_named(server, target.topic)
    if topic is not None and absent_error(topic, target.index) == NOT_LEADER_OR_FOLLOWER:
        target.error = NOT_LEADER_OR_FOLLOWER
        return 0
    target.error = (UNKNOWN_TOPIC_ID if places is None and topic is None and reply.version >= 13 and target.known_name is None
                    else UNKNOWN_TOPIC_OR_PARTITION)
    target.unknown = reply.context.any_unknown = True
    target.aborted = []
    return 0


# ---- the request ----

cdef bint hurry_followers(AnswerQueue connection) except *:
    """Answer the waiting fetch of a follower on this connection: it has sent a fetch behind it, for a partition that is not among
    those. Returns whether a worker still answers a fetch.
    """
    cdef bint is_busy = False
    cdef Reply reply = connection.head, following
    while reply is not None:
        following = reply.next
        if type(reply) is FetchReply:
            if (<FetchReply>reply).replica_id >= 0:
                reply.hurry()
            is_busy = is_busy or (<FetchReply>reply).context is not None
        reply = following
    return is_busy


cdef int handle_fetch(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                      RecvBuffer owner) except -1:
    cdef ServerCore server = connection.server
    cdef FetchReply reply = FetchReply.__new__(FetchReply)
    cdef bint is_busy = connection.head is not None and hurry_followers(connection)
    _view.parse(Cursor.over(p, n, owner), version)
    reply.correlation_id = correlation_id
    reply.version = version
    reply.replica_id = _view.replica_id
    reply.broker_epoch = _view.replica_epoch
    if _view.rack_id and server.selects_replicas and reply.replica_id < 0:
        reply.rack = _view.rack_id.decode(errors="replace")
    if _view.isolation_level != READ_UNCOMMITTED and _view.isolation_level != READ_COMMITTED:
        # Kafka's handler fails on it.
        reply.context = refused(_view, UNKNOWN_SERVER_ERROR)
        connection.add_reply(reply)
        return reply.answer()
    reply.read_committed = _view.isolation_level == READ_COMMITTED
    reply.max_bytes = min(_view.max_bytes, server.fetch_bytes_max)
    if connection.account is not None and reply.replica_id < 0:
        reply.max_bytes = fetch_bytes_max(connection, reply.max_bytes)
    reply.min_bytes = min(_view.min_bytes, reply.max_bytes)
    reply.max_wait_ms = _view.max_wait_ms
    if server.authorization is not None:
        reply.rights = rights_of(connection)
        if reply.replica_id >= 0:
            if not reply.rights.may_act_for_cluster():
                return refuse_follower(connection, reply)
            reply.rights = None
    reply.context = (<SessionCache>server.fetch_sessions).context(_view, coarse_ms(&connection.clock.source), is_busy)
    reply.context.from_replica = reply.replica_id >= 0
    if reply.context.from_replica and leading is None:
        import_leading()
    if reply.context.targets is None:
        reply.context.targets = []
    if reply.context.from_replica and server.silence is not None:
        reply.asks = True
        server.silence.fetched(reply.replica_id, coarse_ms(&connection.clock.source))
    connection.add_reply(reply)
    return reply.settle()


cdef int refuse_follower(AnswerQueue connection, FetchReply reply) except -1:
    """Answer a fetch with a replica id of a client without the rights of a broker, which gets no session either."""
    reply.replica_id = -1
    reply.context = FetchContext.__new__(FetchContext)
    reply.context.targets = list(requested(_view).values())
    connection.add_reply(reply)
    return deny_all(reply)


def install(ServerCore server, int slots, int64_t eviction_ms, randomness, *, bint selects_replicas=False):
    """Let `server` answer Fetch here; sessions are bounded by `slots`, and `randomness` draws their ids. With `selects_replicas`
    consumers are sent to the nearest replica (KIP-392).
    """
    server.selects_replicas = selects_replicas
    server.fetch_sessions = SessionCache(slots, eviction_ms, lambda: randomness.integer(1, 0x7fffffff))
    server.set_hot(FETCH_KEY, handle_fetch)


@handler(ApiKey.FETCH, versions=(4, 18), requires="READ on each topic; CLUSTER_ACTION on the cluster for followers")
def fetch(ctx, request):
    """Registered for its versions; `install` puts `handle_fetch` in its place."""
    raise RuntimeError("Fetch is answered by handle_fetch")
