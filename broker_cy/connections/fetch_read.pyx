"""Reading the partitions of a Fetch request, one by one, into its targets. See fetch_read.pxd."""

from libc.stdint cimport int16_t, int64_t

from broker_cy.replica.partition cimport Partition
from broker_cy.replica.replica cimport LEADER
from broker_cy.connections.answers cimport ServerCore
from broker_cy.connections.current_leader cimport absent_error, topic_named, topic_with_id
from broker_cy.connections.rights cimport READ

from broker_cy.storage.errors import ErrorCode
from broker_cy.storage.errors import ColdRead, OffsetOutOfRange, StorageError
from broker_cy.storage.lookups import aborted_in_slice

cdef enum:
    FETCH_KEY = 1
    READ_OPERATION = 3              # AclOperation
    FOLLOWER_VERSION = 11           # from here on consumers may fetch from followers (KIP-392)
    AHEAD_FROM_BYTES = 262144       # a client that fetches this much in one request likely fetches the following records, too

cdef int16_t UNKNOWN_TOPIC_OR_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
cdef int16_t UNKNOWN_SERVER_ERROR = ErrorCode.UNKNOWN_SERVER_ERROR
cdef int16_t NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
cdef int16_t INCONSISTENT_TOPIC_ID = ErrorCode.INCONSISTENT_TOPIC_ID
cdef int16_t UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_ID
cdef int16_t KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
cdef int16_t OFFSET_NOT_AVAILABLE = ErrorCode.OFFSET_NOT_AVAILABLE
cdef int16_t OFFSET_OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
cdef int16_t FENCED_LEADER_EPOCH = ErrorCode.FENCED_LEADER_EPOCH
cdef int16_t UNKNOWN_LEADER_EPOCH = ErrorCode.UNKNOWN_LEADER_EPOCH
cdef int16_t TOPIC_AUTHORIZATION_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

# The module replica.leading, from the first fetch of a follower on: a node that is alone starts sooner without it.
cdef object leading = None


cdef class FetchRead(Reply):
    """One Fetch request, as far as reading is concerned: what it asks for, and what a read found missing."""


cdef int read_one(FetchRead reply, FetchPartition target, Py_ssize_t left, bint at_least_one) except -1:
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
    elif partition.replica.begun_at >= 0:
        target.error = OFFSET_NOT_AVAILABLE
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
    # A follower learns with a later answer that its log may be read.
    target.high_watermark = partition.replica.high.offset if partition.replica.begun_at < 0 else 0
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


cdef bint is_denied(FetchRead reply, FetchPartition target) except *:
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


cdef int need_leading() except -1:
    global leading
    if leading is None:
        from broker_cy.replica import leading as module
        leading = module
    return 0


cdef bint judge_follower(FetchRead reply, FetchPartition target) except *:
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
        target.follower_start), partition.has_mirrored)
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


cdef int wait_for_opening(FetchRead reply, Partition partition) except -1:
    if reply.cold is None:
        reply.cold = []
    if reply.unopened is None:
        reply.unopened = []
    reply.unopened.append(partition)
    return 0


cdef int wait_for_disk(FetchRead reply, FetchPartition target, object missing, int64_t wanted) except -1:
    """Have a worker read the data that a lookup needs, together with the likely following records. `wanted` is the number of bytes
    that the client asked for.
    """
    target.records = None
    if reply.cold is None:
        reply.cold = []
    reply.cold.append((missing.path, missing.position, max(<int64_t>missing.size, wanted), wanted >= AHEAD_FROM_BYTES))
    return 0


cdef int look_up(FetchRead reply, FetchPartition target) except -1:
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
