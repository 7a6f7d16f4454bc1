"""Checking and appending the batches of a Produce request. See produce_append.pxd."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.replica.produced cimport append_produced, needs_check, new_check
from broker_cy.replica.replica cimport COMMITTED, LEADER, PENDING
from broker_cy.connections.answers cimport ServerCore
from broker_cy.connections.current_leader cimport absent_error, topic_named, topic_with_id
from broker_cy.connections.produce_answer cimport Result
from broker_cy.connections.rights cimport rights_of
from broker_cy.wire.batch cimport BATCH_RECORDS
from broker_cy.wire.batch_check cimport BatchCheck
from broker_cy.wire.produce cimport FIRST_ID_VERSION, ProducePartition, TopicSpan, topic_key

from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import topic_names

cdef enum:
    ACKS_NONE = 0
    # Decompressed for validation by one turn of the loop, which takes about 5 ms; a worker does the rest.
    CHECKED_TURN_BYTES = 4 << 20

cdef int64_t FLUSH_NEVER = (1 << 63) - 1    # flush.messages by default

cdef bytes OWN_CLIENT = topic_names.OWN_CLIENT.encode()
cdef object OWN_TOPICS = topic_names.OWN_TOPICS
cdef int16_t UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
cdef int16_t UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
cdef int16_t INVALID_REQUEST = ErrorCode.INVALID_REQUEST
cdef int16_t INVALID_REQUIRED_ACKS = ErrorCode.INVALID_REQUIRED_ACKS
cdef int16_t INVALID_TOPIC_EXCEPTION = ErrorCode.INVALID_TOPIC_EXCEPTION
cdef int16_t TOPIC_AUTHORIZATION_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


cdef class Verdicts:
    """The batches of a request that waited: those that are refused, and those that are verified."""

    cdef bint error_of(self, ProduceReply reply, Partition partition, int32_t k, int16_t* error) except *:
        """Whether the request's k-th batch, for `partition`, is refused without being checked."""
        cdef object found = self.refused
        if found is None and partition is not None:
            found = self.errors.get(partition)
        if found is None:
            return False
        error[0] = found[0]
        if found[1] is not None:
            reply.note(k, found[1], [])
        return True

    cdef Verification verification_of(self, Partition partition):
        return <Verification>self.verifications.get(partition)


cdef list check_batches(ProduceView view, AnswerQueue connection, int16_t version, RecvBuffer owner, dict checks, set denied):
    cdef ServerCore server = connection.server
    cdef TopicSpan* topic
    cdef ProducePartition* part
    cdef Partition partition
    cdef BatchCheck check
    cdef list places, unfinished = None
    cdef int64_t room
    cdef int32_t i, k
    for i in range(view.topic_count):
        topic = &view.topics[i]
        places = (server.topics_by_id if version >= FIRST_ID_VERSION else server.topics_by_name).get(topic_key(topic, version))
        if places is None or (denied is not None and i in denied):
            continue
        for k in range(topic.first, topic.first + topic.count):
            part = &view.partitions[k]
            if not 0 <= part.index < len(places) or places[part.index] is None:
                continue
            partition = <Partition>places[part.index]
            if partition.offline is not None or not needs_check(partition, part.records, part.size):
                continue
            if partition.protected and not is_own_write(connection, partition):
                continue
            check = new_check(partition, <uint8_t*>part.records, part.size, owner, server.wall_ms(), version)
            checks[k] = check
            room = CHECKED_TURN_BYTES - server.checked_bytes
            if unfinished is None and room > part.size:
                if check.run(room, False):
                    server.checked_bytes += check.spent
                    continue
                server.checked_bytes += check.spent
            if unfinished is None:
                unfinished = []
            unfinished.append(check)
    return unfinished


cdef object judge_schemas(dict checks, int are_current):
    cdef BatchCheck check
    cdef Partition partition
    cdef object waiting = None
    for check in checks.values():
        if check.schemas is None or check.refusal is not None or check.uses is None:
            continue
        partition = <Partition>check.partition
        if partition.replica.role != LEADER:
            continue                # the append refuses it
        refusal, is_certain = check.schemas.judge(check.uses, partition.index)
        if refusal is None:
            continue
        if not is_certain and are_current < 0:
            waiting = check.schemas.up_to_date()
            continue
        if not is_certain and not are_current:
            refusal = check.schemas.not_up_to_date(partition.index)
        check.refusal = refusal
        check.verdict.error = refusal.code
        check.verdict.fault = BATCH_RECORDS
    return waiting


cdef int append_all(ProduceView view, AnswerQueue connection, ProduceReply reply, RecvBuffer owner, dict checks, Verdicts verdicts,
                    set denied) except -1:
    cdef ServerCore server = connection.server
    cdef TopicSpan* topic
    cdef int32_t i, k
    cdef bint waits = False
    cdef list places
    cdef bytes name
    reply.acks = view.acks
    reply.timeout_ms = view.timeout_ms
    reply.topics = []
    reply.partitions = []
    reply.allot(view.partition_count)
    for i in range(view.topic_count):
        topic = &view.topics[i]
        if topic.count == 0:
            continue                # as in Kafka, the answer does not name it
        name = topic_key(topic, reply.version)
        reply.topics.append((name, topic.count))
        places = (server.topics_by_id if reply.version >= 13 else server.topics_by_name).get(name)
        for k in range(topic.first, topic.first + topic.count):
            if append_one(view, connection, reply, places, k, owner, checks, verdicts, denied is not None and i in denied):
                waits = True
    if waits:
        connection.staged_at = server.flushes
    if view.acks == ACKS_NONE:
        if waits and connection.awaits_sync:
            # No answer leaves, but the next request waits until the records of this one are on disk.
            reply.connection = connection
            server.unflushed.append(reply)
        return refuse_unacked(connection, reply, reply.version)
    if verdicts is None:
        connection.add_reply(reply)
    if waits:
        server.unflushed.append(reply)
        return 0
    return connection.mark_ready(reply)


cdef bint append_one(ProduceView view, AnswerQueue connection, ProduceReply reply, list places, int32_t k, RecvBuffer owner,
                     dict checks, Verdicts verdicts, bint is_denied) except *:
    """Append the request's k-th batch; whether its answer must wait for the write."""
    cdef ServerCore server = connection.server
    cdef ProducePartition* part = &view.partitions[k]
    cdef Result* result = &reply.results[k]
    cdef Partition partition = None
    result.index = part.index
    result.staged = False
    result.append.error = 0
    result.append.base_offset = -1
    result.append.log_append_time_ms = -1
    result.append.log_start_offset = -1
    if places is not None and 0 <= part.index < len(places):
        partition = <Partition>places[part.index]
    reply.partitions.append(partition)
    if verdicts is not None and verdicts.error_of(reply, partition, k, &result.append.error):
        pass
    elif is_denied:
        result.append.error = TOPIC_AUTHORIZATION_FAILED
    elif partition is None:
        result.append.error = error_of_absent(server, reply, places, part.index)
    elif view.acks < -1 or view.acks > 1:
        result.append.error = INVALID_REQUIRED_ACKS
    elif partition.protected and not is_own_write(connection, partition):
        result.append.error = INVALID_TOPIC_EXCEPTION
        if partition.mirrors:
            result.append.error = INVALID_REQUEST
            reply.note(k, f"topic {partition.topic} is a mirror of another cluster: promote it before producers write to it", [])
    else:
        append_produced(partition, <uint8_t*>part.records, part.size, owner, server.wall_ms(), view.acks, reply.version,
                        None if verdicts is None else verdicts.verification_of(partition),
                        None if checks is None else <BatchCheck>checks.get(k), &result.append)
        if result.append.error:
            message, records = partition.last_error
            reply.note(k, message, records)
        else:
            # A batch that was sent again may be one whose write or sync is not done.
            result.staged = partition.replica.fate(result.append.last_offset, COMMITTED) == PENDING
            if partition.log.config.flush_messages != FLUSH_NEVER:
                connection.awaits_sync = True
    return result.staged


cdef bint is_own_write(AnswerQueue connection, Partition partition) except *:
    """Whether another broker writes to one of the brokers' own topics (events.own_topic_leader). Any client can use this client
    id: where rights count, that of a broker is needed.
    """
    return (connection.client_id == OWN_CLIENT and partition.topic in OWN_TOPICS
            and (connection.server.authorization is None or rights_of(connection).may_act_for_cluster()))


cdef int16_t error_of_absent(ServerCore server, ProduceReply reply, list places, int32_t index) except? -1:
    """The error of a partition that this broker does not have."""
    cdef bytes key = reply.topics[len(reply.topics) - 1][0]
    cdef bint by_id = reply.version >= FIRST_ID_VERSION
    topic = topic_with_id(server, key) if by_id else topic_named(server, key)
    if topic is not None:
        return absent_error(topic, index)
    return UNKNOWN_TOPIC_ID if by_id and places is None else UNKNOWN_TOPIC_OR_PARTITION


cdef int refuse_unacked(AnswerQueue connection, ProduceReply reply, int16_t version) except -1:
    """acks=0: there is no answer to carry an error, so the connection is closed, which clients treat as an error."""
    cdef int32_t i
    for i in range(reply.count):
        if reply.results[i].append.error:
            code = ErrorCode(reply.results[i].append.error).name
            return connection.fail(f"Produce v{version}", f"{code} with acks=0")
    return 0
