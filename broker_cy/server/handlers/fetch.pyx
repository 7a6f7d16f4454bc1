"""Fetch, versions 4 to 18: sessions (KIP-227), long polling by min_bytes and max_wait_ms, leader epochs (KIP-320, KIP-595).

Answers are pieces: small record sets are read from the page cache into the answer itself, large ones go out by sendfile. What
left the page cache is read ahead by a worker thread first, so that a cold read stalls nobody else; and a segment that was
there when the broker started has its checksums looked at, also by a worker, before anything of it is sent for the first time.
A fetch that finds less than min_bytes waits at its partitions and is tried again when enough was written, or answered with
what there is after max_wait_ms.
Omissions: fetching by followers and other replicas (replica_id >= 0 is answered as a consumer is, as far as the high
watermark); rack-aware replica selection (one replica); snapshots (SnapshotId is the metadata quorum's).
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer
from broker_cy.replica.partition cimport DelayedFetch, Partition
from broker_cy.server.buffers cimport RecvBuffer
from broker_cy.server.answers cimport AnswerQueue, Reply, ServerCore, coarse_ms
from broker_cy.server.fetch_session cimport FetchContext, FetchPartition, FetchSession, SessionCache
from broker_cy.storage.log cimport LogSlice
from broker_cy.storage.page_cache cimport is_cached, read_cached
from broker_cy.storage.segment cimport Segment
from broker_cy.wire.fetch cimport FetchView

import random

from broker_cy.core.errors import ErrorCode
from broker_cy.server.registry import handler
from broker_cy.storage.errors import OffsetOutOfRange, StorageError
from broker_cy.storage.page_cache import warm
from broker_cy.storage.recovery import verify_file
from broker_cy.wire.frame import ApiKey

cdef enum:
    FETCH_KEY = 1
    INLINE_BYTES_MAX = 32768        # a record set of up to this is copied into the answer: one writev for all
    INLINE_TOTAL_MAX = 262144       # ... and at most this much per answer, the rest goes by sendfile
    READ_COMMITTED = 1

cdef int16_t UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
cdef int16_t UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
cdef int16_t KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
cdef int16_t OFFSET_OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
cdef int16_t FENCED_LEADER_EPOCH = ErrorCode.FENCED_LEADER_EPOCH
cdef int16_t UNKNOWN_LEADER_EPOCH = ErrorCode.UNKNOWN_LEADER_EPOCH

cdef FetchView _view = FetchView()
cdef Writer _writer = Writer()


@cython.final
cdef class FetchReply(Reply):
    """The answer of one Fetch request, and what it waits for meanwhile."""
    cdef int16_t version
    cdef FetchContext context
    cdef int32_t max_bytes
    cdef int32_t min_bytes
    cdef bint read_committed
    cdef bint answered
    cdef int64_t missing_bytes          # still to be written before min_bytes is reached
    cdef FetchWait waiting
    cdef object timer

    cdef int cancel(self) except -1:
        self.answered = True
        return self.leave()

    cdef int hurry(self) except -1:
        if self.waiting is not None:
            self.try_again()
        return 0

    cdef int leave(self) except -1:
        """Wait no more."""
        cdef FetchPartition target
        if self.waiting is None:
            return 0
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for target in self.context.targets:
            if target.partition is not None:
                target.partition.remove_waiting(self.waiting)
        self.waiting = None
        return 0

    cdef int64_t read_all(self) except -1:
        """Read every target within max_bytes; how many bytes of records were found, or INT64_MAX to answer at once."""
        cdef FetchPartition target
        cdef Py_ssize_t left = self.max_bytes
        cdef int64_t found = 0
        cdef bint at_once = False
        for target in self.context.targets:
            # KIP-74: the first record set of an answer is whole, however small the limits.
            read_one(self, target, left, found == 0)
            if target.error or target.diverging_epoch >= 0:
                at_once = True
            elif target.records is not None:
                found += target.records.size
                left = max(0, left - target.records.size)
        return 0x7fffffffffffffff if at_once else found

    cdef int answer(self) except -1:
        """Build the answer of what was read last, and send it once its records are checked and in memory."""
        cdef list cold, unchecked
        cdef object part
        self.answered = True
        self.leave()
        unchecked = self.unchecked_segments()
        if unchecked:
            future = self.connection.server.loop.run_in_executor(self.connection.server.cold_reader, verify_all, unchecked)
            future.add_done_callback(self.verified)
            return 0
        self.payload = encode(self)
        cold = [part for part in self.payload if type(part) is not bytes
                and not is_cached((<LogSlice>part).fd, (<LogSlice>part).position, (<LogSlice>part).size)]
        if not cold:
            self.context = None
            return self.connection.mark_ready(self)
        future = self.connection.server.loop.run_in_executor(self.connection.server.cold_reader, warm_all, cold)
        future.add_done_callback(self.warmed)
        return 0

    cdef list unchecked_segments(self):
        """(log, segment) of what was read and nobody has checked since the broker started."""
        cdef FetchPartition target
        cdef list found = []
        for target in self.context.targets:
            if target.records is not None and (<Segment>target.records.segment).unverified_bytes:
                found.append((target.partition.log, target.records.segment))
        return found

    def verified(self, future):
        """The worker checked segments: those that are sound are never checked again, the others' logs are offline."""
        if future.cancelled() or self.connection.closed:
            return
        try:
            for log, segment, damage in future.result():
                if damage is None:
                    segment.mark_verified()
                else:
                    log.mark_offline(str(damage))
            self.read_all()
            self.answer()
        except Exception as error:
            self.connection.broken(error)

    def warmed(self, future):
        """The worker read the cold slices, or failed: then sendfile meets the same error and closes this connection."""
        if not future.cancelled():
            future.exception()
        self.context = None
        if not self.connection.closed:
            try:
                self.connection.mark_ready(self)
            except Exception as error:
                self.connection.broken(error)

    def expire(self):
        """max_wait_ms is over: answer with what there is."""
        self.timer = None
        self.try_again()

    cdef int try_again(self) except -1:
        if self.answered or self.connection.closed:
            return 0
        try:
            self.read_all()
            self.answer()
        except Exception as error:
            self.connection.broken(error)
        return 0


def warm_all(list slices):
    """In a worker thread."""
    for part in slices:
        warm(part.fd, part.position, part.size)


def verify_all(list pairs):
    """In a worker thread: [(log, segment, None or what is wrong)]. Another fetch may have had a segment checked meanwhile."""
    return [(log, segment, verify_file(segment.path, segment.base_offset, segment.unverified_bytes))
            for log, segment in pairs]


@cython.final
cdef class FetchWait(DelayedFetch):
    """Stands at every partition of a waiting fetch."""
    cdef FetchReply reply

    cdef int on_advance(self, Partition partition, Py_ssize_t written_bytes) except -1:
        self.reply.missing_bytes -= written_bytes
        if self.reply.missing_bytes <= 0 or written_bytes < 0:
            return self.reply.try_again()
        return 0


cdef int read_one(FetchReply reply, FetchPartition target, Py_ssize_t left, bint at_least_one) except -1:
    """Read one partition into `target`, its error where there is one."""
    cdef Partition partition
    cdef int64_t bound
    target.error = 0
    target.records = None
    target.aborted = None
    target.diverging_epoch = -1
    target.high_watermark = target.last_stable_offset = target.log_start_offset = -1
    if target.partition is None or target.partition.closed:
        look_up(reply, target)
        if target.partition is None:
            return 0
    partition = target.partition
    if target.current_leader_epoch >= 0 and target.current_leader_epoch != partition.leader_epoch:
        target.error = (FENCED_LEADER_EPOCH if target.current_leader_epoch < partition.leader_epoch
                        else UNKNOWN_LEADER_EPOCH)
        return 0
    if partition.log is None or partition.log.offline is not None:
        target.error = KAFKA_STORAGE_ERROR
        return 0
    if target.last_fetched_epoch >= 0:
        epoch, end_offset = partition.log.end_offset_for_epoch(target.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            target.error = OFFSET_OUT_OF_RANGE
            return 0
        if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
            target.diverging_epoch = epoch
            target.diverging_end_offset = end_offset
    bound = partition.fetch_bound(reply.read_committed)
    if target.diverging_epoch < 0:
        try:
            target.records = partition.log.read(target.fetch_offset, bound, min(left, target.max_bytes), at_least_one)
        except OffsetOutOfRange:
            target.error = OFFSET_OUT_OF_RANGE
            return 0
        except (OSError, StorageError) as error:
            partition.read_failed(error)
            target.error = KAFKA_STORAGE_ERROR
            return 0
    target.high_watermark = partition.high_watermark
    target.last_stable_offset = partition.fetch_bound(True)
    target.log_start_offset = partition.log.log_start_offset
    if reply.read_committed and target.records is not None:
        try:
            target.aborted = partition.log.aborted_transactions(target.fetch_offset, bound)
        except StorageError as error:
            # Without them aborted records would be taken for committed ones.
            partition.read_failed(error)
            target.records = None
            target.error = KAFKA_STORAGE_ERROR
    return 0


cdef int look_up(FetchReply reply, FetchPartition target) except -1:
    cdef ServerCore server = reply.connection.server
    cdef list places = (server.topics_by_id if reply.version >= 13 else server.topics_by_name).get(target.topic)
    target.partition = None
    if places is not None and 0 <= target.index < len(places):
        target.partition = <Partition>places[target.index]
    if target.partition is None:
        target.error = UNKNOWN_TOPIC_ID if places is None and reply.version >= 13 else UNKNOWN_TOPIC_OR_PARTITION
    return 0


# ---- the answer ----

cdef list encode(FetchReply reply):
    """Pieces of the whole frame: bytes, and LogSlice for record sets that go by sendfile."""
    cdef FetchContext context = reply.context
    cdef FetchSession session = context.session
    cdef list pieces = [], told
    cdef list topics = []               # (topic, [FetchPartition])
    cdef FetchPartition target
    cdef Writer out = _writer
    cdef bint flexible = reply.version >= 12
    cdef Py_ssize_t inlined = 0, file_bytes = 0
    out.pos = 0
    told = [t for t in context.targets if (<FetchPartition>t).is_news()] if context.incremental else context.targets
    for target in told:
        if topics and topics[len(topics) - 1][0] == target.topic:
            topics[len(topics) - 1][1].append(target)
        else:
            topics.append((target.topic, [target]))
    out.i32(0)
    out.i32(reply.correlation_id)
    if flexible:
        out.i8(0)
    out.i32(0)                          # throttle_time_ms
    if reply.version >= 7:
        out.i16(context.error)
        out.i32(context.session_id)
    put_length(out, len(topics), flexible)
    for topic, targets in topics:
        if reply.version < 13:
            if flexible:
                out.uvarint(len(topic) + 1)
            else:
                out.i16(len(topic))
        out.put_bytes(topic)
        put_length(out, len(targets), flexible)
        for target in targets:
            put_partition(out, target, reply.version, flexible)
            if target.records is not None:
                if (target.records.size <= INLINE_BYTES_MAX and inlined < INLINE_TOTAL_MAX
                        and inline_records(out, target.records)):
                    inlined += target.records.size
                else:
                    pieces.append(PyBytes_FromStringAndSize(<char*>out.buf, out.pos))
                    pieces.append(target.records)
                    file_bytes += out.pos + target.records.size
                    out.pos = 0
            if flexible:
                put_partition_tags(out, target)
            if session is not None:
                remember(session, target)
        if flexible:
            out.i8(0)
    if flexible:
        out.i8(0)
    pieces.append(PyBytes_FromStringAndSize(<char*>out.buf, out.pos))
    patch_length(<bytes>pieces[0], file_bytes + out.pos - 4)
    return pieces


cdef int put_length(Writer out, Py_ssize_t n, bint flexible) except -1:
    if flexible:
        return out.uvarint(<unsigned int>(n + 1))
    return out.i32(<int32_t>n)


cdef int patch_length(bytes first, Py_ssize_t size) except -1:
    """Write the frame's length into its first piece, which nobody else has seen yet."""
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(first)
    if size > 0x7fffffff:
        raise ValueError(f"a Fetch answer of {size} bytes does not fit a frame")
    p[0] = (size >> 24) & 0xff
    p[1] = (size >> 16) & 0xff
    p[2] = (size >> 8) & 0xff
    p[3] = size & 0xff
    return 0


cdef int put_partition(Writer out, FetchPartition target, int16_t version, bint flexible) except -1:
    """PartitionData up to and with the length of its records."""
    cdef Py_ssize_t size = target.records.size if target.records is not None else 0
    out.i32(target.index)
    out.i16(target.error)
    out.i64(target.high_watermark)
    out.i64(target.last_stable_offset)
    if version >= 5:
        out.i64(target.log_start_offset)
    if target.aborted is None:
        # read_uncommitted: null
        if flexible:
            out.i8(0)
        else:
            out.i32(-1)
    else:
        put_length(out, len(target.aborted), flexible)
        for producer_id, first_offset in target.aborted:
            out.i64(producer_id)
            out.i64(first_offset)
            if flexible:
                out.i8(0)
    if version >= 11:
        out.i32(-1)                     # preferred_read_replica
    return put_length(out, size, flexible)


cdef int put_partition_tags(Writer out, FetchPartition target) except -1:
    """Tag 0, DivergingEpoch {epoch i32, end_offset i64}, where the client's log left ours (KIP-595)."""
    if target.diverging_epoch < 0:
        return out.i8(0)
    out.i8(1)
    out.i8(0)
    out.i8(13)
    out.i32(target.diverging_epoch)
    out.i64(target.diverging_end_offset)
    return out.i8(0)


cdef bint inline_records(Writer out, LogSlice part) except *:
    """Copy a small record set into the answer if all of it is in the page cache."""
    cdef Py_ssize_t n
    out.reserve(part.size)
    n = read_cached(part.fd, out.buf + out.pos, part.size, part.position)
    if n != part.size:
        return False
    out.pos += n
    return True


cdef int remember(FetchSession session, FetchPartition target) except -1:
    """Note what the client is told; one that got records goes to the end of the order, so that all get their turn."""
    target.told_high_watermark = target.high_watermark
    target.told_log_start_offset = target.log_start_offset
    if target.error:
        target.told_high_watermark = target.told_log_start_offset = -1
    if target.records is not None:
        key = (target.topic, target.index)
        if session.partitions.pop(key, None) is not None:
            session.partitions[key] = target
    return 0


# ---- the request ----

cdef int handle_fetch(AnswerQueue connection, int32_t correlation_id, int16_t version, const uint8_t* p, Py_ssize_t n,
                      RecvBuffer owner) except -1:
    cdef ServerCore server = connection.server
    cdef FetchReply reply = FetchReply.__new__(FetchReply)
    cdef FetchPartition target
    cdef int64_t found
    _view.parse(Cursor.over(p, n, owner), version)
    reply.correlation_id = correlation_id
    reply.version = version
    reply.read_committed = _view.isolation_level == READ_COMMITTED
    reply.max_bytes = max(0, min(_view.max_bytes, server.fetch_bytes_max))
    reply.min_bytes = min(_view.min_bytes, reply.max_bytes)
    reply.context = (<SessionCache>server.fetch_sessions).context(_view, coarse_ms())
    if reply.context.targets is None:
        reply.context.targets = []
    connection.add_reply(reply)
    found = reply.read_all()
    if found >= reply.min_bytes or _view.max_wait_ms <= 0 or not reply.context.targets or server.stopping:
        return reply.answer()
    reply.missing_bytes = reply.min_bytes - found
    reply.waiting = FetchWait.__new__(FetchWait)
    reply.waiting.reply = reply
    for target in reply.context.targets:
        target.partition.add_waiting(reply.waiting)
    reply.timer = server.loop.call_later(_view.max_wait_ms / 1000.0, reply.expire)
    return 0


def install(ServerCore server, int slots, int64_t eviction_ms):
    """Let `server` answer Fetch here; sessions are bounded by `slots`."""
    server.fetch_sessions = SessionCache(slots, eviction_ms, lambda: random.randint(1, 0x7fffffff))
    server.set_hot(FETCH_KEY, handle_fetch)


@handler(ApiKey.FETCH, versions=(4, 18), omissions="replicas other than consumers are answered as consumers are")
def fetch(ctx, request):
    """Registered for its versions; `install` puts `handle_fetch` in its place."""
    raise RuntimeError("Fetch is answered by handle_fetch")
