"""The answer of a Produce request, kept as C values until it leaves."""

from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport free, malloc

from broker_cy.core.clock cimport coarse_ms
from broker_cy.metrics.requests cimport DISK
from broker_cy.replica.flush_group cimport FlushedPartition
from broker_cy.replica.partition cimport Partition
from broker_cy.connections.current_leader cimport current_leader, put_leaders, topic_named, topic_with_id
from broker_cy.replica.replica cimport COMMITTED, DONE, EXPIRED, LOCAL, LOST, PENDING, TOO_FEW, Fate, Level

from broker_cy.core.errors import ErrorCode

cdef int16_t KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
cdef int16_t NOT_ENOUGH_REPLICAS_AFTER_APPEND = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
cdef int16_t NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
cdef int16_t REQUEST_TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
cdef enum:
    ACKS_NONE = 0
    ACKS_LEADER = 1
    FIRST_LEADER_VERSION = 10       # from here on an error carries the current leader (KIP-951)


cdef class ProduceReply(Reply):
    """The answer of one Produce request, encoded when it leaves."""
    def __cinit__(self):
        self.results = NULL
        self.wait_phase = DISK

    def __dealloc__(self):
        if self.results != NULL and self.results != self.inline_results:
            free(self.results)

    cdef int allot(self, int32_t count) except -1:
        self.count = count
        self.results = self.inline_results
        if count > INLINE_RESULTS:
            self.results = <Result*>malloc(count * sizeof(Result))
            if self.results == NULL:
                raise MemoryError(f"no memory for {count} partition results")
        return 0

    cdef bint written(self) except *:
        """The turn's write is done: records that did not reach the log have an error now. Returns whether a record still waits."""
        cdef int32_t i
        cdef Partition partition
        cdef Fate fate
        cdef int64_t offset
        cdef Level level = LOCAL if self.acks == ACKS_LEADER else COMMITTED
        for i in range(self.count):
            if self.results[i].staged:
                partition = <Partition>self.partitions[i]
                offset = self.results[i].append.last_offset
                fate = partition.replica.fate(offset, level)
                if fate == PENDING:
                    if level == COMMITTED and self.deadline_ms == 0:
                        self.deadline_ms = max(1, coarse_ms(&self.connection.server.clock.source) + max(0, self.timeout_ms))
                    partition.wait(self, i, offset, level)
                    self.pending += 1
                elif fate != DONE:
                    self.fail_result(i, fate)
        if self.pending:
            self.connection.unsettled += 1
            return True
        return self.acks == ACKS_NONE

    cdef int settled(self, int32_t place, FlushedPartition partition, Fate fate) except -1:
        if fate != DONE:
            self.fail_result(place, fate)
        self.pending -= 1
        return 0 if self.pending else self.connection.server.settle(self, self.acks != ACKS_NONE)

    cdef int fail_result(self, int32_t i, Fate fate) except -1:
        """As in Kafka, the answer names the offset of an appended record, although clients must not rely on the record."""
        if fate == LOST:
            self.results[i].append.error = KAFKA_STORAGE_ERROR
            self.results[i].append.base_offset = -1
            self.results[i].append.log_append_time_ms = -1
        elif fate == TOO_FEW:
            self.results[i].append.error = NOT_ENOUGH_REPLICAS_AFTER_APPEND
        elif fate == EXPIRED:
            self.results[i].append.error = REQUEST_TIMED_OUT
        else:
            self.results[i].append.error = NOT_LEADER_OR_FOLLOWER
        return 0

    cdef int note(self, int32_t k, object message, list records) except -1:
        """Set the details of the k-th partition's error: a message or None, and [(record index, reason)]."""
        if self.details is None:
            self.details = {}
        self.details[k] = (message, records)
        return 0

    cdef int emit(self, Writer out) except -1:
        cdef Py_ssize_t start = out.pos
        cdef bint flexible = self.version >= 9
        cdef int32_t at = 0, i, n
        cdef bytes name
        out.i32(0)
        out.i32(self.correlation_id)
        if flexible:
            out.i8(0)
            out.uvarint(len(self.topics) + 1)
        else:
            out.i32(len(self.topics))
        for name, n in self.topics:
            if self.version >= 13:
                out.put_bytes(name)
            elif flexible:
                out.uvarint(len(name) + 1)
                out.put_bytes(name)
            else:
                out.i16(len(name))
                out.put_bytes(name)
            if flexible:
                out.uvarint(n + 1)
            else:
                out.i32(n)
            for i in range(at, at + n):
                self.emit_result(out, i, name)
            at += n
            if flexible:
                out.i8(0)
        out.i32(self.throttle_ms)
        if flexible:
            if self.leaders is None:
                out.i8(0)
            else:
                put_leaders(out, self.leaders)
        return out.patch_i32(start, <int32_t>(out.pos - start - 4))

    cdef int emit_result(self, Writer out, int32_t i, bytes topic) except -1:
        cdef Result* result = &self.results[i]
        cdef object detail = None
        if result.append.error:
            self.connection.server.metrics.error(self.key, result.append.error)
        out.i32(result.index)
        out.i16(result.append.error)
        out.i64(result.append.base_offset)
        out.i64(result.append.log_append_time_ms)
        if self.version >= 5:
            out.i64(result.append.log_start_offset)
        if self.version < 8:
            return 0
        if self.details is not None:
            detail = self.details.get(i)
        if self.version >= 9:
            self.emit_details_compact(out, detail)
            if result.append.error == NOT_LEADER_OR_FOLLOWER and self.version >= FIRST_LEADER_VERSION:
                return self.emit_leader(out, result.index, topic)
            return out.i8(0)
        return self.emit_details(out, detail)

    cdef int emit_leader(self, Writer out, int32_t index, bytes topic) except -1:
        """Tag 0, CurrentLeader {leader_id i32, leader_epoch i32}."""
        found = topic_with_id(self.connection.server, topic) if self.version >= 13 else topic_named(self.connection.server, topic)
        if self.leaders is None:
            self.leaders = {}
        leader_id, leader_epoch = current_leader(self.connection, found, index, self.leaders)
        out.i8(1)
        out.i8(0)
        out.i8(9)
        out.i32(leader_id)
        out.i32(leader_epoch)
        return out.i8(0)

    cdef int emit_details(self, Writer out, object detail) except -1:
        """record_errors and error_message of version 8."""
        message, records = detail if detail is not None else (None, [])
        out.i32(len(records))
        for index, reason in records:
            out.i32(index)
            out.nullable_string(reason)
        return out.nullable_string(message)

    cdef int emit_details_compact(self, Writer out, object detail) except -1:
        """record_errors and error_message from version 9 on."""
        if detail is None:
            out.i8(1)
            return out.i8(0)
        message, records = detail
        out.uvarint(len(records) + 1)
        for index, reason in records:
            out.i32(index)
            out.compact_nullable_string(reason)
            out.i8(0)
        return out.compact_nullable_string(message)
