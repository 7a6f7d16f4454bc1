"""The frame of a Fetch answer, versions 4 to 18, from the result of the read of each partition."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, uint8_t

from broker_cy.core.writer cimport Writer
from broker_cy.connections.answers cimport AnswerQueue
from broker_cy.connections.current_leader cimport current_leader, put_leaders, topic_with_id
from broker_cy.connections.fetch_session cimport FetchContext, FetchPartition, FetchSession
from broker_cy.storage.log_slice cimport LogSlice
from broker_cy.storage.page_cache cimport read_cached

from broker_cy.core.errors import ErrorCode

cdef enum:
    FETCH_KEY = 1
    FIRST_LEADER_VERSION = 16       # from here on some errors carry the current leader (KIP-951)

cdef int16_t NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
cdef int16_t FENCED_LEADER_EPOCH = ErrorCode.FENCED_LEADER_EPOCH

cdef Writer _writer = Writer()


cdef list encode(AnswerQueue connection, FetchContext context, int32_t correlation_id, int16_t version, int32_t throttle_ms):
    """Pieces of the whole frame: bytes, and LogSlice for record sets that go by sendfile."""
    cdef FetchSession session = context.session
    cdef list pieces = [], answered
    cdef list topics = []               # (topic, [FetchPartition])
    cdef dict leaders = None            # node id -> (host, port, rack), of leaders that answers name; None: no error does
    cdef FetchPartition target
    cdef Writer out = _writer
    cdef bint flexible = version >= 12
    cdef Py_ssize_t inlined = 0, file_bytes = 0
    out.pos = 0
    answered = [t for t in context.targets if (<FetchPartition>t).is_news()] if context.incremental else context.targets
    if context.any_unknown:
        answered = sorted(answered, key=is_unknown)
    for target in answered:
        if topics and topics[len(topics) - 1][0] == target.topic:
            topics[len(topics) - 1][1].append(target)
        else:
            topics.append((target.topic, [target]))
    out.i32(0)
    out.i32(correlation_id)
    if flexible:
        out.i8(0)
    out.i32(throttle_ms)
    if context.error:
        connection.server.metrics.error(FETCH_KEY, context.error)
    if version >= 7:
        out.i16(context.error)
        out.i32(context.session_id)
    put_length(out, len(topics), flexible)
    for topic, targets in topics:
        if version < 13:
            if flexible:
                out.uvarint(len(topic) + 1)
            else:
                out.i16(len(topic))
        out.put_bytes(topic)
        put_length(out, len(targets), flexible)
        for target in targets:
            put_partition(out, target, version, flexible)
            if target.error:
                connection.server.metrics.error(FETCH_KEY, target.error)
            if target.records is not None:
                if not context.from_replica:
                    target.partition.fetches += 1
                    target.partition.fetched_bytes += target.records.size
                if (target.records.size <= INLINE_BYTES_MAX and inlined < INLINE_TOTAL_MAX
                        and inline_records(out, target.records)):
                    inlined += target.records.size
                else:
                    pieces.append(PyBytes_FromStringAndSize(<char*>out.buf, out.pos))
                    pieces.append(target.records)
                    file_bytes += out.pos + target.records.size
                    out.pos = 0
            if flexible:
                leader = None
                if target.error and names_leader(version, target.error):
                    if leaders is None:
                        leaders = {}
                    # Topics have ids in all these versions.
                    leader = current_leader(connection, topic_with_id(connection.server, target.topic), target.index, leaders)
                put_partition_tags(out, target, leader)
            if session is not None:
                remember(session, target)
        if flexible:
            out.i8(0)
    if flexible:
        if leaders is None or context.from_replica:
            out.i8(0)
        else:
            put_leaders(out, leaders)
    pieces.append(PyBytes_FromStringAndSize(<char*>out.buf, out.pos))
    patch_length(<bytes>pieces[0], file_bytes + out.pos - 4)
    return pieces


cdef int put_length(Writer out, Py_ssize_t n, bint flexible) except -1:
    if flexible:
        return out.uvarint(<unsigned int>(n + 1))
    return out.i32(<int32_t>n)


cdef int patch_length(bytes first, Py_ssize_t size) except -1:
    """Write the frame's length into its first piece, which has no other reference yet."""
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
        out.i32(target.preferred_replica)
    return put_length(out, size, flexible)


def is_unknown(FetchPartition target):
    """Kafka answers these behind all others."""
    return target.unknown


cdef bint names_leader(int16_t version, int16_t error) noexcept:
    """Whether a partition's answer with this error carries the current leader (KIP-951)."""
    return version >= FIRST_LEADER_VERSION and (error == NOT_LEADER_OR_FOLLOWER or error == FENCED_LEADER_EPOCH)


cdef int put_partition_tags(Writer out, FetchPartition target, object leader) except -1:
    """Tag 0, DivergingEpoch {epoch i32, end_offset i64}, if the client's log diverged from ours (KIP-595); tag 1,
    CurrentLeader {leader_id i32, leader_epoch i32}, where `leader` is not None.
    """
    out.i8((target.diverging_epoch >= 0) + (leader is not None))
    if target.diverging_epoch >= 0:
        out.i8(0)
        out.i8(13)
        out.i32(target.diverging_epoch)
        out.i64(target.diverging_end_offset)
        out.i8(0)
    if leader is not None:
        out.i8(1)
        out.i8(9)
        out.i32(leader[0])
        out.i32(leader[1])
        out.i8(0)
    return 0


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
    """Record the client's new state. A partition that returned records moves to the end of the order, so that all get
    their turn.
    """
    target.reported_high_watermark = target.high_watermark
    target.reported_log_start_offset = target.log_start_offset
    if target.error:
        target.reported_high_watermark = target.reported_log_start_offset = -1
    if target.records is not None:
        key = (target.topic, target.index)
        if session.partitions.get(key) is target:
            del session.partitions[key]
            session.partitions[key] = target
    return 0
