"""The lines of a scrape for each partition: with ten thousand partitions they are nearly all of it.

One call writes one family for a part of the partitions, so that the loop can run in between.
"""

from libc.stdint cimport int64_t, uint64_t

from broker_cy.core.writer cimport Writer
from broker_cy.replica.partition cimport Partition
from broker_cy.storage.segment cimport Segment

cdef enum:
    NUMBER_BYTES = 24               # of a 64-bit number, its sign and a line end

cdef enum:
    BATCHES, RECORDS, APPENDED_BYTES, FETCHES, FETCHED_BYTES, LOG_START_OFFSET, HIGH_WATERMARK, LOG_END_OFFSET, LOG_SIZE, SEGMENTS
    PRODUCERS, UNDECIDED, REPLICATED_BYTES

# In the order of the page.
FAMILIES = (
    ("broker_cy_partition_appended_batches_total", BATCHES),
    ("broker_cy_partition_appended_records_total", RECORDS),
    ("broker_cy_partition_appended_bytes_total", APPENDED_BYTES),
    ("broker_cy_partition_replicated_bytes_total", REPLICATED_BYTES),
    ("broker_cy_partition_fetches_total", FETCHES),
    ("broker_cy_partition_fetched_bytes_total", FETCHED_BYTES),
    ("broker_cy_partition_log_start_offset", LOG_START_OFFSET),
    ("broker_cy_partition_high_watermark", HIGH_WATERMARK),
    ("broker_cy_partition_log_end_offset", LOG_END_OFFSET),
    ("broker_cy_partition_log_size_bytes", LOG_SIZE),
    ("broker_cy_partition_segments", SEGMENTS),
    ("broker_cy_partition_producers", PRODUCERS),
    ("broker_cy_partition_undecided_offsets", UNDECIDED),
)


cdef int64_t value_of(Partition partition, int family) except? -1:
    cdef Segment segment
    cdef int64_t total = 0
    if family == BATCHES:
        return partition.batches
    if family == RECORDS:
        return partition.records
    if family == APPENDED_BYTES:
        return partition.appended_bytes
    if family == REPLICATED_BYTES:
        return partition.replicated_bytes
    if family == FETCHES:
        return partition.fetches
    if family == FETCHED_BYTES:
        return partition.fetched_bytes
    if family == LOG_START_OFFSET:
        return partition.log.log_start_offset
    if family == HIGH_WATERMARK:
        return partition.replica.high.offset
    if family == LOG_END_OFFSET:
        return partition.log.log_end_offset
    if family == SEGMENTS:
        return len(partition.log.segments)
    if family == PRODUCERS:
        return partition.log.producers.count
    if family == UNDECIDED:
        return partition.replica.high.offset - partition.fetch_bound(True)
    for segment in partition.log.segments:
        total += segment.size
    return total


cdef int put_number(Writer out, int64_t value) except -1:
    """A blank, the number in decimal, and the end of the line."""
    cdef char digits[NUMBER_BYTES]
    cdef int at = NUMBER_BYTES - 1
    cdef uint64_t left = <uint64_t>value if value >= 0 else 0 - <uint64_t>value
    digits[at] = 10                     # line feed
    while True:
        at -= 1
        digits[at] = <char>(48 + left % 10)
        left //= 10
        if left == 0:
            break
    if value < 0:
        at -= 1
        digits[at] = 45                 # minus
    at -= 1
    digits[at] = 32
    return out.raw(&digits[at], NUMBER_BYTES - at)


def topic_totals(list places not None):
    """(records, bytes appended, bytes fetched) since the start over the partitions of a topic. Some of `places` may be None."""
    cdef Partition partition
    cdef int64_t records = 0, appended = 0, fetched = 0
    for partition in places:
        if partition is not None:
            records += partition.records
            appended += partition.appended_bytes
            fetched += partition.fetched_bytes
    return records, appended, fetched


def lines(bytes name not None, int family, list partitions not None, list labels not None, Py_ssize_t start, Py_ssize_t end):
    """Lines `name labels value` of partitions[start:end], whose labels are `labels` (bytes, with braces). A partition without a
    log has none.
    """
    cdef Writer out = Writer()
    cdef Partition partition
    cdef Py_ssize_t i
    for i in range(start, min(end, len(partitions))):
        partition = partitions[i]
        if partition.log is None or partition.closed:
            continue
        out.put_bytes(name)
        out.put_bytes(labels[i])
        put_number(out, value_of(partition, family))
    return out.take_value()
