"""Batches of clients: each is checked, stamped with its offset and leader epoch, and staged in the log of its partition.

A batch is refused with Kafka's error, in Kafka's order of checks, and then nothing of it is in the log. One that is compressed, or
will be, or whose topic checks the schemas of records, is checked apart from its append (BatchCheck), because that may take long: the
partition may have changed meanwhile.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from broker_cy.replica.replica cimport LEADER
from broker_cy.replica.verification cimport batch_problem, judge
from broker_cy.storage.producer_state cimport PRODUCER_DUPLICATE, PRODUCER_OK, PRODUCER_OUT_OF_ORDER
from broker_cy.wire.batch cimport (
    ATTRIBUTE_CODEC_MASK, ATTRIBUTE_TRANSACTIONAL, BATCH_ATTRIBUTES_AT, BATCH_HEADER_BYTES, BATCH_MAGIC_AT, BATCH_SECOND, BatchHeader,
    BatchVerdict, parse_header, rejection, validate_batch,
)

from broker_cy.core.errors import ErrorCode
from broker_cy.storage.errors import StorageError
from broker_cy.storage.resends import refill_producers
from broker_cy.wire.records import rebuild_batch

cdef int16_t KAFKA_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
cdef int16_t NOT_LEADER_OR_FOLLOWER = ErrorCode.NOT_LEADER_OR_FOLLOWER
cdef int16_t NOT_ENOUGH_REPLICAS = ErrorCode.NOT_ENOUGH_REPLICAS
cdef int16_t MESSAGE_TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
cdef enum:
    ACKS_ALL = -1


cdef int append_produced(Partition partition, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms, int16_t acks,
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
    if partition.log is None or partition.log.offline is not None:
        return partition.refuse(out, KAFKA_STORAGE_ERROR,
                                partition.offline_reason if partition.log is None else partition.log.offline)
    if partition.replica.role != LEADER:
        return partition.refuse(out, NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {partition.topic}-{partition.index}")
    if acks == ACKS_ALL and partition.replica.under_min:
        return partition.refuse(out, NOT_ENOUGH_REPLICAS, partition.too_few())
    if check is not None and check.partition is partition:
        header = check.header
        verdict = check.verdict
        refused = check.refusal
    elif needs_check(partition, data, size):
        # The topic was created again, came online, or changed its settings while a worker checked the request.
        return partition.refuse(out, NOT_LEADER_OR_FOLLOWER,
                                f"{partition.topic}-{partition.index} changed while the batch was checked")
    else:
        refused = None
        partition.rules.produce_version = version
        if validate_batch(data, size, &header, &partition.rules, now_ms, &verdict, None):
            refused = rejection(data, size, &partition.rules, now_ms, &verdict, f"{partition.topic}-{partition.index}")
    if refused is not None:
        partition.refuse(out, verdict.error, refused.message)
        if verdict.fault <= BATCH_SECOND:
            # Kafka refuses these before it reads the log.
            out.log_start_offset = -1
        partition.last_error = (refused.message, refused.record_errors)
        return 0
    size = verdict.size
    if header.producer_id >= 0:
        status = partition.log.producers.check(&header, &base_offset, &timestamp)
        if status == PRODUCER_OUT_OF_ORDER and partition.log.producers.newest_only:
            # The batch may have been sent again after a restart.
            refill(partition)
            status = partition.log.producers.check(&header, &base_offset, &timestamp)
        if status == PRODUCER_DUPLICATE:
            out.base_offset = base_offset
            out.last_offset = base_offset + header.last_offset_delta
            # Kafka returns the time of a duplicate under CreateTime as well.
            out.log_append_time_ms = timestamp
            out.log_start_offset = partition.log.log_start_offset
            return 0
        if header.attributes & ATTRIBUTE_TRANSACTIONAL or partition.verifications is not None:
            status = judge(partition.verifications, partition.log.producers, &header, verification, status,
                           partition.group.verifies)
        if status != PRODUCER_OK:
            return partition.refuse(out, status,
                                    batch_problem(partition.verifications, partition.log.producers, &header, status))
    if verdict.rebuild:
        return stage_rebuilt(partition, close_gaps(partition, data, size, now_ms) if check is None else check.stored, now_ms, out)
    return partition.stage(data, size, &header, owner, now_ms, out)


cdef bint needs_check(Partition partition, const uint8_t* data, Py_ssize_t size) noexcept:
    """Whether a produced batch is checked with a BatchCheck, separately from its append: it is compressed, or will be, or the schemas
    of its records are checked.
    """
    if size < BATCH_HEADER_BYTES or data[BATCH_MAGIC_AT] != 2:
        return False
    return data[BATCH_ATTRIBUTES_AT] & ATTRIBUTE_CODEC_MASK != 0 or partition.checks_apart


cdef BatchCheck new_check(Partition partition, uint8_t* data, Py_ssize_t size, object owner, int64_t now_ms, int16_t version):
    cdef BatchCheck check = BatchCheck.__new__(BatchCheck)
    check.partition = partition
    check.owner = owner
    check.data = data
    check.size = size
    check.now_ms = now_ms
    check.rules = partition.rules
    check.rules.produce_version = version
    check.level = partition.compression_level
    check.schemas = partition.record_schemas
    check.topic_partition = (partition.topic, partition.index)
    return check


cdef int refill(Partition partition) except -1:
    try:
        refill_producers(partition.log.segments, partition.log.producers)
    except (OSError, StorageError) as error:
        partition.group.failed(partition, "read", error)
    return 0


cdef bytes close_gaps(Partition partition, uint8_t* data, Py_ssize_t size, int64_t now_ms):
    """The uncompressed batch with offset deltas that have no gaps; None if it exceeds max.message.bytes."""
    append_time_ms = now_ms if partition.rules.timestamp_type == LOG_APPEND_TIME else None
    stored = rebuild_batch(PyBytes_FromStringAndSize(<char*>data, size), log_append_time_ms=append_time_ms)
    return stored if len(stored) <= partition.rules.max_message_bytes else None


cdef int stage_rebuilt(Partition partition, bytes rebuilt, int64_t now_ms, AppendResult* out) except -1:
    """Stage the rebuilt form of a batch."""
    cdef BatchHeader header
    if rebuilt is None:
        return partition.refuse(out, MESSAGE_TOO_LARGE, f"{partition.topic}-{partition.index}: with the topic's compression.type the "
                                f"batch has more bytes than max.message.bytes, which is {partition.rules.max_message_bytes}")
    parse_header(<uint8_t*>PyBytes_AS_STRING(rebuilt), len(rebuilt), &header)
    # There is no other reference to these bytes, so they may be stamped in place.
    return partition.stage(<uint8_t*>PyBytes_AS_STRING(rebuilt), len(rebuilt), &header, rebuilt, now_ms, out)
