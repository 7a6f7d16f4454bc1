"""A follower's changes of its log and high watermark, as an answer of its leader requires (following.Step names the order). The
leader of a mirror changes its log in the same way.

Batches are staged as the leader stamped them, after their checksums were checked; they are written with those of all other partitions
at the end of the turn. Nothing may be staged while a log is truncated or replaced.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from broker_cy.core.crc32c cimport crc32c
from broker_cy.replica.partition cimport Partition
from broker_cy.replica.replica cimport FOLLOWER, LEADER, Output
from broker_cy.storage.batch_reader cimport MAGIC
from broker_cy.wire.batch cimport BATCH_CRC_START, BATCH_HEADER_BYTES, BATCH_MAGIC_AT, BatchHeader, batch_bytes, parse_header

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica.following import BatchSpan
from broker_cy.storage.errors import StorageError

cdef enum:
    # For parse_header: more than any batch has, so that it reads the header of one that is cut.
    HEADER_ALONE = 0x7fffffffffffffff


def spans(Partition partition not None, const uint8_t[::1] records not None):
    """[BatchSpan] of the whole batches that a follower has fetched; the last may be cut. Raises KafkaError for anything else."""
    cdef BatchHeader header
    cdef Py_ssize_t at = 0, size = len(records)
    found = []
    while size - at > BATCH_MAGIC_AT:
        # All versions of the format have it at this place.
        if records[at + BATCH_MAGIC_AT] < MAGIC:
            raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                             f"{partition.topic}-{partition.index}: the leader sent records of message format "
                             f"{records[at + BATCH_MAGIC_AT]}, which Apache Kafka wrote before 0.11")
        if size - at < BATCH_HEADER_BYTES:
            break
        # The leader cuts an answer at a number of bytes, mostly within a batch.
        if parse_header(&records[at], HEADER_ALONE, &header) != 0:
            raise corrupt(partition, f"what is no record batch, at byte {at} of {size}")
        if batch_bytes(&header) > size - at:
            break
        if header.crc != crc32c(0, &records[at] + BATCH_CRC_START, batch_bytes(&header) - BATCH_CRC_START):
            raise corrupt(partition, f"a batch with a wrong checksum, at offset {header.base_offset}")
        if header.last_offset_delta < 0:
            raise corrupt(partition, f"a batch at offset {header.base_offset} that ends before it begins")
        found.append(BatchSpan(header.base_offset, header.base_offset + header.last_offset_delta + 1, header.leader_epoch))
        at += batch_bytes(&header)
    return found


cdef object corrupt(Partition partition, str what):
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{partition.topic}-{partition.index}: the leader sent {what}")


def append_fetched(Partition partition not None, object records not None, int32_t count, int64_t now_ms):
    """Stage the first `count` batches of `records`, which `spans` has read, as the leader stamped them. Returns their number of
    records. Raises KafkaError if the log refuses one; those before it are staged. `records` is kept until they are written.
    """
    cdef BatchHeader header
    cdef const uint8_t[::1] view = records
    cdef uint8_t* data = <uint8_t*>&view[0]
    cdef Py_ssize_t at = 0, size
    cdef int32_t _k
    cdef int64_t found = 0
    cdef bint fetches
    fetches = partition.replica.role == FOLLOWER or (partition.replica.role == LEADER and partition.mirrors)
    if not fetches or partition.offline is not None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, partition.offline or f"{partition.topic}-{partition.index} does not follow")
    for _k in range(count):
        if parse_header(data + at, len(view) - at, &header) != 0:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE,
                             f"{partition.topic}-{partition.index}: no batch at byte {at} of the fetched records")
        size = batch_bytes(&header)
        try:
            partition.log.stage(&header, data + at, size, records, now_ms)
        except (OSError, StorageError, MemoryError) as error:
            partition.group.failed(partition, "append", error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.topic}-{partition.index}: {error}") from error
        partition.replicated_bytes += size
        partition.note_staged(size)
        found += header.count
        at += size
    return found


def learn(Partition partition not None, int64_t high_watermark, int64_t leader_start):
    """The leader of this follower has committed everything before `high_watermark`, and deleted everything before
    `leader_start` (-1: unknown).
    """
    cdef Output progress
    partition.leader_start = max(partition.leader_start, leader_start)
    progress = partition.replica.learn(high_watermark)
    partition.take(progress)
    partition.follow_log_start()
    if progress.moved:
        partition.group.settle_moved([partition])


def was_truncated(Partition partition not None):
    """The log of this follower was truncated, with nothing staged."""
    partition.take(partition.replica.truncated(partition.log.log_end_offset))
    partition.verifications = None
    partition.wake(-1)


def was_restarted(Partition partition not None):
    """The log of this follower was replaced by an empty one."""
    partition.take(partition.replica.restarted(partition.log.log_end_offset))
    partition.verifications = None
    partition.wake(-1)
