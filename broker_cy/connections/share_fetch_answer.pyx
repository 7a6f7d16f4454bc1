"""The frame of a ShareFetch answer, versions 1 and 2, whose records are sent from the page cache, as those of Fetch."""

from cpython.bytes cimport PyBytes_FromStringAndSize

from broker_cy.connections.current_leader cimport put_endpoints
from broker_cy.connections.fetch_answer cimport INLINE_BYTES_MAX, INLINE_TOTAL_MAX, inline_records, patch_length
from broker_cy.core.writer cimport Writer
from broker_cy.metrics.requests cimport RequestMetrics
from broker_cy.storage.log_slice cimport LogSlice

cdef enum:
    SHARE_FETCH_KEY = 78

cdef Writer _writer = Writer()


cdef class ShareFetchAnswer:
    def __init__(self, int16_t error_code=0, error_message=None, int32_t lock_ms=0, topics=None, leaders=None,
                 int32_t throttle_time_ms=0, bint from_disk=False):
        self.error_code = error_code
        self.error_message = error_message
        self.throttle_time_ms = throttle_time_ms
        self.lock_ms = lock_ms
        self.topics = topics if topics is not None else []
        self.leaders = leaders if leaders is not None else {}
        self.from_disk = from_disk


cdef class SharePartitionAnswer:
    def __init__(self, int32_t index, int16_t error_code=0, error_message=None, parts=None, acquired=None):
        self.index = index
        self.error_code = error_code
        self.error_message = error_message
        self.parts = parts if parts is not None else []
        self.acquired = acquired if acquired is not None else []


cdef list share_fetch_frame(AnswerQueue connection, ShareFetchAnswer answer, int32_t correlation_id):
    cdef RequestMetrics metrics = connection.server.metrics
    cdef SharePartitionAnswer partition
    cdef LogSlice part
    cdef list pieces = []
    cdef Writer out = _writer
    cdef Py_ssize_t size, inlined = 0, before = 0, found = 0
    out.pos = 0
    out.i32(0)
    out.i32(correlation_id)
    out.i8(0)
    out.i32(answer.throttle_time_ms)
    out.i16(answer.error_code)
    out.compact_nullable_string(answer.error_message)
    out.i32(answer.lock_ms)
    if answer.error_code:
        metrics.error(SHARE_FETCH_KEY, answer.error_code)
    out.uvarint(<unsigned int>(len(answer.topics) + 1))
    for topic_id, partitions in answer.topics:
        out.put_bytes(topic_id)
        out.uvarint(<unsigned int>(len(partitions) + 1))
        for partition in partitions:
            if partition.error_code:
                metrics.error(SHARE_FETCH_KEY, partition.error_code)
            put_head(out, partition)
            size = 0
            for part in partition.parts:
                size += part.size
            out.uvarint(<unsigned int>(size + 1))
            found += size
            for part in partition.parts:
                if part.size <= INLINE_BYTES_MAX and inlined < INLINE_TOTAL_MAX and inline_records(out, part):
                    inlined += part.size
                    continue
                pieces.append(PyBytes_FromStringAndSize(<char*>out.buf, out.pos))
                pieces.append(part)
                before += out.pos + part.size
                out.pos = 0
            put_acquired(out, partition.acquired)
            out.i8(0)
        out.i8(0)
    put_endpoints(out, answer.leaders)
    out.i8(0)
    pieces.append(PyBytes_FromStringAndSize(<char*>out.buf, out.pos))
    patch_length(<bytes>pieces[0], before + out.pos - 4)
    if found and answer.from_disk:
        metrics.cold_reads += 1
        metrics.cold_bytes += found
    elif found:
        metrics.hot_reads += 1
        metrics.hot_bytes += found
    return pieces


cdef int put_head(Writer out, SharePartitionAnswer partition) except -1:
    """PartitionData up to its records."""
    out.i32(partition.index)
    out.i16(partition.error_code)
    out.compact_nullable_string(partition.error_message)
    out.i16(partition.acknowledge_error_code)
    out.compact_nullable_string(partition.acknowledge_error_message)
    out.i32(partition.leader_id)
    out.i32(partition.leader_epoch)
    return out.i8(0)


cdef int put_acquired(Writer out, list acquired) except -1:
    out.uvarint(<unsigned int>(len(acquired) + 1))
    for first, last, count in acquired:
        out.i64(first)
        out.i64(last)
        out.i16(count)
        out.i8(0)
    return 0
